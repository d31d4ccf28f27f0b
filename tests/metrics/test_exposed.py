"""The list of exposed records keeps its false-discovery rate, whatever the records are like."""

import itertools

import numpy as np
import pytest
from scipy import stats

from benchmarks import exposed as simulated
from divulge.errors import DataError
from divulge.metrics import exposed
from tests.slow import thin
from tests.uneven_tables import TABLES

SIZES = ((200, 200), (1_000, 1_000), (200, 4_000))
CELLS = [(name, share, q) for name in simulated.POPULATIONS for share in (0.1, 0.4)
         for q in (0.05, 0.1)]  # fmt: skip

LIMIT = 3.3
"""Standard errors that a mean may lie above its expectation. Of all 60 cells the highest then does
so by chance in 3 of 100 draws of the seeds at most, even if every rate were q itself."""


@pytest.mark.parametrize(("members", "nonmembers"), SIZES)
@pytest.mark.parametrize(("population", "share", "q"), thin(3, CELLS))
def test_the_realised_rate_is_at_most_q(
    population: str, share: float, q: float, members: int, nonmembers: int
) -> None:
    found = simulated.measure_lists(population, share, q, 200, members, nonmembers)
    assert found.share <= q + LIMIT * found.error


def test_the_rate_is_kept_on_the_mean_of_all_populations_and_sizes() -> None:
    for q in (0.05, 0.1):
        rates = [
            simulated.measure_lists(name, share, q, 50, *sizes).share
            for name in simulated.POPULATIONS
            for share in (0.1, 0.4)
            for sizes in SIZES
        ]
        assert np.mean(rates) <= q


def test_where_nobody_is_exposed_hardly_any_audit_has_a_list() -> None:
    lists = [simulated.ours(simulated.draw("hardness differs", 0.0, seed), 0.1).any()
             for seed in range(200)]  # fmt: skip
    assert np.mean(lists) <= 0.1


def test_most_of_those_who_stand_out_are_found() -> None:
    found = simulated.measure_lists("records alike", 0.1, 0.1)
    assert found.recall > 0.6


def test_the_longest_of_several_lists_would_not_do() -> None:
    """Why the attack is chosen beforehand."""
    found = simulated.average_lists(simulated.longest(seed, 0.1) for seed in range(50))
    assert found.share - LIMIT * found.error > 0.1


def test_a_gaussian_per_record_would_not_do() -> None:
    """Why the non-members give the p-values, not the shadows."""
    found = simulated.average_lists(simulated.gaussians(seed, 0.1) for seed in range(50))
    assert found.share - LIMIT * found.error > 0.1


def test_a_p_value_of_a_non_exposed_member_is_uniform_or_higher() -> None:
    p = np.concatenate(
        [
            exposed.p_values(exposed.count_accused(world.score, world.member), 200)
            for world in (simulated.draw("few levels, many ties", 0.0, s, 50, 200)
                          for s in range(200))
        ]
    )  # fmt: skip
    for level in (
        0.01,
        0.05,
        0.1,
        0.5,
    ):
        assert np.mean(p <= level) <= level


def test_q_values_are_benjamini_and_hochbergs() -> None:
    from scipy.stats import false_discovery_control

    rng = np.random.default_rng(0)
    for members, nonmembers in ((1, 1), (30, 7), (300, 1000)):
        accused = rng.integers(0, nonmembers + 1, members)
        ours = exposed.q_values(accused, nonmembers)
        usual = false_discovery_control(exposed.p_values(accused, nonmembers))
        np.testing.assert_allclose(ours, usual)


@pytest.mark.parametrize("name", TABLES)
def test_members_are_accused_with_all_who_score_as_high(name: str) -> None:
    table = TABLES[name]
    for score in table.scores:
        accused = exposed.count_accused(score, table.member)
        inside, outside = score[table.member], score[~table.member]
        assert accused.tolist() == [sum(other >= one for other in outside) for one in inside]
        conformal = (1 + accused) / (1 + table.nonmembers)
        np.testing.assert_allclose(
            exposed.q_values(accused, table.nonmembers), stats.false_discovery_control(conformal)
        )


def test_members_that_tie_have_one_q_value() -> None:
    q = exposed.q_values(np.array([0, 3, 3, 3, 9]), nonmembers=99)
    assert q[1] == q[2] == q[3]


@pytest.mark.parametrize("q", [0.01, 0.05, 0.1, 0.2, 1 / 3])
@pytest.mark.parametrize("members", [1, 3, 20, 200, 999])
@pytest.mark.parametrize("nonmembers", [1, 8, 9, 18, 19, 99, 200, 3_999])
def test_the_fewest_listed_are_the_smallest_group_above_all_non_members(
    members: int, nonmembers: int, q: float
) -> None:
    sizes = [
        k
        for k in range(1, members + 1)
        if np.sum(exposed.q_values(np.repeat([0, nonmembers], [k, members - k]), nonmembers) <= q)
    ]
    assert exposed.fewest_listed(members, nonmembers, q) == (sizes[0] if sizes else None)


@pytest.mark.parametrize("q", [0.05, 0.1, 1 / 3])
@pytest.mark.parametrize(("members", "listed"), [(1, 1), (200, 1), (200, 7), (999, 998)])
def test_as_many_non_members_as_said_are_enough_and_one_less_is_not(
    members: int, listed: int, q: float
) -> None:
    enough = exposed.nonmembers_needed(members, listed, q)
    fewest = exposed.fewest_listed(members, enough, q)
    assert fewest is not None
    assert fewest <= listed
    fewer = exposed.fewest_listed(members, enough - 1, q) if enough > 1 else None
    assert fewer is None or fewer > listed


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(DataError, match="finite"):
        exposed.count_accused(np.array([np.nan, 1.0]), np.array([True, False]))


def test_the_limit_of_a_top_is_wrong_in_few_of_all_orders() -> None:
    """All 924 memberships of 12 records without a leak."""
    score, wrong = np.arange(12.0), []
    for chosen in itertools.combinations(range(12), 6):
        member = np.isin(np.arange(12), chosen)
        wrong.append(exposed.fewest_exposed_on_top(score, member, 12, 0.2) > 0)
    assert 0.02 < np.mean(wrong) <= 0.2


@pytest.mark.parametrize(("members", "nonmembers"), [(60, 60), (200, 200), (100, 900), (900, 100)])
@pytest.mark.parametrize("error", [0.05, 0.05 / 12])
def test_for_one_number_of_nonmembers_the_limit_is_that_of_the_exact_test_or_lower(
    members: int, nonmembers: int, error: float
) -> None:
    """Before the next non-member come so many members by the negative hypergeometric law."""
    for alarms in range(10):
        order = np.r_[np.zeros(alarms, bool), np.ones(members, bool)]
        member = np.append(order, np.zeros(nonmembers - alarms, bool))
        score = np.r_[np.full(len(order), 1.0), np.zeros(nonmembers - alarms)]
        least = exposed.fewest_exposed_on_top(score, member, len(order), error)
        law = stats.nhypergeom(members + nonmembers, members, alarms + 1)
        assert law.sf(members - least) <= error
        assert least >= members - law.isf(error / 40) - 1  # and not much lower


@pytest.mark.parametrize("population", thin(3, simulated.POPULATIONS))
def test_limits_of_all_tops_of_twelve_attacks_hold_at_once(population: str) -> None:
    audits, wrong, limits = 60, 0, []
    for seed in range(audits):
        tops = simulated.measure_tops(population, 0.4, 200, seed)
        wrong += any(top.limit > top.exposed for top in tops)
        limits += [top.limit for top in tops]
    assert wrong <= stats.binom.isf(1e-3, audits, 0.05)
    assert np.mean(limits) > 5


def test_a_top_holds_exposed_members_whatever_ties_reach_beyond_it() -> None:
    member = np.arange(400) < 200
    score = np.where(np.arange(400) < 20, 2.0, 1.0)
    assert exposed.fewest_exposed_on_top(score, member, 19, 0.05) == 0
    least = exposed.fewest_exposed_on_top(score, member, 20, 0.05)
    assert exposed.fewest_exposed_on_top(score, member, 399, 0.05) == least > 0
    assert exposed.fewest_exposed_on_top(-score, member, 380, 0.05) == 0
