"""The difficulty baseline: are members easier than non-members for models that never saw either?

Non-members of a later year, of another source or with noisier labels are harder, for the audited
model too. So models of our own learn from members alone, and each record is scored by one that did
not learn from it: a member by one that learned from other members. Shadow models that are trained
on both sets would learn what is new about the non-members, and hide it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.digest import digest
from divulge._util.random import stream
from divulge._util.recent import RecentResults
from divulge.checks import near_copies
from divulge.checks.blind_baseline import FALSE_ALARM, FEWEST, RECORDS, describe_features
from divulge.core import Check, Records, Verdict
from divulge.core.check_names import DIFFICULTY
from divulge.metrics import membership, people
from divulge.metrics.difficulty_test import Ease, join_measures
from divulge.metrics.max_test import Strata
from divulge.metrics.membership import CHANCE_AUC
from divulge.metrics.permutation import rank_sum_p

FOLDS, TREES = 4, 25
"""Parts that are scored in turn by models of the others; and trees of a forest."""

_UNKNOWN = (
    "The features of the records are not known, so nothing tells whether members and non-members "
    "differ without the model. If members were drawn at random, say how (membership); or name a "
    "column that comes from elsewhere, such as a date or another model's loss, as blind."
)

Mask = Bool[np.ndarray, " records"]
Features = Float64[np.ndarray, "records columns"]
_Model = Callable[[int], Any]

_LAST = RecentResults[Ease | None](2)
"""Several models are audited on the same records, which are as easy for each audit."""


def recall_ease(records: Records, member: Mask, seed: int) -> Ease | None:
    """What `measure_ease` measures, or has measured last of the same records; not to be changed.

    Args:
        records: all candidates.
        member: which are members.
        seed: of the audit.
    """

    def measure() -> Ease | None:
        ease = measure_ease(records, member, stream(seed, "difficulty baseline"))
        if ease is not None:
            ease.flags.writeable = False
        return ease

    if records.encoding is not None:  # the features are not those in `x`
        return measure()
    people = () if records.people is None else (records.people,)
    return _LAST.get(digest(str(seed), records.x, records.y, member, *people), measure)


def measure_ease(records: Records, member: Mask, rng: np.random.Generator) -> Ease | None:
    """How easy each record is for a linear model and a forest that did not learn from it.

    The ease is the probability of the record's own class or, for true values, how near the answer
    is. Members and non-members are dealt alike to four parts, near copies to one; those of a part
    are scored by models of the members in the other parts, of which there are 2,000 at most. Of
    more than 10,000 candidates near copies are not looked for. Where records are grouped by person,
    all those of a person are in one part.

    Args:
        records: all candidates.
        member: which are members.
        rng: deals the records.

    Returns:
        One row a model; None where a set has fewer than 10 records.
    """
    if min(member.sum(), (~member).sum()) < FEWEST:
        return None
    fold = _deal(member, rng)
    features = describe_features(records, int(rng.integers(2**31)))
    if (person := records.people) is None:
        fold = fold[_find_groups(features, member)]
    else:
        fold = people.first_of_each(fold, person)[person]
    learned = member & (rng.permutation(len(member)) < RECORDS * len(member) / member.sum())
    ease = np.empty((2, len(records)))
    for part in range(FOLDS):
        taught, scored = learned & (fold != part), fold == part
        for row, make in zip(ease, _makers(records), strict=True):
            row[scored] = _score(make(part), features, records, taught, scored)
    return ease


def _deal(member: Mask, rng: np.random.Generator) -> Int[np.ndarray, " records"]:
    fold = np.empty(len(member), np.int64)
    for group in (member, ~member):
        fold[group] = rng.permutation(int(group.sum())) % FOLDS
    return fold


def _find_groups(features: Features, member: Mask) -> Int[np.ndarray, " records"]:
    """By record, the one among its near copies that decides on the part of all.

    A model that learned from a near copy knows the record: members would be easier than
    non-members, which have none among the members.
    """
    if len(features) > near_copies.CANDIDATES:
        return np.arange(len(features))
    rng = stream(0, "near copies")
    order = rng.permutation(len(features))
    clumps = near_copies.find_clumps(features[order], member[order])
    group = np.empty(len(features), np.int64)
    group[order] = order[near_copies.group_near_copies(clumps, rng)]
    return group


def _makers(records: Records) -> tuple[_Model, _Model]:
    from sklearn import ensemble, linear_model, pipeline, preprocessing

    def scale(model: Any) -> Any:
        return pipeline.make_pipeline(preprocessing.StandardScaler(), model)

    if records.regression:
        return (
            lambda _: scale(linear_model.Ridge()),
            lambda seed: ensemble.ExtraTreesRegressor(TREES, min_samples_leaf=2, random_state=seed),
        )
    return (
        lambda _: scale(linear_model.LogisticRegression(max_iter=100, tol=1e-3)),
        lambda seed: ensemble.ExtraTreesClassifier(TREES, min_samples_leaf=2, random_state=seed),
    )


def _score(
    model: Any, features: Features, records: Records, taught: Mask, scored: Mask
) -> Float64[np.ndarray, " scored"]:
    from threadpoolctl import threadpool_limits

    labels = records.y[scored]
    if not records.regression and len(np.unique(records.y[taught])) < 2:
        return np.asarray(np.isin(labels, records.y[taught]), np.float64)
    with threadpool_limits(1):  # for so few records threads cost more than they save
        model.fit(features[taught], records.y[taught])
        if records.regression:
            return np.asarray(-np.abs(model.predict(features[scored]) - labels))
        chances = model.predict_proba(features[scored])
    place = np.searchsorted(model.classes_, labels).clip(max=len(model.classes_) - 1)
    own: Float64[np.ndarray, " scored"] = chances[np.arange(len(labels)), place]
    return np.where(model.classes_[place] == labels, own, 0.0)


def check_difficulty(
    ease: Ease | None, member: Mask, strata: Strata, rng: np.random.Generator, column: str = ""
) -> Check:
    """Do members and non-members of one class differ in how hard they are?

    Args:
        ease: how easy each record is; None if nothing is known of it.
        member: which records are members.
        strata: the class of each record, or the fifth that its true value is in.
        rng: draws the permutations.
        column: which column of a table says how easy records are; empty where models do.
    """
    if ease is None:
        return Check(DIFFICULTY, Verdict.NOT_APPLICABLE, _UNKNOWN)
    score = join_measures(ease)
    auc = membership.auc(score, member)
    # whether a column rises or falls with the ease is not known
    if column and auc.value < CHANCE_AUC:
        auc = membership.auc(-score, member)
    p_value = rank_sum_p(score, member, strata, rng)
    of = f"(AUC {auc.value:.3f}, p = {p_value:.2g})"
    if p_value > FALSE_ALARM:
        alike = (
            f"The column {column!r} does not tell members from non-members {of}."
            if column
            else f"Models that never saw a record find members as hard as non-members {of}."
        )
        return Check(DIFFICULTY, Verdict.PASS, alike, {"auc": auc})
    harder = "non-members" if auc.value > CHANCE_AUC else "members"
    differ = (
        f"The column {column!r} tells members from non-members {of}"
        if column
        else f"For models that never saw a record, {harder} are the harder ones {of}: later "
        "records, another source or noisier labels"
    )
    return Check(
        DIFFICULTY,
        Verdict.WARNING,
        f"{differ}. What that explains is taken off the evidence of every attack. Draw both sets "
        "from one population.",
        {"auc": auc},
    )
