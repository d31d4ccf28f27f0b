"""Exposure by stratum: intervals that hold for all at once, and a test whether strata differ."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import special, stats

from divulge.metrics import strata
from divulge.metrics.auc_intervals import covariances
from divulge.metrics.membership import auc, tpr_at_fpr
from tests.slow import slow

Sizes = Sequence[tuple[int, int]]
UNEQUAL: Sizes = [(10, 50), (50, 10), (20, 20)]


def draw(
    rng: np.random.Generator, sizes: Sizes, effects: Sequence[float], shift: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal scores of members and non-members of each stratum; each is harder by this shift."""
    parts = []
    for each, ((inside, outside), effect) in enumerate(zip(sizes, effects, strict=True)):
        member = np.arange(inside + outside) < inside
        score = rng.normal(size=len(member)) + effect * member + shift * each
        parts.append((score, member, np.full(len(member), each)))
    score, member, stratum = (np.concatenate(each) for each in zip(*parts, strict=True))
    return score, member, stratum


def test_a_stratum_is_judged_from_the_fewest_on_of_both_sides() -> None:
    sizes = [(strata.FEWEST, strata.FEWEST), (strata.FEWEST - 1, 99), (99, strata.FEWEST - 1)]
    _, member, stratum = draw(np.random.default_rng(0), sizes, [0.0] * 3)
    assert strata.judgeable(member, stratum, 3).tolist() == [True, False, False]


def test_the_statistics_are_those_of_delong_one_stratum_at_a_time() -> None:
    score, member, stratum = draw(
        np.random.default_rng(0), [(30, 20), (15, 40), (25, 25)], [0.5] * 3
    )
    score = np.round(score, 1)  # ties
    level = np.unique(score, return_inverse=True)[1]
    shape = 3, int(level.max()) + 1
    groups = [strata._SideOfStrata(level[side], stratum[side], shape) for side in (member, ~member)]
    found = strata._statistics([group.count_levels(group.own[None]) for group in groups])
    theta, variance = [], []
    for each in range(3):
        own = stratum == each
        longer = np.concatenate([score[own], [-99, 99, -99, 99]])
        truth = np.concatenate([member[own], [True, True, False, False]])
        area = auc(longer, truth).value
        theta.append(special.logit(area))
        variance.append(covariances(longer[None], truth)[0, 0] / (area * (1 - area)) ** 2)
    weight = 1 / np.array(variance)
    mean = np.average(theta, weights=weight)
    assert found.spread[0] == pytest.approx(float(weight @ (np.array(theta) - mean) ** 2))
    for each in range(3):
        rest = np.arange(3) != each
        others = np.average(np.array(theta)[rest], weights=weight[rest])
        error = np.sqrt(variance[each] + 1 / weight[rest].sum())
        assert found.apart[0, each] == pytest.approx((theta[each] - others) / error)


def test_figures_of_a_stratum_are_its_own_with_bonferronis_confidence() -> None:
    score, member, stratum = draw(
        np.random.default_rng(1), [(200, 400), (9, 60), (80, 80)], [1] * 3
    )
    found = strata.auc_by_stratum(score, member, stratum, 4)
    assert found[1] is None  # nine members
    assert found[3] is None  # nobody
    for each in (0, 2):
        own = stratum == each
        assert found[each] == auc(score[own], member[own], 0.975)
    at = strata.tpr_by_stratum(score, member, stratum, 4, 0.1)
    assert at[1] is None
    assert at[3] is None
    for each in (0, 2):
        own = stratum == each
        assert at[each] == tpr_at_fpr(score[own], member[own], 0.1, 0.975)
    # 80 non-members support 10 %, and 42 is the fewest that do at this confidence
    fewer = strata.tpr_by_stratum(score, member, stratum, 4, 0.01)
    assert fewer == [None] * 4


def test_fewer_than_two_strata_that_can_be_judged_are_not_compared() -> None:
    score, member, stratum = draw(np.random.default_rng(2), [(40, 40), (9, 9)], [1, 1])
    assert strata.compare_strata(score, member, stratum) is None


def test_the_stratum_that_is_hit_hardest_is_named() -> None:
    score, member, stratum = draw(np.random.default_rng(3), [(60, 60)] * 5, [0, 0, 2, 0, 0], 1.0)
    found = strata.compare_strata(score, member, stratum)
    assert found is not None
    assert found.worst == 2
    assert found.p_value <= 0.005
    assert found.worst_p <= 0.005
    assert strata.compare_strata(score, member, stratum) == found
    # of scores only their order counts, but for the levels that they are put in
    assert strata.compare_strata(np.exp(score), member, stratum) == found


@pytest.mark.parametrize(("number", "count"), [(8, 1), (9, 1), (13, 5), (14, 5)])
def test_the_smallest_strata_that_show_a_perfect_attack(number: int, count: int) -> None:
    found = auc(
        np.arange(2.0 * number), np.arange(2 * number) >= number, strata.simultaneous_level(count)
    )
    assert (found.low > 0.5) == (number in (9, 14))


def test_constant_scores_are_no_difference() -> None:
    _, member, stratum = draw(np.random.default_rng(4), [(20, 20)] * 3, [0] * 3)
    found = strata.compare_strata(np.zeros(len(member)), member, stratum)
    assert found is not None
    assert found.p_value == found.worst_p == 1


@pytest.mark.parametrize(
    ("sizes", "effect", "shift"),
    [
        (UNEQUAL, 0.0, 0.0),
        slow([(10, 10)] * 4, 0.0, 0.0),
        slow([(20, 20)] * 4, 1.0, 0.0),
        slow([(50, 50)] * 4, 1.0, 1.0),
        slow(UNEQUAL, 1.0, 0.0),
        slow([(10, 10), (200, 200)], 1.0, 1.0),
        slow([(10, 10)] * 20, 0.0, 0.0),
    ],
)
def test_sizes_and_coverage_are_those_that_are_promised(
    sizes: Sizes, effect: float, shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strata, "PERMUTATIONS", 99)
    monkeypatch.setattr(strata, "FEWEST_PERMUTATIONS", 99)
    draws, differ, worst, covered = 200, 0, 0, 0
    truth = float(stats.norm.cdf(effect / np.sqrt(2)))
    for seed in range(draws):
        score, member, stratum = draw(
            np.random.default_rng(seed), sizes, [effect] * len(sizes), shift
        )
        found = strata.compare_strata(score, member, stratum)
        assert found is not None
        differ += found.p_value <= 0.05
        worst += found.worst_p <= 0.05
        each = strata.auc_by_stratum(score, member, stratum, len(sizes))
        covered += all(one is not None and one.low <= truth <= (one.high or 1) for one in each)
    # of 200 at .05, more than 18 are less likely than .006; at .95 fewer than 182 likewise
    assert differ <= 18
    assert worst <= 18
    assert covered >= 182
