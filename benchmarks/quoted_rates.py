"""Rates that the pages on metrics and on controls quote, each with its standard error.

Scores are normal unless a row says otherwise. Nothing here trains a model.
"""

import math
from collections.abc import Callable, Iterable
from unittest import mock

import numpy as np
from jaxtyping import Bool, Float64
from scipy import special, stats

from benchmarks.table_intervals import lira_of_all
from divulge._util.random import stream
from divulge.metrics import max_test, measure, membership
from divulge.metrics.auc_intervals import areas_of_counts
from divulge.metrics.difference import auc_correlation, subtract
from divulge.metrics.intervals import (
    Interval,
    clopper_pearson,
    combine_intervals,
    normal_quantile,
    wilson,
)
from divulge.metrics.joint_test import DRAWS, add_deviations, joint_test
from divulge.metrics.permutation import membership_p, rank_sum_p
from divulge.secrets.controls import BLIND_FALSE_ALARM, SHUFFLES, fewest_covered

SUMMARY = "rates that the pages on metrics and on controls quote"

_FEWER = 199
"""Permutations of a test here; any number makes it exact, and more make its p-value finer."""

Score = Float64[np.ndarray, " records"]
Member = Bool[np.ndarray, " records"]


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print a table for each claim."""
    few = 20 if quick else 1
    _tpr(4000 // few)
    _auc_of_few_errors(4000 // few)
    _advantage(1000 // few)
    with mock.patch.object(max_test, "DRAWS", _FEWER):
        _below_chance(1000 // few)
        _mutual_shadows(200 // few)
    _differences(1000 // few)
    _exchanged(1000 // few)
    _sound_attacks(1500 // few)
    _cheats(100 // few)
    _two_values()


def _tpr(audits: int) -> None:
    print("\n| records in each group | shift | FPR | Clopper-Pearson alone | both parts |")
    print("|---:|---:|---:|---:|---:|")
    for size, shift, fpr in (
        (2000, 0.0, 0.1), (2000, 0.0, 0.01), (2000, 1.0, 0.01), (1000, 1.0, 0.01), (500, 1.0, 0.1),
    ):  # fmt: skip
        member, truth = _halves(size), float(special.ndtr(special.ndtri(fpr) + shift))
        alone, both = [], []
        for k in range(audits):
            score = stream(k, "tpr", size, str(shift)).normal(size=2 * size) + shift * member
            tpr = membership.tpr_at_fpr(score, member, fpr)
            low, high = clopper_pearson(round(tpr.value * size), size)
            alone.append(low <= truth <= high)
            both.append(truth in tpr)
        print(f"| {size:,} | {shift:g} | {fpr:g} | {_rate(alone)} | {_rate(both)} |", flush=True)


def _auc_of_few_errors(audits: int) -> None:
    """A model that is wrong about 6 of 1,000 records, members or not: the AUC is one half."""
    member, alone, joined = np.arange(1000) < 200, [], []
    for k in range(audits):
        wrong = np.zeros(1000, bool)
        wrong[stream(k, "errors").permutation(1000)[:6]] = True
        low, high = _delong_alone(wrong, member)
        alone.append(low <= 0.5 <= high)
        joined.append(0.5 in membership.auc(~wrong + 0.0, member))
    print(f"\nsix errors among 200 + 800: DeLong alone {_rate(alone)}, joined {_rate(joined)}")


def _delong_alone(wrong: Member, member: Member) -> tuple[float, float]:
    """DeLong's interval on the logit scale, of a score with two values."""
    right_in, right_out = 1 - wrong[member], 1 - wrong[~member]
    value = 0.5 + (right_in.mean() - right_out.mean()) / 2
    variance = sum(side.var(ddof=1) / 4 / len(side) for side in (right_in, right_out))
    half = normal_quantile(0.95) * math.sqrt(variance) / (value * (1 - value))
    centre = float(special.logit(value))
    return float(special.expit(centre - half)), float(special.expit(centre + half))


def _advantage(audits: int) -> None:
    """Half of the records choose the threshold for the other half; 200 records in each group."""
    print("\n| shift | Newcombe around the value alone | the interval |\n|---:|---:|---:|")
    member = _halves(200)
    for shift in (0.0, 0.3, 1.0):
        truth, alone, both = 2 * float(special.ndtr(shift / 2)) - 1, [], []
        for k in range(audits):
            rng = stream(k, "advantage", str(shift))
            score = rng.normal(size=400) + shift * member
            low, high = _newcombe(rng, score, member)
            alone.append(low <= truth <= high)
            both.append(truth in measure.advantage(score, member))
        print(f"| {shift:g} | {_rate(alone)} | {_rate(both)} |", flush=True)


def _newcombe(rng: np.random.Generator, score: Score, member: Member) -> Interval:
    """Newcombe's interval of TPR - FPR, at thresholds that each half chose for the other."""
    first = np.isin(
        np.arange(400), np.r_[rng.permutation(200)[:100], 200 + rng.permutation(200)[:100]]
    )
    hits = alarms = 0
    for chosen in (first, ~first):
        best = measure.best_threshold(membership.rank(score[chosen], member[chosen]))
        accused = (score >= best) & ~chosen
        hits, alarms = hits + int(np.sum(accused & member)), alarms + int(np.sum(accused & ~member))
    inside, outside = wilson(hits, 200), wilson(alarms, 200)
    tpr, fpr = hits / 200, alarms / 200
    return combine_intervals(
        tpr - fpr,
        Interval(inside.low - fpr, inside.high - fpr),
        Interval(tpr - outside.high, tpr - outside.low),
    )


def _below_chance(audits: int) -> None:
    print("\n| attacks | records in each group | scores | 'inputs doubtful' where nothing leaks |")
    print("|---:|---:|---|---:|")
    for attacks in (1, 7, 12):
        for size in (30, 200):
            for ties in (False, True):
                alarms = []
                for k in range(audits):
                    rng = stream(k, "below", attacks, size)
                    scores = _correlated(rng, attacks, 2 * size)
                    test = max_test.max_test(np.round(scores) if ties else scores, _halves(size))
                    alarms.append(bool((test.p_below <= max_test.LEVEL_BELOW).any()))
                kind = "rounded" if ties else "distinct"
                print(f"| {attacks} | {size} | {kind} | {_rate(alarms)} |", flush=True)


def _mutual_shadows(audits: int) -> None:
    """LiRA on models that are each other's shadows, and nothing leaks; 200 records."""
    print("\n| models | permuted within models | scored again | merged |\n|---:|---:|---:|---:|")
    reads_shadows = np.array([False])
    for models in (3, 6, 10):
        alarms = []
        for k in range(audits):
            rng = stream(k, "mutual shadows", models)
            member = rng.random((200, models)) < 0.5
            phi = 1.5 * rng.normal(size=(200, 1)) + rng.normal(size=member.shape)
            scores = [column[None] for column in lira_of_all(phi, member).T]
            members = list(member.T)
            shuffled = (member[rng.permutation(200)] for _ in range(DRAWS))
            drawn = [
                add_deviations(list(lira_of_all(phi, permuted).T), list(permuted.T))
                for permuted in shuffled
            ]
            tests = (
                max_test.max_test_of_models(scores, members),
                joint_test(scores, members, reads_shadows, np.stack(drawn, 1)[None]),
                joint_test(scores, members, reads_shadows, None),
            )
            alarms.append([test.p_value <= max_test.LEVEL for test in tests])
        rates = " | ".join(_rate(column) for column in zip(*alarms, strict=True))
        print(f"| {models} | {rates} |", flush=True)


def _differences(pairs: int) -> None:
    print("\n| candidates | AUCs | correlated | covered | width | 'more than before' |")
    print("|---|---|---:|---:|---:|---:|")
    unlike, alike = (0.5, 1.0), (0.0, 0.0)
    for size, shifts, shared in (
        (30, unlike, 0.0), (30, alike, 0.9), (80, unlike, 0.9), (80, alike, 0.9),
        (80, (3.0, 2.5), 0.5), (300, unlike, 0.0), (300, alike, 0.9),
    ):  # fmt: skip
        member = _halves(size)
        truths = [float(special.ndtr(shift / math.sqrt(2))) for shift in shifts]
        differences = []
        for k in range(pairs):
            earlier_score, later_score = _correlated(stream(k, "runs", size), 2, 2 * size, shared)
            earlier_score = earlier_score + shifts[0] * member
            later_score = later_score + shifts[1] * member
            figures = membership.auc(later_score, member), membership.auc(earlier_score, member)
            differences.append((
                subtract(*figures, auc_correlation(later_score, earlier_score, member)),
                subtract(*figures),
            ))  # fmt: skip
        covered = _rate([truths[1] - truths[0] in paired for paired, _ in differences])
        width = np.mean([p.high - p.low for p, _ in differences if p.high is not None])
        width /= np.mean([i.high - i.low for _, i in differences if i.high is not None])
        more = _rate([paired.low > 0 for paired, _ in differences]) if shifts == alike else "-"
        aucs = " and ".join(f"{truth:.2f}" for truth in truths)
        print(f"| {size} + {size} | {aucs} | {shared:g} | {covered} | {width:.2f} | {more} |")


def _exchanged(pairs: int) -> None:
    """Members of one version who are none of the other; scores correlated at .9, and no leak."""
    print("\n| exchanged, of 200 + 200 | covered | 'more than before' |\n|---:|---:|---:|")
    earlier = _halves(200)
    for exchanged in (0.5, 1.0):
        later = np.where(np.arange(400) % 200 < 200 * exchanged, ~earlier, earlier)
        differences = []
        for k in range(pairs):
            earlier_score, later_score = _correlated(stream(k, "exchanged"), 2, 400, 0.9)
            differences.append(
                subtract(membership.auc(later_score, later), membership.auc(earlier_score, earlier))
            )
        covered = _rate(0.0 in each for each in differences)
        more = _rate(each.low > 0 for each in differences)
        print(f"| {exchanged:.0%} | {covered} | {more} |", flush=True)


def _sound_attacks(trials: int) -> None:
    print("\nthe blind control fails sound attacks, 600 records unless said")
    shapes: dict[str, Callable[[np.random.Generator], tuple[Score, Member, np.ndarray]]] = {
        "normal": lambda rng: _blind(rng, rng.normal(size=600)),
        "rounded": lambda rng: _blind(rng, np.round(rng.normal(size=600))),
        "heavy tails": lambda rng: _blind(rng, rng.standard_cauchy(600)),
        "a tenth of members": lambda rng: _blind(rng, rng.normal(size=600), members=60),
        "30 candidates": lambda rng: _blind(rng, rng.normal(size=30), members=15),
        "other classes among members": _blind_by_class,
    }
    every = []
    for name, draw in shapes.items():
        alarms = []
        for k in range(trials):
            rng = stream(k, "blind", name)
            alarms.append(membership_p(*draw(rng), rng) <= BLIND_FALSE_ALARM)
        every += alarms
        print(f"{name}: {_rate(alarms, 4)}", flush=True)
    print(f"together: {_rate(every, 4)}")


def _blind(
    rng: np.random.Generator, score: Score, members: int = 300
) -> tuple[Score, Member, np.ndarray]:
    return score, np.arange(len(score)) < members, rng.integers(0, 3, len(score))


def _blind_by_class(rng: np.random.Generator) -> tuple[Score, Member, np.ndarray]:
    label = rng.integers(0, 3, 600)
    member = rng.random(600) < np.array([0.2, 0.5, 0.8])[label]
    return rng.normal(size=600) + label, member, label


def _cheats(runs: int) -> None:
    print("\n300 + 300 records, 3 classes, standard normal scores; ways to add the truth:")
    print(
        "| adds | members | median p of a rank sum | median p | fails |\n|---:|---:|---:|---:|---:|"
    )
    for bonus, raised in (
        (50.0, 8), (50.0, 12), (4.0, 15), (50.0, 15), (4.0, 30), (3.0, 60), (0.25, 300),
        (0.35, 300),
    ):  # fmt: skip
        sums, p_values = [], []
        for k in range(runs):
            rng = stream(k, "cheats", str(bonus), raised)
            score, member, label = _blind(rng, rng.normal(size=600))
            score[:raised] += bonus
            sums.append(rank_sum_p(score, member, label, rng))
            p_values.append(membership_p(score, member, label, rng))
        failed = _rate([p <= BLIND_FALSE_ALARM for p in p_values])
        medians = f"{np.median(sums):.2g} | {np.median(p_values):.2g}"
        print(f"| {bonus:g} | {raised} | {medians} | {failed} |", flush=True)


def _two_values() -> None:
    """The least share of shuffles whose interval of the AUC holds one half; counted, not drawn."""
    print(
        "\nscores of two values under shuffled membership: least share of intervals that hold 0.5,"
    )
    print("and how often the null control fails then")
    for sizes in ((10, 20, 30, 50), (100, 200, 500, 1000)):
        pairs = [(m, n) for m in sizes for n in sizes]
        least = min(
            _cover_two_values(m, n, rare) for m, n in pairs for rare in range(1, min(60, m + n))
        )
        fails = stats.binom.cdf(fewest_covered(SHUFFLES) - 1, SHUFFLES, least)
        print(f"{sizes[0]} to {sizes[-1]} records in each group: {least:.3f}, {fails:.3f}")


def _cover_two_values(members: int, nonmembers: int, rare: int) -> float:
    low = np.arange(max(0, rare - nonmembers), min(rare, members) + 1)  # rare ones among members
    inside = np.stack([low, members - low], axis=1)
    outside = np.stack([rare - low, nonmembers - rare + low], axis=1)
    areas = areas_of_counts(inside, outside)
    covered = (areas.low <= 0.5) & (areas.high >= 0.5)
    return float(stats.hypergeom.pmf(low, members + nonmembers, members, rare)[covered].sum())


def _halves(size: int) -> Member:
    return np.arange(2 * size) < size


def _correlated(
    rng: np.random.Generator, attacks: int, records: int, correlation: float = 0.8
) -> Float64[np.ndarray, "attacks records"]:
    common = math.sqrt(correlation) * rng.standard_normal(records)
    return common + math.sqrt(1 - correlation) * rng.standard_normal((attacks, records))


def _rate(events: Iterable[bool], digits: int = 3) -> str:
    each = np.array(list(events), float)
    error = stats.sem(each, ddof=0)
    return f"{each.mean():.{digits}f} ± {error:.{digits}f}"
