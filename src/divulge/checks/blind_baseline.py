"""The blind baseline: does a classifier that never saw the model tell two sets of records apart?

Any attack may then be reading the difference of two data sets instead of the model's memory.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.digest import digest
from divulge._util.extras import load_sklearn, stats
from divulge._util.random import stream
from divulge._util.recent import RecentResults
from divulge.checks import near_copies, repeats
from divulge.checks.near_copies import COMPONENTS
from divulge.core import Check, Estimate, Records, Verdict
from divulge.core.check_names import BLIND
from divulge.metrics import membership, people
from divulge.metrics.permutation import rank_sum_p

RECORDS = 2000
"""Records of each set that the classifier looks at: enough to see an AUC of 0.54."""

FEWEST = 10
"""Records of a set below which nothing is learned."""

TRAINED, PARTS = 1 / 3, 4
"""The first classifier is fitted to this share of the records; the rest is scored in parts."""

FALSE_ALARM = 0.005
"""How often each of the checks may warn where all sets are drawn from one population."""

Mask = Bool[np.ndarray, " records"]


class Separation(NamedTuple):
    """How well two sets were told apart."""

    auc: Estimate
    """Above one half: the sets differ. Of the records that were scored."""
    p_value: float
    """The chance of as high an AUC where both sets are drawn from one population."""
    shared: bool = False
    """Whether records of one set stand in the other, changed a little."""


_LAST = RecentResults[tuple[Check, ...]](2)
"""Several models are audited on the same records, which differ as much for each audit."""


def recall_separation(
    members: Records, nonmembers: Records, reference: Records | None, seed: int = 0
) -> tuple[Check, ...]:
    """What `check_separation` says, or has said last of the same records."""
    sets = [each for each in (members, nonmembers, reference) if each is not None]

    def check() -> tuple[Check, ...]:
        return check_separation(members, nonmembers, reference, seed)

    if any(each.encoding is not None for each in sets):  # the features are not those in `x`
        return check()
    arrays = [
        array
        for records in sets
        for array in (records.x, records.y, records.people)
        if array is not None
    ]
    return _LAST.get(digest(str(seed), *arrays), check)


def check_separation(
    members: Records, nonmembers: Records, reference: Records | None, seed: int = 0
) -> tuple[Check, ...]:
    """Members against non-members; with reference records, both against these as well.

    Where members and non-members differ, any attack may be reading that. The first check then says
    which of them differs from the reference. The second asks whether the reference differs from
    either: that misleads attacks that learn from it, but not the figures.
    """
    separation = separate(members, nonmembers, stream(seed, BLIND))
    if separation is None:
        few = f"Fewer than {FEWEST} members or non-members that are no near copies."
        return (Check(BLIND, Verdict.NOT_APPLICABLE, few),)
    if reference is None or len(reference) < FEWEST:
        return (_blind(separation, {}),)
    groups = {"members": members, "non-members": nonmembers}
    beside = {
        which: other
        for which, group in groups.items()
        if (other := separate(group, reference, stream(seed, BLIND, which))) is not None
    }
    return (_blind(separation, beside), _reference(beside), *_shared(beside))


def _shared(beside: Mapping[str, Separation]) -> tuple[Check, ...]:
    """A warning where the attacker's own records are candidates."""
    known = [which for which, separation in beside.items() if separation.shared]
    if not known:
        return ()
    text = (
        f"Nearest neighbours of reference records are {' and '.join(known)}, far more often than "
        "neighbours further away: candidates stand in the reference, rounded or otherwise changed "
        "a little."
    )
    return (Check(repeats.TWICE, Verdict.WARNING, text),)


def _blind(separation: Separation, beside: Mapping[str, Separation]) -> Check:
    shown = f"(p = {separation.p_value:.2g})"
    if separation.p_value > FALSE_ALARM:
        text = (
            f"A classifier that never saw the model cannot tell members from non-members {shown}."
        )
        return Check(BLIND, Verdict.PASS, text, {"auc": separation.auc})
    text = (
        f"A classifier that never saw the model tells members from non-members {shown}. The two "
        "sets differ in themselves, so the attacks measure that difference and the model's memory."
    )
    if far := _far(beside):
        differ = "both sets differ" if len(far) == 2 else f"the {far[0]} differ"
        aucs = ", ".join(f"{other.auc.value:.3f} for {which}" for which, other in beside.items())
        text += f" Compared with the reference records, {differ} (AUC {aucs})."
    return Check(BLIND, Verdict.WARNING, text, {"auc": separation.auc})


def _reference(beside: Mapping[str, Separation]) -> Check:
    name, judge = "reference baseline", "A classifier that never saw the model"
    p_value = min(1.0, len(beside) * min(separation.p_value for separation in beside.values()))
    estimates = {which: separation.auc for which, separation in beside.items()}
    far = _far(beside)
    if not far:
        text = f"{judge} cannot tell reference records from candidates (p = {p_value:.2g})."
        return Check(name, Verdict.PASS, text, estimates)
    text = (
        f"{judge} tells reference records from {' and '.join(far)} (p = {p_value:.2g}). Attacks "
        "that learn from the reference what non-members look like are misled: draw it from the "
        "population of the candidates."
    )
    return Check(name, Verdict.WARNING, text, estimates)


def _far(beside: Mapping[str, Separation]) -> list[str]:
    """The sets that differ from the reference; each comparison has its part of the false alarms."""
    return [
        which
        for which, separation in beside.items()
        if separation.p_value <= FALSE_ALARM / len(beside)
    ]


def separate(first: Records, second: Records, rng: np.random.Generator) -> Separation | None:
    """Boosted trees on features and labels; None where a set has fewer than 10.

    The records are shuffled and scored in turn: each part by trees that were fitted to all parts
    before it. So the labels of a part are independent of the trees that score it, its ranks
    (ties broken at random) are those of a Wilcoxon test whatever the trees have learned, and the
    sum over parts has the null distribution of independent Wilcoxon tests. The scores of a
    cross-validation have not: each label helps to score the records that help to score it.
    Of near copies one alone is looked at: trees would recognise the others. Where records are
    grouped by person, parts are made of people, and what is ranked is the mean of a person's
    records.

    References:
        Das et al. (2024), Blind baselines beat membership inference attacks for foundation
        models; the test is a classifier two-sample test (Lopez-Paz and Oquab 2017).
    """
    if min(len(first), len(second)) < FEWEST:
        return None
    groups = [part.take(_sample(part, rng)) for part in (first, second)]
    order = rng.permutation(sum(map(len, groups)))
    records, which = groups[0].joined(groups[1]).take(order), order < len(groups[0])
    x = describe_features(records, int(rng.integers(2**31)))
    shared = False
    if (person := records.people) is None:
        clumps = near_copies.find_clumps(x, which)
        shared = clumps.apart > near_copies.SEEN
        distinct = near_copies.keep_one_of_each(clumps, rng)
        x, records, which = x[distinct], records.take(distinct), which[distinct]
        person = np.arange(len(which))
    which = people.first_of_each(which, person)  # from here on of each person
    if min(which.sum(), (~which).sum()) < FEWEST:
        return None
    part = _parts(which, rng)
    score = _scores(np.column_stack([x, records.y]), which, part, person, rng)
    tested = part > 0
    p_value = rank_sum_p(score[tested], which[tested], part[tested], rng, two_sided=False)
    return Separation(membership.auc(score[tested], which[tested]), p_value, shared)


def _sample(records: Records, rng: np.random.Generator) -> Int[np.ndarray, " chosen"]:
    """At most `RECORDS` of the records; of people as many as have no more than that together."""
    if (person := records.people) is None:
        return rng.permutation(len(records))[:RECORDS]
    sizes = np.bincount(person)
    order = rng.permutation(len(sizes))
    chosen = order[: max(FEWEST, int(np.searchsorted(np.cumsum(sizes[order]), RECORDS, "right")))]
    return np.flatnonzero(np.isin(person, chosen))


def _parts(which: Mask, rng: np.random.Generator) -> Int[np.ndarray, " records"]:
    """0 for records that are only learned from, then 1 to `PARTS`; each has a share of both."""
    part = np.empty(len(which), np.int64)
    edges = np.linspace(TRAINED, 1, PARTS + 1)
    for group in (which, ~which):
        rank = (rng.permutation(int(group.sum())) + 0.5) / group.sum()
        part[group] = np.searchsorted(edges, rank)
    return part


def describe_features(records: Records, seed: int) -> Float64[np.ndarray, "records columns"]:
    """The records' features, or their first principal components where these are fewer."""
    load_sklearn()
    from sklearn.decomposition import PCA

    rows = np.arange(len(records))
    if len(rows) > 2 * RECORDS:  # so many say what varies
        rows = np.random.default_rng(seed).permutation(rows)[: 2 * RECORDS]
    x = records.take(rows).features()
    if x.shape[1] <= COMPONENTS:
        return x if len(x) == len(records) else records.features()
    components = PCA(min(COMPONENTS, len(x)), random_state=seed)
    described = components.fit_transform(x)
    if len(x) == len(records):
        return np.asarray(described)
    # a part of the records at a time: as float64 all of them take twice their memory, or more
    parts = np.array_split(np.arange(len(records)), math.ceil(len(records) / (2 * RECORDS)))
    return np.vstack([components.transform(records.take(part).features()) for part in parts])


def _scores(
    features: Float64[np.ndarray, "records columns"],
    which: Bool[np.ndarray, " people"],
    part: Int[np.ndarray, " people"],
    person: Int[np.ndarray, " records"],
    rng: np.random.Generator,
) -> Float64[np.ndarray, " people"]:
    """Each person's rank within its part, from 0 to 1; a record by itself is a person."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    seed = int(rng.integers(2**31))
    score = np.zeros(len(which))
    with threadpool_limits(1):  # for so few records threads cost more than they save
        for k in range(1, PARTS + 1):
            before, here = (part < k)[person], (part == k)[person]
            trees = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
            trees.fit(features[before], which[person][before])
            each = trees.predict_proba(features[here])[:, 1]
            chance = people.combine(each, person[here], "mean")
            mixed = rng.permutation(len(chance))
            score[part == k] = (
                stats.rankdata(chance[mixed], "ordinal")[mixed.argsort()] - 0.5
            ) / len(chance)
    return score
