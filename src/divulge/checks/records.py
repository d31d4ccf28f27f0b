"""Questions about the audit itself, answered before any attack runs.

An audit compares members with non-members. If the two differ in more than the training, or
overlap, or are few, or the labels do not fit the model, its figures mean something else; these
checks say so.
"""

import numpy as np
from jaxtyping import Int, Shaped

from divulge._util.extras import stats
from divulge._util.random import stream
from divulge.checks import answers as of_answers
from divulge.checks import (
    blind_baseline,
    difficulty,
    fit_of_labels,
    near_copies,
    precision,
    repeats,
)
from divulge.checks import model as of_model
from divulge.checks.class_mix import check_class_shares, check_true_values
from divulge.checks.duplicates import Copies
from divulge.checks.question import CheckInputs, Mask
from divulge.core import Check, Records, Verdict
from divulge.core.check_names import (
    BLIND,
    DIFFICULTY,
    DUPLICATES,
    RECORDS_EACH,
)
from divulge.errors import DataError
from divulge.metrics import intervals, people


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
            *check_records_each(subject),
            *check_precision(subject),
            of_model.check_ties(subject),
            check_size(subject),
            *doubts,
        )
    regression = subject.records.regression
    return (
        *baselines,
        check_copies(subject),
        *([] if subject.pool is None else [check_shadow_pool(subject, subject.pool)]),
        *check_records_each(subject),
        *check_precision(subject),
        check_true_values(subject) if regression else check_class_shares(subject),
        of_model.check_error(subject) if regression else of_model.check_accuracy(subject),
        of_model.check_repeatability(subject),
        *([] if regression else [of_model.check_saturation(subject)]),
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
    rows = _choose_one_a_person(records)  # several records of a person are no repeats
    known = subject.copies.left if isinstance(subject.copies, Copies) and rows is None else None
    rows = np.arange(len(records)) if rows is None else rows
    repeated = repeats.check_repeats(known, answers.take(rows), records.y[rows], member[rows])
    if repeated is None and alike:
        repeated = _check_near_copies(records.take(rows), member[rows])
    checks = [of_answers.check_equal_answers(answers, records.y), repeated]
    if not (records.regression or subject.scores or records.unlabelled_texts):
        checks.append(
            fit_of_labels.check_labels(answers.take(member), records.y[member], soft=subject.soft)
        )
        if subject.declared:
            checks.append(of_answers.check_certain_answers(answers))
        if subject.ease is not None and not subject.blind and records.people is None:
            checks.append(
                fit_of_labels.check_learning(
                    answers.read(np.flatnonzero(member)),
                    records.y[member],
                    subject.ease[:, member],
                )
            )
    if records.regression:
        checks.append(fit_of_labels.check_values(answers.top[member], records.y[member]))
    if subject.again is not None:
        checks.append(of_model.check_chance(subject, subject.again))
    return tuple(check for check in checks if check is not None)


def _choose_one_a_person(records: Records) -> Int[np.ndarray, " people"] | None:
    """One record of each person, at random; None where each record is somebody else's."""
    if (person := records.people) is None:
        return None
    order = stream(0, "one record a person").permutation(len(person))
    return np.asarray(order[np.unique(person[order], return_index=True)[1]])


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
    drawn, stratum = member, records.stratum
    if (person := records.people) is not None:
        drawn, stratum = people.first_of_each(member, person), people.most_frequent(stratum, person)
    shift = difficulty.check_difficulty(subject.ease, drawn, stratum, rng, subject.blind)
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
    revealing = answers.top == (subject.records.y if valued else 1)
    rows = np.flatnonzero(~revealing)[precision.choose(member[~revealing])]
    compare = precision.compare_columns if valued else precision.compare_probabilities
    return compare(answers.read(rows), member[rows])


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


def check_records_each(subject: CheckInputs) -> tuple[Check, ...]:
    """Do people of both sets have as many records? The highest of more scores is higher."""
    if (person := subject.records.people) is None:
        return ()
    each, member = np.bincount(person), people.first_of_each(subject.member, person)
    if each.min() == each.max():
        p_value = 1.0
    else:
        p_value = float(stats.mannwhitneyu(each[member], each[~member]).pvalue)
    means = f"{each[member].mean():.3g} and {each[~member].mean():.3g} on average"
    if p_value >= 0.001:
        text = f"Members and non-members have as many records each ({means}, p = {p_value:.2g})."
        return (Check(RECORDS_EACH, Verdict.PASS, text),)
    text = (
        f"Members and non-members differ in how many records each has ({means}, Mann-Whitney p = "
        f"{p_value:.2g}): part of any figure is that difference, since the highest of many scores "
        "is higher than that of few. Draw people of both sets from one population."
    )
    return (Check(RECORDS_EACH, Verdict.WARNING, text),)


def check_size(subject: CheckInputs) -> Check:
    """What can so many records show?"""
    person = subject.records.people
    member = subject.member if person is None else people.first_of_each(subject.member, person)
    m, n = int(member.sum()), int((~member).sum())
    visible = intervals.normal_quantile(0.95) * np.sqrt((m + n + 1) / (12 * m * n))
    below = f"an AUC below {0.5 + visible:.3f}" if visible < 0.5 else "no AUC at all"
    each = "" if person is None else f", people with {len(person):,} records"
    text = (
        f"{m} members and {n} non-members{each}: the smallest false-positive rate that can be "
        f"measured is {1 / n:.2g}, and {below} can{'not' if visible < 0.5 else ''} be told from "
        "chance."
    )
    few = min(m, n) < 100
    return Check("size", Verdict.WARNING if few else Verdict.PASS, text)
