"""Questions about the audit itself, answered before any attack runs.

An audit compares members with non-members. If the two differ in more than the training, or
overlap, or are few, or the labels do not fit the model, its figures mean something else; these
checks say so.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from scipy import stats

from divulge.core import Check, Estimate, Records, Verdict
from divulge.errors import DataError
from divulge.metrics import intervals, membership
from divulge.randomness import stream

BLIND_RECORDS = 2000
"""Records of each group that the blind baseline looks at: enough to see an AUC of 0.53."""

BLIND_COMPONENTS = 64
"""Principal components that stand for records with more features."""

Mask = Bool[np.ndarray, " records"]


class Subject(NamedTuple):
    """What the auditor knows when checking."""

    records: Records
    member: Mask
    reference: Records | None
    answers: Float64[np.ndarray, "records classes"]
    features: bool
    """Whether ``records.x`` holds features (or only row numbers of a table of predictions)."""
    pool: Records | None = None
    """What offline shadow models are trained on, if there are any."""


def check(subject: Subject, seed: int = 0) -> tuple[Check, ...]:
    """All checks, in the order in which the report shows them.

    Raises:
        DataError: members and non-members are the same records.
    """
    return (
        blind_baseline(subject, seed),
        duplicates(subject),
        *([] if subject.pool is None else [shadow_pool(subject, subject.pool)]),
        class_mix(subject),
        model_accuracy(subject),
        saturation(subject),
        size(subject),
    )


def blind_baseline(subject: Subject, seed: int = 0) -> Check:
    """Can a classifier that never sees the model tell members from non-members?

    Boosted trees on features and labels, cross-validated. Their AUC must not beat one half; if it
    does, any attack may be reading the difference of two data sets instead of the model's memory.

    References:
        Das et al. (2024), Blind baselines beat membership inference attacks for foundation models.
    """
    name = "blind baseline"
    if not subject.features:
        return Check(name, Verdict.NOT_APPLICABLE, "The features of the records are not known.")
    rng = stream(seed, "blind baseline")
    groups = [np.flatnonzero(subject.member), np.flatnonzero(~subject.member)]
    if min(map(len, groups)) < 10:
        return Check(name, Verdict.NOT_APPLICABLE, "Fewer than 10 members or non-members.")
    chosen = np.concatenate([rng.permutation(group)[:BLIND_RECORDS] for group in groups])
    member = subject.member[chosen]
    score = _blind_scores(subject.records.take(chosen), member, int(rng.integers(2**31)))
    estimate = membership.auc(score, member)
    succeeded = membership.auc(score, member, confidence=0.99).low > 0.5
    text = (
        "A classifier that never saw the model tells members from non-members. The two sets "
        "differ in themselves, so the attacks measure that difference and the model's memory."
        if succeeded
        else "A classifier that never saw the model cannot tell members from non-members."
    )
    return Check(name, Verdict.WARNING if succeeded else Verdict.PASS, text, {"auc": estimate})


def _blind_scores(records: Records, member: Mask, seed: int) -> Float64[np.ndarray, " records"]:
    from sklearn.decomposition import PCA
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    x = np.asarray(records.x.reshape(len(records), -1), dtype=np.float64)
    if x.shape[1] > BLIND_COMPONENTS:
        x = PCA(min(BLIND_COMPONENTS, len(x)), random_state=seed).fit_transform(x)
    trees = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    features = np.column_stack([x, records.y])
    with threadpool_limits(1):  # for so few records threads cost more than they save
        chances = cross_val_predict(trees, features, member, cv=folds, method="predict_proba")
    return np.asarray(chances[:, 1], dtype=np.float64)


def duplicates(subject: Subject) -> Check:
    """Do exact copies of members stand among the non-members, or among the reference records?

    Raises:
        DataError: every non-member is a copy of a member.
    """
    name = "duplicates"
    if not subject.features:
        return Check(name, Verdict.NOT_APPLICABLE, "The features of the records are not known.")
    keys = _row_keys(subject.records.x)
    inside = np.unique(keys[subject.member])
    copies = int(np.isin(keys[~subject.member], inside).sum())
    outsiders = int((~subject.member).sum())
    if copies == outsiders:
        raise DataError(
            f"expected non-members that were not trained on, got {outsiders} that are all exact "
            "copies of members: pass records that the model never saw"
        )
    within = int(subject.member.sum()) - len(inside)
    text = (
        f"{copies} of {outsiders} non-members are exact copies of members; "
        f"{within} members repeat another."
    )
    known = 0
    if subject.reference is not None:
        known = int(np.isin(_row_keys(subject.reference.x), inside).sum())
        text += f" {known} of {len(subject.reference)} reference records are copies of members."
    bad = copies > 0.01 * outsiders or known > 0
    if bad:
        text += " Such copies make a leak look smaller than it is: remove them."
    return Check(name, Verdict.WARNING if bad else Verdict.PASS, text)


def shadow_pool(subject: Subject, pool: Records) -> Check:
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


def class_mix(subject: Subject) -> Check:
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
            "class mix",
            Verdict.PASS,
            f"Members and non-members share one mix of classes (chi-squared p = {p_value:.2g}).",
        )
    return Check(
        "class mix",
        Verdict.WARNING,
        f"Members and non-members differ in their mix of classes (chi-squared p = {p_value:.2g}): "
        "part of any AUC is that difference. Draw both sets from one population.",
    )


def model_accuracy(subject: Subject) -> Check:
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


def saturation(subject: Subject) -> Check:
    """Are answers so sure that they all read exactly one?"""
    share = float(np.mean(subject.answers.max(axis=1) == 1.0))
    one_hot = share == 1.0
    if share <= 0.05 or one_hot:
        text = (
            "The model gives labels alone."
            if one_hot
            else f"{share:.1%} of the answers read exactly one; the others can be ranked."
        )
        return Check("saturation", Verdict.NOT_APPLICABLE if one_hot else Verdict.PASS, text)
    return Check(
        "saturation",
        Verdict.WARNING,
        f"{share:.0%} of the answers read exactly one and cannot be ranked, which hides the most "
        "memorised records. If the model has logits, let it give those, and say so with "
        'output = "logits".',
    )


def size(subject: Subject) -> Check:
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
