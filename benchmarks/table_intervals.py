"""Quality: how often intervals of tables and comparisons cover the truth, and how wide they are.

The last table is of models that are each other's shadows, as in leave-one-out; LiRA is computed on
all of them at once there, with one variance.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float64

from divulge.core import Estimate
from divulge.metrics import intervals, membership
from divulge.metrics.intervals import Interval
from divulge.metrics.shared_shadows import covariance_between, influence
from divulge.studies.leave_one_out import means
from divulge_papers import units

SUMMARY = "coverage and mean width of the intervals of tables, and of the strongest attack"

Draw = Callable[[np.random.Generator, int], Float64[np.ndarray, " units"]]

DISTRIBUTIONS: Mapping[str, tuple[float, Draw]] = {
    "1, or 0 in 10 %": (0.9, lambda rng, n: (rng.random(n) > 0.1) * 1.0),
    "1, or 0 in 2 %": (0.98, lambda rng, n: (rng.random(n) > 0.02) * 1.0),
    "1, or 0.5 in 10 %": (0.95, lambda rng, n: 1 - 0.5 * (rng.random(n) < 0.1)),
    "1, or 0.9 to 1 in half": (
        0.975,
        lambda rng, n: 1 - 0.1 * rng.random(n) * rng.integers(2, size=n),
    ),
    "beta(8, 2)": (0.8, lambda rng, n: rng.beta(8, 2, n)),
    "beta(30, 1)": (30 / 31, lambda rng, n: rng.beta(30, 1, n)),
    "beta(0.5, 0.5)": (0.5, lambda rng, n: rng.beta(0.5, 0.5, n)),
    "L1 / 2: beta(2, 10)": (2 / 12, lambda rng, n: rng.beta(2, 10, n)),
}
"""Of a unit's figure in [0, 1]: its mean, and how to draw it."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print what is simulated, in five tables."""
    runs = 100 if quick else 1000
    _of_values(runs)
    _of_seeds_in_users(runs)
    _of_federations(runs)
    _of_the_strongest(runs)
    _of_mutual_shadows(runs)


def _of_values(runs: int) -> None:
    """Independent units: the interval for any distribution, and Student's."""
    print("| a unit's figure | units | bounded | Student's |\n|---|---|---|---|")
    for name, (truth, draw) in DISTRIBUTIONS.items():
        for n in (5, 10, 24, 100):
            rng = np.random.default_rng(0)
            drawn = [draw(rng, n).tolist() for _ in range(runs)]
            ways = (intervals.bounded_mean, _student)
            shown = [_covered([way(values) for values in drawn], truth) for way in ways]
            print(f"| {name} | {n} | {' | '.join(shown)} |")


def _of_seeds_in_users(runs: int) -> None:
    """Simulate ten users with two seeds each, equal within: values pooled, and averaged first."""
    print("\n| users alike between seeds | pooled, Student's | averaged, Student's | bounded |")
    print("|---|---|---|---|")
    for alike in (0.3, 0.6, 0.9):
        rng, trials = np.random.default_rng(0), []
        for _ in range(runs):
            own = rng.normal(0, alike**0.5, (10, 1)) + rng.normal(0, (1 - alike) ** 0.5, (10, 2))
            values = np.clip(0.5 + 0.12 * own, 0, 1)
            seeds = {user: row.tolist() for user, row in enumerate(values)}
            pooled = _student(values.ravel().tolist())
            means = (units.estimate(seeds, kind, 0.0, 1.0) for kind in ("normal", "bounded"))
            trials.append(
                (pooled, *(Interval(estimate.low, estimate.high or 1.0) for estimate in means))
            )
        shown = [_covered(column, 0.5) for column in zip(*trials, strict=True)]
        print(f"| {alike} | {' | '.join(shown)} |")


def _of_federations(runs: int) -> None:
    """Five federations of 29 members each, whose chances differ."""
    print("\n| share | alike within | clustered | Student's over federations | pooled |")
    print("|---|---|---|---|---|")
    groups, each = 5, 29
    for share in (0.03, 0.5, 0.9):
        for alike in (0.02, 0.3, 0.9):
            rng, trials, rest = np.random.default_rng(0), [], 1 / alike - 1
            for _ in range(runs):
                hits = rng.binomial(each, rng.beta(share * rest, (1 - share) * rest, groups))
                clustered = intervals.clustered_proportion(hits, np.full(groups, each))
                pooled = intervals.clopper_pearson(int(hits.sum()), groups * each)
                trials.append((clustered, _student((hits / each).tolist()), pooled))
            shown = [_covered(column, share) for column in zip(*trials, strict=True)]
            print(f"| {share} | {alike} | {' | '.join(shown)} |")


def _of_the_strongest(runs: int) -> None:
    """Twelve attacks at chance: the one with the highest mean over targets."""
    print("\n| targets | attacks alike | its own interval | allowing for the choice |")
    print("|---|---|---|---|")
    for targets in (3, 5, 8):
        for alike in (0.0, 0.5, 0.9):
            rng, trials = np.random.default_rng(0), []
            for _ in range(runs):
                own = rng.normal(0, (1 - alike) ** 0.5, (12, targets))
                aucs = 0.5 + 0.02 * (own + rng.normal(0, alike**0.5, targets))
                best = aucs[aucs.mean(axis=1).argmax()].tolist()
                measured = [Estimate(auc, auc - 0.04, auc + 0.04) for auc in best]
                trials.append(
                    [means.mean_over_targets("auc", measured, best_of=k) for k in (1, 12)]
                )
            columns = zip(*trials, strict=True)
            shown = [_covered([Interval(e.low, e.high or 1.0) for e in c], 0.5) for c in columns]
            print(f"| {targets} | {alike} | {' | '.join(shown)} |")


def _of_mutual_shadows(runs: int) -> None:
    """The mean over targets of LiRA's AUC: Student's, and with the covariance of targets."""
    print("\n| records | targets | mean AUC | Student's | with covariance |\n|---|---|---|---|---|")
    for records in (200, 1000):
        for targets in (3, 4, 8):
            for leak in (0.0, 0.4, 1.0, 2.0):
                rng = np.random.default_rng(0)
                own = 1.5 * rng.normal(size=(records, 1))  # the records stay; models are new
                trials = [_mean_of_mutual_shadows(rng, own, targets, leak) for _ in range(runs)]
                truth = float(np.mean([mean for mean, _ in trials]))
                columns = zip(*(ways for _, ways in trials), strict=True)
                shown = [_covered(column, truth) for column in columns]
                print(f"| {records} | {targets} | {truth:.3f} | {' | '.join(shown)} |")


def _mean_of_mutual_shadows(
    rng: np.random.Generator, own: Float64[np.ndarray, "records 1"], targets: int, leak: float
) -> tuple[float, tuple[Interval, Interval]]:
    """The mean AUC over models whose scaled logits are noise, and both intervals of it."""
    member = rng.random((len(own), targets)) < 0.5
    scores = lira_of_all(own + rng.normal(size=member.shape) + leak * member, member)
    pairs = list(zip(scores.T, member.T, strict=True))
    values = [membership.auc(*pair).value for pair in pairs]
    shared = covariance_between([influence("auc", *pair) for pair in pairs])
    alone = intervals.student_mean(values)
    return float(np.mean(values)), (alone, intervals.student_mean(values, covariance=shared))


def lira_of_all(
    phi: Float64[np.ndarray, "records models"], member: Bool[np.ndarray, "records models"]
) -> Float64[np.ndarray, "records models"]:
    """The scores of every model, by means of all others."""
    counts, means = [], []
    for side in (member, ~member):
        others = side.sum(1, keepdims=True) - side
        counts.append(others)
        means.append(((phi * side).sum(1, keepdims=True) - phi * side) / np.maximum(others, 1))
    ratio = (phi - means[1]) ** 2 - (phi - means[0]) ** 2
    return np.where((counts[0] > 0) & (counts[1] > 0), ratio, 0.0)


def _student(values: Sequence[float]) -> Interval:
    low, high = intervals.student_mean(values)
    return Interval(max(0.0, low), min(1.0, high))


def _covered(column: Sequence[Interval], truth: float) -> str:
    covered = np.mean([low <= truth <= high for low, high in column])
    width = np.mean([high - low for low, high in column])
    return f"{100 * covered:.1f} %, {width:.3f}"
