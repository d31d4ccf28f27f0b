"""What an audit is said to see, held against simulated audits."""

import numpy as np
import pytest
from scipy import special, stats

from divulge.errors import SpecError
from divulge.metrics import max_test as module
from divulge.metrics.max_test import max_test
from divulge.metrics.membership import auc
from divulge.metrics.people import combine
from divulge.metrics.power import (
    POWER,
    auc_by_record,
    critical_deviation,
    members_needed,
    visible_leaks,
)
from tests.slow import slow
from tests.uneven_tables import TABLES

RUNS = 150


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test is exact with any number of draws; many only make its p-value finer."""
    monkeypatch.setattr(module, "DRAWS", 499)


def share_found(members: int, nonmembers: int, shift: float, exposed: float) -> float:
    """How often one attack among independent useless ones is a find."""
    rng = np.random.default_rng(0)
    member = np.arange(members + nonmembers) < members
    found = 0
    for _ in range(RUNS):
        scores = rng.standard_normal((4, len(member)))
        scores[0] += shift * member
        scores[0, : round(exposed * members)] += 10
        found += max_test(scores, member).p_value <= 0.05
    return found / RUNS


@pytest.mark.parametrize("sizes", [slow((300, 300)), (50, 500)])
def test_leaks_that_are_said_to_be_seen_are_seen(sizes: tuple[int, int], few_draws: None) -> None:
    seen = visible_leaks(*sizes, critical_deviation(*sizes, attacks=4, correlation=0.0))
    assert seen.auc is not None
    assert seen.exposed is not None
    least = stats.binom.ppf(1e-3, RUNS, POWER) / RUNS
    shift = float(special.ndtri(seen.auc)) * np.sqrt(2)
    assert share_found(*sizes, shift, 0.0) >= least
    assert share_found(*sizes, 0.0, seen.exposed) >= least


def test_members_that_reach_the_critical_deviation_and_do_not_exceed_it_are_not_seen() -> None:
    """Of 550 records the top 1 % has six places, and 50 members: 0.545 by chance."""
    mean, variance = 6 / 11, 6 * (1 / 11) * (10 / 11) * (544 / 549)
    for held in (3, 4, 5):  # as `max_test` has it: an atom of the deviation, and a little more
        critical = (held - mean) / np.sqrt(variance) + 1e-9
        exposed = visible_leaks(50, 500, critical, power=1 - 1e-6).exposed
        assert exposed is not None
        assert exposed * 50 > held


@pytest.mark.slow
def test_half_of_such_a_leak_is_mostly_missed(few_draws: None) -> None:
    seen = visible_leaks(300, 300, critical_deviation(300, 300, attacks=4, correlation=0.0))
    assert seen.auc is not None
    shift = float(special.ndtri(0.5 + (seen.auc - 0.5) / 2)) * np.sqrt(2)
    assert share_found(300, 300, shift, 0.0) < 0.5


def test_more_records_see_smaller_leaks() -> None:
    sizes = (20, 60, 200, 1000, 5000)
    seen = [visible_leaks(n, n, critical_deviation(n, n)) for n in sizes]
    aucs = [one.auc for one in seen if one.auc is not None]
    shares = [one.exposed for one in seen if one.exposed is not None]
    assert len(aucs) == len(shares) == len(sizes)
    assert aucs == sorted(aucs, reverse=True)
    assert shares == sorted(shares, reverse=True)


SIZES = {(table.members, table.nonmembers) for table in TABLES.values()}


@pytest.mark.parametrize("sizes", sorted({(300, 300), (50, 500), (1, 400), *SIZES}))
def test_the_auc_that_is_seen_is_on_the_edge_by_hanley_and_mcneil(sizes: tuple[int, int]) -> None:
    members, nonmembers = sizes
    auc = visible_leaks(*sizes, critical=1.5).auc
    if auc is None:  # not even perfect scores deviate as far
        assert np.sqrt(3 * members * nonmembers / (members + nonmembers + 1)) < 1.5
        return
    two_members, two_nonmembers = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (members - 1) * (two_members - auc**2)
    spread += (nonmembers - 1) * (two_nonmembers - auc**2)
    edge = 1.5 * np.sqrt((members + nonmembers + 1) / (12 * members * nonmembers))
    below = stats.norm.ppf(POWER) * np.sqrt(spread / (members * nonmembers))
    assert auc == pytest.approx(0.5 + edge + below, abs=1e-9)


def test_more_attacks_need_more_records() -> None:
    needed = [members_needed(auc=0.6, attacks=attacks) or 0 for attacks in (1, 12, 40)]
    assert needed[0] < needed[1] < needed[2]


def test_three_records_see_nothing() -> None:
    assert visible_leaks(3, 3, critical_deviation(3, 3)) == (None, None)


@pytest.mark.parametrize("leak", [{"auc": 0.65}, {"exposed": 0.1}])
def test_what_is_needed_is_enough_and_half_of_it_is_not(leak: dict[str, float]) -> None:
    size = members_needed(**leak)  # type: ignore[arg-type]
    assert size is not None
    name, asked = next(iter(leak.items()))
    found = getattr(visible_leaks(size, size, critical_deviation(size, size)), name)
    fewer = getattr(
        visible_leaks(size // 2, size // 2, critical_deviation(size // 2, size // 2)), name
    )
    assert found <= 1.1 * asked
    assert fewer > asked


def test_a_leak_too_small_to_be_seen_needs_too_many() -> None:
    assert members_needed(auc=0.5001) is None


@pytest.mark.parametrize(
    "leak", [{}, {"auc": 0.5}, {"auc": 1.1}, {"exposed": 0.0}, {"auc": 0.6, "exposed": 0.1}]
)
def test_what_is_no_leak_is_refused(leak: dict[str, float]) -> None:
    with pytest.raises(SpecError, match="give one of the two"):
        members_needed(**leak)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (2, 2)])
def test_the_fewest_records_show_nothing_and_warn_of_nothing(sizes: tuple[int, int]) -> None:
    assert visible_leaks(*sizes, 2.0).exposed is None


@pytest.mark.parametrize(("each", "alike"), [(1, 0.0), (10, 0.5), (5, 0.0), (5, 1.0)])
def test_the_auc_by_record_is_that_of_drawn_scores(each: int, alike: float) -> None:
    rng, count = np.random.default_rng(0), 20_000
    person = np.repeat(np.arange(count), each)
    own = np.sqrt(alike) * rng.normal(size=count)[person]
    score = own + np.sqrt(1 - alike) * rng.normal(size=len(person)) + 0.5 * (person < count // 2)
    by_person = auc(combine(score, person, "mean"), np.arange(count) < count // 2).value
    by_record = auc(score, person < count // 2).value
    assert auc_by_record(by_person, float(each), alike) == pytest.approx(by_record, abs=0.01)


def test_attacks_that_say_the_same_cost_no_more_than_one(few_draws: None) -> None:
    del few_draws
    alone = critical_deviation(60, 80, attacks=1, correlation=1.0)
    assert critical_deviation(60, 80, attacks=9, correlation=1.0) == pytest.approx(alone)
    assert critical_deviation(60, 80, attacks=9, correlation=0.2) > alone + 0.1
