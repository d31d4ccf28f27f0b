"""Do all records have one answer? Are probabilities classes in truth?"""

import numpy as np
from jaxtyping import Float64, Real

from divulge.checks.question import SeenAnswers
from divulge.core import Check, Estimate, Verdict
from divulge.metrics import intervals
from divulge.report import words

EQUAL, CERTAIN, ENDLESS = "equal answers", "answers of 0 and 1", "infinite numbers"
CHANCE = "answers by chance"
"""Names of the checks."""

ROUNDING = 1e-5
"""What float32 and batches of other sizes leave of equal probabilities, as a share of each."""

OF_VALUES = (1e-6, 1e-3)
"""The same of equal values: as a share of them, and in standard deviations of the true ones."""

MOST = 0.5
"""The share of answers that are exactly 0 and 1, or of variance, above which it is most."""

FEWEST_ASKED = 10
"""Records asked about twice, with fewer of which nothing is said of chance."""


def check_equal_answers(answers: SeenAnswers, truth: Real[np.ndarray, " records"]) -> Check | None:
    """A warning where the answers about all records are one and the same; None elsewhere.

    Args:
        answers: probabilities or values about the candidates.
        truth: their classes, or their true values.
    """
    low, high = answers.ends
    if answers.classes > 1:
        allowed = ROUNDING * high
    else:
        share, spread = OF_VALUES
        allowed = np.minimum(share * np.abs(answers.ends).max(), spread * np.std(truth))
    if (high - low > allowed).any():
        return None
    what = "number" if answers.classes == 1 else "answer"
    text = (
        f"The model gives one and the same {what} to all {len(truth):,} records: "
        "it does not look at them, or the answer to one was taken for all."
    )
    return Check(EQUAL, Verdict.WARNING, text)


def check_certain_answers(answers: SeenAnswers) -> Check | None:
    """A warning where most declared probabilities are exactly 0 or 1; None elsewhere.

    Args:
        answers: what the user, and not the model, calls probabilities.
    """
    certain, records = int(answers.sole.sum()), len(answers.sole)
    if certain <= MOST * records:
        return None
    share = words.format_rate(
        Estimate(certain / records, *intervals.clopper_pearson(certain, records))
    )
    text = (
        f"{share} of the answers are exactly 0 and 1 although they are declared probabilities: "
        "they look like classes, or rounded, so nothing tells these records apart."
    )
    return Check(CERTAIN, Verdict.WARNING, text)


def check_changing_answers(
    first: Float64[np.ndarray, "asked columns"],
    second: Float64[np.ndarray, "asked columns"],
    truth: Real[np.ndarray, " asked"],
    same: float,
) -> Check | None:
    """A warning where chance makes up half of what tells records apart; None elsewhere.

    Looked at is the probability of the true class, or the error of a value. Half of the variance of
    its change from one answer to the other is due to chance; compared with all of its variance.

    Args:
        first: answers about some candidates.
        second: those when asked again.
        truth: their classes, or their true values.
        same: the change up to which an answer is the same one.
    """
    if first.shape[1] > 1:
        rows = np.arange(len(truth))
        before, after = (given[rows, truth.astype(np.int64)] for given in (first, second))
    else:
        before, after = truth - first[:, 0], truth - second[:, 0]
    changed = int((np.abs(before - after) > same).sum())
    if len(truth) < FEWEST_ASKED or changed <= MOST * len(truth):
        return None
    share = float(np.var(before - after) / 2 / np.var(np.concatenate([before, after])))
    if share <= MOST:
        return None
    text = (
        f"Asked twice about {len(truth)} records, the model changed what it says of the truth for "
        f"{changed} of them: chance makes up {min(share, 1.0):.0%} of the variance between records."
    )
    return Check(CHANCE, Verdict.WARNING, text)


def check_endless(kind: str, endless: int, records: int) -> tuple[Check, ...]:
    """A warning where most records have an infinite loss, or a score of minus infinity.

    Args:
        kind: ``loss`` or ``score``.
        endless: how many of them there are.
        records: how many records there are in all.
    """
    if endless <= MOST * records:
        return ()
    text = (
        f"{endless:,} of {records:,} records have an infinite {kind}, and are ranked as equals: "
        "nothing tells them apart."
    )
    return (Check(ENDLESS, Verdict.WARNING, text),)
