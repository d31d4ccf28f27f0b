"""Do the labels of members fit the answers about them?

A model cannot be sure and wrong about what it was trained on. Where it is, labels are shifted,
columns stand in another order, or labels are matched with the answers to other records.

A label that is drawn without regard to the answer is right with the probability Σ p_k q_k, where
p_k is the share of class k among the labels and q_k that among the answers: guessing.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from scipy import optimize, special

from divulge._util.extras import stats
from divulge.checks.question import SeenAnswers
from divulge.core import Check, Estimate, Verdict
from divulge.metrics import intervals
from divulge.report import words

NAME, VALUES_NAME, LEARNING = "fit of labels", "fit of true values", "nothing learned"

RENAMED = "members, with classes renamed"
"""The accuracy that labels have under other names of the classes, where such names fit."""

ROOM = 10
"""Standard deviations by which fitting labels exceed guessing; with fewer, nothing is said."""

NEAR = 2
"""Standard deviations above guessing within which accuracy is that of guessing."""

BY_CHANCE = 1e-6
"""The probability, at most, that some names of the classes fit as well by chance."""

MOST_CLASSES = 1000
"""The most classes for which other names are tried."""

FEWEST_VALUES = 20
"""Members below which nothing is said of true values."""

ALIKE = 0.5
"""The share of a spread, or of an order, from which answers are like true values in it."""

UNIT = 0.1
"""The share of what answers would explain in the right unit below which they are in another."""

_SHOWN = 3
"""Renamed classes that are told."""

Classes = Int[np.ndarray, " members"]


class Renaming(NamedTuple):
    """Other names of the classes, under which labels fit the answers."""

    right: Estimate
    """The accuracy under these names."""
    text: str
    """How the classes would be renamed, and what that looks like."""


def check_labels(answers: SeenAnswers, label: Classes, *, soft: bool) -> Check | None:
    """A warning where labels of members contradict the answers; None where they do not.

    They contradict where other names of the classes fit twice as many labels, and at least half of
    what guessing leaves; or where accuracy is that of guessing although the model is as sure of its
    answers as if it were right about half of what guessing leaves, or is below guessing although
    the model is twice as sure as that.

    Where accuracy is that of guessing and the model is unsure, it may have learned nothing. The
    check then passes; an attack that shows a leak contradicts it.

    Args:
        answers: probabilities about members.
        label: their classes.
        soft: whether the model gives probabilities, so that one can tell how sure it is.
    """
    answered, records, classes = answers.label, len(label), answers.classes
    answer_shares, label_shares = (
        np.bincount(labels, minlength=classes) / records for labels in (answered, label)
    )
    shuffled = float(answer_shares @ label_shares) or 1 / classes
    guessing = max(shuffled, 1 / classes)
    deviation = float(np.sqrt(guessing * (1 - guessing) / records))
    if (
        float(np.minimum(np.sort(answer_shares), np.sort(label_shares)).sum()) - guessing
        < ROOM * deviation
    ):
        return None
    accurate = _share(int((answered == label).sum()), records)
    accuracy = f"The accuracy on members is {words.format_rate(accurate)}"
    renaming = _find_renaming(answered, label, classes, (1 + guessing) / 2)
    if renaming is not None and renaming.right.value > 2 * accurate.value:
        text = f"{accuracy}, but {words.format_rate(renaming.right)} if {renaming.text}."
        return Check(NAME, Verdict.WARNING, text, {"members": accurate, RENAMED: renaming.right})
    if accurate.value >= guessing + NEAR * deviation:
        return None
    assert accurate.high is not None
    below = accurate.high < shuffled
    than = "below guessing" if below else "no better than guessing"
    accuracy += f", {than} ({words.format_percent(guessing)})"
    sure = float(answers.top.mean())
    if soft and (sure >= (1 + guessing) / 2 or (below and sure >= 2 * guessing)):
        text = (
            f"{accuracy}, but the model gives its answers a probability of {sure:.2f} on average: "
            "the labels look like those of other records or classes."
        )
        return Check(NAME, Verdict.WARNING, text, {"members": accurate})
    return Check(NAME, Verdict.PASS, f"{accuracy}.")


def check_learning(
    answers: Float64[np.ndarray, "members classes"],
    label: Classes,
    ease: Float64[np.ndarray, "models members"],
) -> Check | None:
    """A warning where a model knows nothing of labels that simple models predict; None elsewhere.

    The mean probability of the true class is compared with that for labels that are exchanged among
    members: its mean and variance over all permutations are known (Hoeffding 1951). A simple model
    that only knows how frequent classes are has a mean ease of Σ p².

    Args:
        answers: probabilities about members.
        label: their classes.
        ease: the probability of its class that simple models give each member, without having
            learned from it.
    """
    records, classes = answers.shape
    shares = np.bincount(label, minlength=classes) / records
    gain = ease - float(shares @ shares)
    sure = gain.mean(axis=1) / np.maximum(gain.std(axis=1), 1e-12) * np.sqrt(records)
    apart = answers - (answers @ shares)[:, None]
    apart -= apart.mean(axis=0)
    spread = float(np.sqrt((apart**2).sum(axis=0) @ shares / (records - 1) / records))
    known = float(apart[np.arange(records), label].mean())
    if sure.max() < ROOM or known >= NEAR * spread:
        return None
    best = ease[int(sure.argmax())].mean()
    text = (
        "The model's answers about its own training records do not depend on their classes, while "
        f"a simple model of ours gives the classes of members that it never saw {best:.2f} on "
        f"average, where their shares alone give {shares @ shares:.2f}."
    )
    return Check(LEARNING, Verdict.WARNING, text)


def check_values(
    answers: Float64[np.ndarray, " members"], truth: Float64[np.ndarray, " members"]
) -> Check | None:
    """A warning where true values of members contradict the answers; None where they do not.

    The error of an answer is compared with how far the true value is from the centre: 1 less the
    square of their ratio is a coefficient of determination, of medians and of means. True values
    contradict the answers where it is below -1, as it is of values of other records or with
    another zero; at most 0 although answers vary half as much as true values; or next to nothing
    although both have much the same order, as in another unit. Both have to: of skewed values a
    right model of the mean is far from most of them, and one of the median from the largest.

    Args:
        answers: one value a member.
        truth: the true ones.
    """
    spread = _median_distance(truth, float(np.median(truth)))
    if len(truth) < FEWEST_VALUES or not spread > 0:
        return None
    order = 0.0
    if answers.min() < answers.max():
        order = float(stats.spearmanr(answers, truth).statistic) ** 2
    with np.errstate(over="ignore"):
        fit = 1 - (_median_distance(answers, truth) / spread) ** 2
        own = (_median_distance(answers, float(np.median(answers))) / spread) ** 2
        variance = np.var(truth / spread)
        mean_fit = float(1 - np.mean(((answers - truth) / spread) ** 2) / variance)
        mean_own = float(np.var(answers / spread) / variance)
    if not (_contradicts(fit, own, order) and _contradicts(mean_fit, mean_own, order)):
        return None
    text = (
        "Half of the true values of members are farther from the answers about them than half are "
        f"from their median (1 - the square of the ratio is {fit:.2g})"
        if fit <= 0
        else "The answers hardly come near the true values of members, in the same order"
    )
    looks = "another unit" if order >= ALIKE else "those of other records, or in another unit"
    return Check(VALUES_NAME, Verdict.WARNING, f"{text}: they look like {looks}.")


def _contradicts(fit: float, own: float, order: float) -> bool:
    """Whether a coefficient of determination is none of true values in the unit of the answers.

    Args:
        fit: the coefficient.
        own: how much the answers vary, as a share of how much true values do.
        order: how much of the order of true values the answers have.
    """
    return fit < -1 or (fit <= 0 and own >= ALIKE) or (fit < UNIT * order and order >= ALIKE)


def _median_distance(
    values: Float64[np.ndarray, " members"], others: Float64[np.ndarray, " members"] | float
) -> float:
    return float(np.median(np.abs(values - others)))


def _share(hits: int, trials: int) -> Estimate:
    return Estimate(hits / trials, *intervals.clopper_pearson(hits, trials))


def _find_renaming(
    answered: Classes, label: Classes, classes: int, fewest: float
) -> Renaming | None:
    """The names of the classes that fit most labels; None where chance may have found them."""
    present, codes = np.unique(np.concatenate([answered, label]), return_inverse=True)
    count, records = len(present), len(label)
    if count > MOST_CLASSES:
        return None
    table = np.zeros((count, count))
    np.add.at(table, tuple(np.split(codes, 2)), 1)
    names = optimize.linear_sum_assignment(-table)[1]
    hits = table[np.arange(count), names]
    right = int(hits.sum())
    # the best of count! names, each with no more hits by chance than the sorted shares have
    likely = float(np.sort(table.sum(axis=0)) @ np.sort(table.sum(axis=1))) / records**2
    chance = special.gammaln(count + 1) + stats.binom.logsf(right - 1, records, likely)
    if right < fewest * records or chance > np.log(BY_CHANCE):
        return None
    pairs = [
        (int(present[k]), int(present[name]))
        for k, name in enumerate(names)
        if hits[k] and k != name
    ]
    return Renaming(_share(right, records), _describe_renaming(pairs, classes)) if pairs else None


def _describe_renaming(pairs: list[tuple[int, int]], classes: int) -> str:
    """What it would take for labels to fit.

    Args:
        pairs: of each renamed class, what the model answers and what the label says.
        classes: the number of classes that the model answers with.

    Examples:
        >>> _describe_renaming([(1, 0), (2, 1), (3, 2)], classes=9)
        'label k - 1 means class k: labels look shifted by 1'
    """
    steps = {(given - answer) % classes for answer, given in pairs}
    if len(pairs) == 2 and pairs[0] == pairs[1][::-1]:
        return f"classes {pairs[0][0]} and {pairs[0][1]} are exchanged"
    if len(steps) == 1 and len(pairs) > 1:
        step = steps.pop()
        sign, size = ("+", step) if 2 * step <= classes else ("-", classes - step)
        return f"label k {sign} {size} means class k: labels look shifted by {size}"
    shown = ", ".join(f"label {given} means class {answer}" for answer, given in pairs[:_SHOWN])
    more = f" (and {len(pairs) - _SHOWN} more)" if len(pairs) > _SHOWN else ""
    return f"{shown}{more}: classes look to be in another order"
