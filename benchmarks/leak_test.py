"""Honesty: how often the verdict is a leak, with and without one, and what its limits cover.

Scores of attacks are normal, correlated with each other, and known to leak so much or nothing.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy import special

from benchmarks import coverage
from divulge._util.random import stream
from divulge.metrics import auc_intervals, membership
from divulge.metrics.intervals import clopper_pearson, simultaneous_confidence
from divulge.metrics.max_test import LEVEL, join_small_strata, max_test

SUMMARY = "size and power of the verdict's test, and simultaneous coverage of its limits"

ATTACKS = 12
EXPOSED = 10.0
"""Deviations by which a fully exposed member stands above."""


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


class Attacks(NamedTuple):
    """Equally strong attacks on one simulated model, with limits that hold for all at once."""

    attacks: int
    correlation: float
    size: int
    """Number of members, and of non-members."""


KNOWN_AUCS = (0.5, 0.6, 0.8)
LEVELS = np.linspace(-1.5, 2.0, 7)
"""Scores that tie are rounded to eight levels, between which these limits lie."""


class Coverage(NamedTuple):
    """Whether limits hold for all attacks, and their mean width."""

    bonferroni: float
    joint: float
    tpr: float
    """Whether Bonferroni's of the TPR at 10 % FPR hold."""
    width: float
    """Mean width of the joint limits of the AUCs over that of Bonferroni's."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print all tables, each rate with its exact 95 % interval."""
    audits = 40 if quick else 400
    print("| records in each group | leak | audits | verdict is a leak (95 % interval) |")
    print("|---:|---|---:|---|")
    for leak in LEAKS:
        leaks = sum(is_leak(leak, number) for number in range(audits))
        print(f"| {leak.size:,} | {leak} | {audits} | {_rate(leaks, audits)} |", flush=True)
    print("\n| classes | spread | records in each group | leak | all records | within classes |")
    print("|---:|---:|---:|---|---|---|")
    for case in CLASSES:
        counts = np.sum([is_leak_within(case, number) for number in range(audits)], 0)
        rates = " | ".join(_rate(int(count), audits) for count in counts)
        kind = "none, other mixes" if case.mixes else "of all members"
        print(f"| {case.classes} | {case.spread:g} | {case.size} | {kind} | {rates} |", flush=True)
    _print_coverage(audits)


def _print_coverage(audits: int) -> None:
    aucs = [f"AUC {auc:g}{tied}" for tied in ("", ", ties") for auc in KNOWN_AUCS]
    print(f"\nin per cent, Bonferroni's / joint, {audits} audits a cell")
    print(f"| attacks | correlation | records in each group | {' | '.join(aucs)} | width | TPR |")
    print("|---:|---:|---:|" + "---|" * (len(aucs) + 2))
    for case in (
        Attacks(attacks, correlation, size)
        for attacks in (3, ATTACKS)
        for correlation in (0.0, 0.5, 0.8, 0.9)
        for size in (60, 200, 1000)
    ):
        cells = [
            Coverage(*np.mean([cover(case, auc, tied, k) for k in range(audits)], 0))
            for tied in (False, True)
            for auc in KNOWN_AUCS
        ]
        shown = " | ".join(
            f"{100 * cell.bonferroni:.1f} / {100 * cell.joint:.1f}" for cell in cells
        )
        width, tpr = (np.mean([getattr(cell, name) for cell in cells]) for name in ("width", "tpr"))
        print(
            f"| {case.attacks} | {case.correlation:g} | {case.size:,} | {shown} | {width:.2f} | "
            f"{100 * tpr:.1f} |",
            flush=True,
        )


def scores(
    rng: np.random.Generator,
    member: Bool[np.ndarray, " records"],
    correlation: float,
    attacks: int = ATTACKS,
) -> Float64[np.ndarray, "attacks records"]:
    """Draw scores of attacks that learn nothing."""
    common = rng.standard_normal(len(member))
    own = rng.standard_normal((attacks, len(member)))
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


def cover(case: Attacks, auc: float, tied: bool, number: int) -> Coverage:  # noqa: FBT001
    """Whether the limits of one simulated audit hold for all its attacks."""
    rng = stream(0, "limits", *map(str, case), f"{auc}", number)
    member = np.arange(2 * case.size) < case.size
    shift = math.sqrt(2) * float(special.ndtri(auc))
    drawn = scores(rng, member, case.correlation, case.attacks) + shift * member
    truth = coverage.shifted(shift)
    if tied:
        drawn = np.digitize(drawn, LEVELS).astype(np.float64)
        truth = coverage.tied(_shares(shift), _shares(0.0))
    bonferroni = 1 - LEVEL / case.attacks
    joint = simultaneous_confidence(auc_intervals.covariances(drawn, member))
    limits = [
        [membership.auc(score, member, each) for score in drawn] for each in (bonferroni, joint)
    ]
    tprs = [membership.tpr_at_fpr(score, member, 0.1, bonferroni) for score in drawn]
    widths = [np.sum([limit.high - limit.low for limit in each if limit.high]) for each in limits]
    covered = [all(truth.auc in limit for limit in each) for each in limits]
    tpr = all(truth.tpr(0.1) in limit for limit in tprs)
    return Coverage(covered[0], covered[1], tpr, float(widths[1] / widths[0]))


def _shares(shift: float) -> list[float]:
    """The share of each level, the highest first."""
    above = special.ndtr(shift - LEVELS[::-1])
    return [float(share) for share in np.diff(above, prepend=0.0, append=1.0)]


def _rate(count: int, audits: int) -> str:
    low, high = clopper_pearson(count, audits)
    return f"{count / audits:.3f} ({low:.3f} to {high:.3f})"
