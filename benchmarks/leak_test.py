"""Honesty: how often the verdict is a leak, with and without one, and what its limits cover.

Scores of 12 attacks are normal, correlated with each other, and known to leak so much or nothing.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy import special, stats

from divulge._util.random import stream
from divulge.metrics import membership
from divulge.metrics.intervals import clopper_pearson
from divulge.metrics.max_test import LEVEL, join_small_strata, max_test

SUMMARY = "size and power of the verdict's test, and coverage of the strongest attack's limits"

ATTACKS = 12
EXPOSED = 10.0
"""Deviations by which a fully exposed member stands above."""

SHIFT = 0.5
"""Of the members in the table of coverage."""


class Leak(NamedTuple):
    """Leak of one simulated model, which all attacks see."""

    size: int
    """Number of members, and of non-members."""
    exposed: float = 0.0
    """Share of the members that stand above everybody else."""
    shift: float = 0.0
    """Shift of all members' scores, in standard deviations."""

    def __str__(self) -> str:
        if self.exposed:
            return f"{100 * self.exposed:g} % of the members exposed"
        return f"shift of {self.shift:g}" if self.shift else "none"


LEAKS = (
    *(Leak(size) for size in (60, 200, 1000)),
    *(Leak(200, exposed=share) for share in (0.05, 0.08, 0.12)),
    *(Leak(200, shift=shift) for shift in (0.2, 0.25, 0.3)),
    Leak(1000, exposed=0.02),
    Leak(1000, shift=0.1),
)


class Classes(NamedTuple):
    """Classes of the records of one simulated model, on which scores depend."""

    size: int
    """Number of members, and of non-members."""
    classes: int
    spread: float
    """Standard deviation of the classes' mean scores; that of scores within a class is 1."""
    mixes: bool
    """Whether members and non-members differ in their mix of classes, and in nothing else."""


CLASSES = (
    *(Classes(size, classes, 1, mixes=True) for size, classes in ((500, 2), (200, 10), (500, 100))),
    *(Classes(200, classes, spread, mixes=False) for classes in (10, 100) for spread in (0, 1)),
)
VISIBLE = 2.8
"""Standard errors by which members differ: one attack alone finds that in 80 % of audits."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print all tables, each rate with its exact 95 % interval."""
    audits = 40 if quick else 400
    print("| records in each group | leak | audits | verdict is a leak (95 % interval) |")
    print("|---:|---|---:|---|")
    for leak in LEAKS:
        found = sum(is_leak(leak, number) for number in range(audits))
        print(f"| {leak.size:,} | {leak} | {audits} | {_rate(found, audits)} |", flush=True)
    print("\n| classes | spread | records in each group | leak | all records | within classes |")
    print("|---:|---:|---:|---|---|---|")
    for case in CLASSES:
        found = np.sum([is_leak_within(case, number) for number in range(audits)], 0)
        rates = " | ".join(_rate(int(count), audits) for count in found)
        kind = "none, other mixes" if case.mixes else "of all members"
        print(f"| {case.classes} | {case.spread:g} | {case.size} | {kind} | {rates} |", flush=True)
    print("\n| correlation | records in each group | audits | AUC | TPR at 10 % FPR |")
    print("|---:|---:|---:|---|---|")
    for correlation in (0.0, 0.5, 0.9):
        for size in (200, 1000):
            counts = np.sum([covered(size, correlation, k) for k in range(audits)], 0)
            auc, tpr = (_rate(int(count), audits) for count in counts)
            print(f"| {correlation:g} | {size:,} | {audits} | {auc} | {tpr} |")


def scores(
    rng: np.random.Generator, member: Bool[np.ndarray, " records"], correlation: float
) -> Float64[np.ndarray, "attacks records"]:
    """Draw scores of attacks that learn nothing."""
    common = rng.standard_normal(len(member))
    own = rng.standard_normal((ATTACKS, len(member)))
    return math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own


def is_leak(leak: Leak, number: int) -> bool:
    """The verdict of one simulated audit."""
    rng = stream(0, "verdict", str(leak), leak.size, number)
    member = np.arange(2 * leak.size) < leak.size
    lifted = EXPOSED * (member & (rng.random(len(member)) < leak.exposed)) + leak.shift * member
    return max_test(scores(rng, member, 0.8) + lifted, member).p_value <= LEVEL


def is_leak_within(case: Classes, number: int) -> tuple[bool, bool]:
    """Whether one attack shows a leak over all records, and within classes."""
    rng = stream(0, "classes", str(case), number)
    member = np.arange(2 * case.size) < case.size
    shares = rng.dirichlet(np.full(case.classes, 5.0), 2)
    if not case.mixes:
        shares[:] = 1 / case.classes
    labels = np.concatenate([rng.choice(case.classes, case.size, p=share) for share in shares])
    leak = 0.0 if case.mixes else VISIBLE * math.sqrt(2 / case.size)
    mean = case.spread * rng.standard_normal(case.classes)
    score = mean[labels] + rng.standard_normal(len(member)) + leak * member
    strata = join_small_strata(labels, score[None])
    tests = max_test(score[None], member), max_test(score[None], member, strata)
    return tests[0].p_value <= LEVEL, tests[1].p_value <= LEVEL


def covered(size: int, correlation: float, number: int) -> tuple[bool, bool]:
    """Whether the limits of the attack with the highest lower one hold its true AUC, and TPR."""
    rng = stream(0, "limits", f"{correlation}", size, number)
    member = np.arange(2 * size) < size
    found = scores(rng, member, correlation) + SHIFT * member
    confidence = 1 - LEVEL / ATTACKS
    auc = max((membership.auc(one, member, confidence) for one in found), key=lambda e: e.low)
    tpr = max(
        (membership.tpr_at_fpr(one, member, 0.1, confidence) for one in found),
        key=lambda e: (e.low, e.value),
    )
    true_auc = float(special.ndtr(SHIFT / math.sqrt(2)))
    true_tpr = float(stats.norm.sf(stats.norm.isf(0.1) - SHIFT))
    return true_auc in auc, true_tpr in tpr


def _rate(count: int, audits: int) -> str:
    low, high = clopper_pearson(count, audits)
    return f"{count / audits:.3f} ({low:.3f} to {high:.3f})"
