"""Questions about the audit itself, answered before any attack runs.

An audit compares members with non-members. If the two differ in more than the training, or
overlap, or are few, or the labels do not fit the model, its figures mean something else; these
checks say so.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped
from scipy import stats

from divulge._util.random import stream
from divulge.audits.checks import answers as of_answers
from divulge.audits.checks import (
    blind_baseline,
    difficulty,
    fit_of_labels,
    near_copies,
    precision,
    repeats,
)
from divulge.audits.checks.duplicates import Copies, PoolCopies
from divulge.core import Check, Estimate, Records, Verdict
from divulge.core.check_names import BLIND, CLASSES, DIFFICULTY, DUPLICATES, VALUES
from divulge.errors import DataError
from divulge.metrics import intervals
from divulge.metrics.difficulty_test import Ease

SAME = 1e-3
"""Probabilities of one record that differ by less are the same answer: batches of other sizes are
rounded otherwise. Values are compared in standard deviations of the true ones."""

_MOST_TIED = 0.05
"""Share of the records that may be the surest of all alike, without a warning."""

Mask = Bool[np.ndarray, " records"]


class CheckInputs(NamedTuple):
    """What the auditor knows when checking."""

    records: Records
    member: Mask
    reference: Records | None
    answers: Float64[np.ndarray, "records classes"]
    features: bool
    """Whether ``records.x`` holds features (or only row numbers of a table of predictions)."""
    pool: Records | None = None
    """What offline shadow models are trained on, if there are any."""
    copies: Copies | PoolCopies | None = None
    """What was set aside because it stood twice; None where features are unknown."""
    again: "SecondPredictions | None" = None
    """What the model said when it was asked again; None where it could not be."""
    soft: bool = True
    """Whether the model gives probabilities (or only labels)."""
    declared: bool = False
    """Whether the user, and not the model, says that its answers are probabilities."""
    scores: bool = False
    """Whether ``answers`` are one score a record, and nothing is known of classes."""
    ease: Ease | None = None
    """How easy each record is for what never saw it; None if nobody knows."""
    blind: str = ""
    """The column that says so; empty where models of the records do."""


class SecondPredictions(NamedTuple):
    """Some of the candidates, about which the model was asked twice."""

    rows: Int[np.ndarray, " asked"]
    answers: Float64[np.ndarray, "asked classes"]
    """The second ones."""


def check_records(subject: CheckInputs, seed: int = 0) -> tuple[Check, ...]:
    """All checks, in the order in which the report shows them.

    Raises:
        DataError: the pool of the shadows has other features than the candidates.
    """
    baselines = check_baselines(subject, seed)
    doubts = check_for_doubts(subject, alike=baselines[0].verdict is Verdict.PASS)
    if subject.scores:
        return (
            *baselines,
            check_copies(subject),
            *check_precision(subject),
            check_ties(subject),
            check_size(subject),
            *doubts,
        )
    regression = subject.records.regression
    return (
        *baselines,
        check_copies(subject),
        *([] if subject.pool is None else [check_shadow_pool(subject, subject.pool)]),
        *check_precision(subject),
        check_true_values(subject) if regression else check_class_shares(subject),
        check_error(subject) if regression else check_accuracy(subject),
        check_repeatability(subject),
        *([] if regression else [check_saturation(subject)]),
        check_size(subject),
        *doubts,
    )


def check_for_doubts(subject: CheckInputs, *, alike: bool) -> tuple[Check, ...]:
    """What makes the inputs doubtful: rows, answers and labels that contradict each other.

    Args:
        subject: what the auditor knows.
        alike: whether a classifier looked at members and non-members, and did not tell them apart.
    """
    records, member, answers = subject.records, subject.member, subject.answers
    known = subject.copies.left if isinstance(subject.copies, Copies) else None
    repeated = repeats.check_repeats(known, answers, records.y, member)
    if repeated is None and alike:
        repeated = _check_near_copies(records, member)
    found = [of_answers.check_equal_answers(answers, records.y), repeated]
    if not (records.regression or subject.scores):
        found.append(
            fit_of_labels.check_labels(answers[member], records.y[member], soft=subject.soft)
        )
        if subject.declared:
            found.append(of_answers.check_certain_answers(answers))
    return tuple(check for check in found if check is not None)


def _check_near_copies(records: Records, member: Mask) -> Check | None:
    if len(records) > near_copies.CANDIDATES:
        return None
    return near_copies.check_near_copies(blind_baseline.describe_features(records, 0), member)


def check_baselines(subject: CheckInputs, seed: int = 0) -> tuple[Check, ...]:
    """Can a classifier that never sees the model tell the sets of records apart?

    And does anything that never saw the model find the ones harder than the others?
    """
    records, member = subject.records, subject.member
    rng = stream(seed, DIFFICULTY, "permutations")
    shift = difficulty.check_difficulty(subject.ease, member, records.stratum, rng, subject.blind)
    if not subject.features:
        text = "The features of the records are not known."
        return (Check(BLIND, Verdict.NOT_APPLICABLE, text), shift)
    sets = blind_baseline.recall_separation(
        records.take(member), records.take(~member), subject.reference, seed
    )
    return (*sets, *([] if subject.ease is None else [shift]))


def check_copies(subject: CheckInputs) -> Check:
    """How many exact copies were set aside, so that none stands in more than one set?"""
    name = DUPLICATES
    if subject.copies is None:
        return Check(name, Verdict.NOT_APPLICABLE, "The features of the records are not known.")
    return Check(name, Verdict.PASS, subject.copies.said)


def check_precision(subject: CheckInputs) -> tuple[Check, ...]:
    """Was one set, or what the model said of it, written with fewer digits than the other?"""
    coarser = None
    if subject.features:
        rows = precision.choose(subject.member)
        features = subject.records.take(rows).features()
        coarser = precision.compare_columns(features, subject.member[rows], subject.records.columns)
    if coarser is None:
        coarser = _compare_answers(subject)
    return () if coarser is None else (precision.warn(coarser),)


def _compare_answers(subject: CheckInputs) -> precision.Coarser | None:
    answers, member = subject.answers, subject.member
    valued = subject.records.regression or subject.scores
    # a model may repeat what it remembers: values digit by digit, classes with certainty
    told = answers[:, 0] == subject.records.y if valued else answers.max(axis=1) == 1
    rows = np.flatnonzero(~told)[precision.choose(member[~told])]
    compare = precision.compare_columns if valued else precision.compare_probabilities
    return compare(answers[rows], member[rows])


def check_repeatability(subject: CheckInputs) -> Check:
    """Does the model give the same answer when it is asked again?"""
    name = "repeatability"
    if subject.again is None:
        text = "The model could not be asked about a record twice."
        return Check(name, Verdict.NOT_APPLICABLE, text)
    rows, answers = subject.again
    apart = np.abs(answers - subject.answers[rows]).max(axis=1)
    regression = subject.records.regression
    same = SAME * (float(np.std(subject.records.y)) or 1.0) if regression else SAME
    changed = int((apart > same).sum())
    if not changed:
        text = f"Asked again about {len(rows)} records, the model gave the same answers."
        return Check(name, Verdict.PASS, text)
    unit = "" if regression else " in a probability"
    return Check(
        name,
        Verdict.WARNING,
        f"Asked again about {len(rows)} records, the model changed its answer about {changed} of "
        f"them, by up to {apart.max():.2g}{unit}. Answers that depend on chance, or on "
        "the other records of a batch, blur every figure: switch off dropout and batch statistics "
        "(model.eval() in PyTorch), or fix the seed of the answers.",
    )


def check_shadow_pool(subject: CheckInputs, pool: Records) -> Check:
    """Do candidates stand in the pool that offline shadow models are trained on?

    Raises:
        DataError: the pool has other features than the candidates.
    """
    name = "shadow pool"
    if pool.x.shape[1:] != subject.records.x.shape[1:]:
        raise DataError(
            f"expected a pool with records of shape {subject.records.x.shape[1:]}, got "
            f"{pool.x.shape[1:]}: prepare it in the same way as the candidates"
        )
    if not subject.features:
        return Check(name, Verdict.NOT_APPLICABLE, "The features of the records are not known.")
    taught = _row_keys(np.asarray(pool.x, dtype=subject.records.x.dtype))
    known = np.isin(_row_keys(subject.records.x), taught)
    inside, outside = int(known[subject.member].sum()), int(known[~subject.member].sum())
    text = (
        f"{inside} of {int(subject.member.sum())} members and {outside} of "
        f"{int((~subject.member).sum())} non-members also stand in the pool of the shadow models."
    )
    if inside or outside:
        text += (
            " Shadows trained on them pass for shadows that never saw them, so LiRA, RMIA and "
            "others make a leak look smaller than it is: take them out of the pool."
        )
    return Check(name, Verdict.WARNING if inside or outside else Verdict.PASS, text)


def _row_keys(x: Shaped[np.ndarray, "records *features"]) -> Shaped[np.ndarray, " records"]:
    """Each row's bytes as one value that can be sorted and compared."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1])))[:, 0]


def check_class_shares(subject: CheckInputs) -> Check:
    """Do members and non-members have the same share of each class?"""
    labels = subject.records.y
    table = np.stack(
        [
            np.bincount(labels[m], minlength=labels.max() + 1)
            for m in (subject.member, ~subject.member)
        ]
    )
    table = table[:, table.sum(axis=0) > 0]
    p_value = float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0
    if p_value >= 0.001:
        return Check(
            CLASSES,
            Verdict.PASS,
            f"Members and non-members share one mix of classes (chi-squared p = {p_value:.2g}).",
        )
    return Check(
        CLASSES,
        Verdict.WARNING,
        f"Members and non-members differ in their mix of classes (chi-squared p = {p_value:.2g}): "
        "part of any AUC is that difference. Draw both sets from one population.",
    )


def check_accuracy(subject: CheckInputs) -> Check:
    """Is the model better on its training records, and do the labels fit it at all?"""
    right = subject.answers.argmax(axis=1) == subject.records.y
    estimates = {}
    for group, mask in (("members", subject.member), ("non-members", ~subject.member)):
        hits, trials = int(right[mask].sum()), int(mask.sum())
        estimates[group] = Estimate(hits / trials, *intervals.wilson(hits, trials))
    lost = estimates["members"].high
    assert lost is not None
    if lost < 1 / subject.answers.shape[1]:
        return Check(
            "model accuracy",
            Verdict.WARNING,
            "The model is worse than guessing on its own training records: the labels probably "
            "count the classes in another order than the model does.",
            estimates,
        )
    return Check(
        "model accuracy",
        Verdict.PASS,
        "The model's accuracy on training records beside that on records it never saw; the gap is "
        "what the hard-label attack lives on.",
        estimates,
    )


def check_true_values(subject: CheckInputs) -> Check:
    """Do members and non-members have the same distribution of true values?"""
    values = subject.records.y
    p_value = float(stats.ks_2samp(values[subject.member], values[~subject.member]).pvalue)
    said = f"(Kolmogorov-Smirnov p = {p_value:.2g})"
    if p_value >= 0.001:
        text = f"Members and non-members share one distribution of true values {said}."
        return Check(VALUES, Verdict.PASS, text)
    return Check(
        VALUES,
        Verdict.WARNING,
        f"Members and non-members differ in their true values {said}: part of any AUC is that "
        "difference. Draw both sets from one population.",
    )


def check_error(subject: CheckInputs) -> Check:
    """Is the model nearer to its training records, and does it answer in the unit of the values?"""
    values = subject.records.y
    error = np.abs(values - subject.answers[:, 0])
    estimates = {
        group: _mean_with_interval(error[mask])
        for group, mask in (("members", subject.member), ("non-members", ~subject.member))
    }
    # what one number for all records would miss them by: no model needs features for that
    constant = float(np.mean(np.abs(values - np.median(values))))
    if estimates["members"].low > constant:
        return Check(
            "model error",
            Verdict.WARNING,
            "The model is further from the true values of its own training records than one number "
            "for all of them would be: the true values are probably in another unit, or on another "
            "scale, than its answers.",
            estimates,
        )
    return Check(
        "model error",
        Verdict.PASS,
        "The mean absolute error on training records beside that on records it never saw, in the "
        "unit of the true values; the gap is what attacks on residuals live on.",
        estimates,
    )


def _mean_with_interval(error: Float64[np.ndarray, " records"]) -> Estimate:
    """The mean with Student's interval, no lower than 0; that of one record is all there is."""
    mean, count = float(error.mean()), len(error)
    if count < 2:
        return Estimate(mean, 0.0, None)
    margin = float(stats.t.ppf(0.975, count - 1) * error.std(ddof=1) / np.sqrt(count))
    return Estimate(mean, max(0.0, mean - margin), mean + margin)


def check_saturation(subject: CheckInputs) -> Check:
    """Are answers so sure that they all read exactly one?"""
    share = float(np.mean(subject.answers.max(axis=1) == 1.0))
    one_hot = share == 1.0
    if share <= _MOST_TIED or one_hot:
        text = (
            "The model gives labels alone."
            if one_hot
            else f"{share:.1%} of the answers read exactly one; the others can be ranked."
        )
        return Check("saturation", Verdict.NOT_APPLICABLE if one_hot else Verdict.PASS, text)
    return Check(
        "saturation",
        Verdict.WARNING,
        f"{share:.0%} of the predictions read exactly one and cannot be ranked, which hides the "
        "most memorised records. An attacker tosses a coin among them, and so do the figures. If "
        'this is a network, let it give logits, and say so with output = "logits".',
    )


def check_ties(subject: CheckInputs) -> Check:
    """Do many records share the highest score, so that nobody can rank them?"""
    name, score = "ties", subject.answers[:, 0]
    share = float(np.mean(score == score.max()))
    if share <= _MOST_TIED:
        text = f"{share:.1%} of the records share the highest score; the others can be ranked."
        return Check(name, Verdict.PASS, text)
    return Check(
        name,
        Verdict.WARNING,
        f"{share:.0%} of the records share the highest score and cannot be ranked, which hides the "
        "most memorised ones. An attacker tosses a coin among them, and so do the figures. If they "
        "were rounded, or cut off at 0, compute them in float64 and from logits.",
    )


def check_size(subject: CheckInputs) -> Check:
    """What can so many records show?"""
    m, n = int(subject.member.sum()), int((~subject.member).sum())
    visible = intervals.normal_quantile(0.95) * np.sqrt((m + n + 1) / (12 * m * n))
    below = f"an AUC below {0.5 + visible:.3f}" if visible < 0.5 else "no AUC at all"
    text = (
        f"{m} members and {n} non-members: the smallest false-positive rate that can be measured "
        f"is {1 / n:.2g}, and {below} can{'not' if visible < 0.5 else ''} be told from chance."
    )
    few = min(m, n) < 100
    return Check("size", Verdict.WARNING if few else Verdict.PASS, text)
