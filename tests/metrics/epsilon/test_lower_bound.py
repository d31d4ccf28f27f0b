import math

import numpy as np
import pytest
from scipy import stats

from benchmarks import epsilon_mechanisms as mechanisms
from benchmarks.epsilon_mechanisms import DELTA, Cell
from divulge._util.random import stream
from divulge.core import MembershipDraw, NoiseAssumption
from divulge.errors import SpecError
from divulge.metrics.epsilon import count_usable, epsilon_lower_bound
from divulge.metrics.epsilon.lower_bound import refutes_epsilon
from tests.golden import golden
from tests.slow import thin
from tests.uneven_tables import LEAKY, TABLES

RUNS = 24
TOO_MANY = int(stats.binom.isf(2e-5, RUNS, 0.05))
"""Exceeded by a bound that just keeps its promise once in 50,000: in one suite of a thousand,
for some fifty mechanisms. A benchmark runs the same mechanisms 600 times."""


def exceedances(cell: Cell, runs: int = RUNS) -> int:
    found = 0
    for k in range(runs):
        score, member = cell.audit(stream(k, cell.name, cell.noise))
        bound = epsilon_lower_bound(score, member, cell.delta, drawn=cell.drawn, noise=cell.noise)
        found += bound.value > cell.epsilon
    return found


@pytest.mark.parametrize(
    "cell", thin(2, mechanisms.cells()), ids=lambda cell: f"{cell.name}, {cell.noise}"
)
def test_the_bound_stays_below_the_truth(cell: Cell) -> None:
    assert exceedances(cell) <= TOO_MANY


def test_there_are_enough_mechanisms() -> None:
    cells = mechanisms.cells()
    assert len(cells) >= 36
    assert {cell.noise for cell in cells} == {"any", "gaussian", "independent-gaussian"}


def test_independence_is_a_condition_and_not_a_courtesy() -> None:
    """Records that leak all at once in 20 % of runs: μ-private, but they depend on each other."""
    (cell,) = (cell for cell in mechanisms.cells() if cell.name.startswith("all at once in 20 %"))
    assert exceedances(cell._replace(noise="independent-gaussian"), 80) > 2 * TOO_MANY
    assert exceedances(cell) <= TOO_MANY


def test_fixed_numbers_have_their_price() -> None:
    """The training notices how many members there are; taken for coins, that refutes the truth."""
    epsilon, picked = 1.0, 100
    leak = lambda rng, member: mechanisms.by_number(rng, member, epsilon, picked)  # noqa: E731
    coins = lambda rng: mechanisms.fixed(rng, 5000, 5000)  # noqa: E731
    # the sum of the weights of all records changes by less than one part in 5,000 a pick
    cell = Cell("by number", epsilon + picked / 5000, 0.0, coins, leak, "fixed")
    assert exceedances(cell) <= TOO_MANY
    assert exceedances(cell._replace(drawn="coins"), 60) > 2 * TOO_MANY


def test_the_best_of_all_numbers_of_guesses_would_break_the_promise() -> None:
    """What is chosen by the scores has to be paid for: the reason for `sizes`."""
    wrong = 0
    for k in range(100):
        rng = stream(k, "chosen")
        hits = np.cumsum(mechanisms.coins(rng, 1000))
        size = np.arange(1, 1001)
        wrong += bool(np.min(stats.binom.sf(hits - 1, size, 0.5)) <= 0.05)
    assert wrong > 2 * TOO_MANY


@pytest.mark.parametrize(
    ("noise", "drawn", "least"),
    [
        ("any", "coins", 1.35),
        ("gaussian", "coins", 2.0),
        ("independent-gaussian", "coins", 2.5),
        ("independent-gaussian", "fixed", 2.5),
    ],
)
def test_the_bound_is_tight(noise: NoiseAssumption, drawn: str, least: float) -> None:
    """A Gaussian mechanism of ε = 4 about 1,000 records; the figures are those of the docs less
    two standard errors of the mean of 40 audits (0.3 / √40 each)."""
    bounds = []
    for k in range(40):
        rng = stream(k, "tight")
        member = (
            mechanisms.coins(rng, 1000) if drawn == "coins" else mechanisms.fixed(rng, 500, 500)
        )
        score = mechanisms.gaussian(rng, member, mechanisms.mu_of(4.0))
        bounds.append(
            epsilon_lower_bound(score, member, DELTA, drawn=drawn, noise=noise).value  # type: ignore[arg-type]
        )
    assert np.mean(bounds) >= least


@pytest.mark.parametrize("drawn", ["coins", "fixed"])
def test_few_records_are_no_error(drawn: str) -> None:
    for records in (2, 3, 5, 50):
        member = np.arange(records) % 2 == 0
        for noise in ("any", "gaussian", "independent-gaussian"):
            bound = epsilon_lower_bound(member + 0.0, member, DELTA, drawn=drawn, noise=noise)  # type: ignore[arg-type]
            assert 0 <= bound.value < math.inf
            assert bound.high is None
    member = np.arange(50) % 2 == 0
    assert epsilon_lower_bound(member + 0.0, member, DELTA, drawn=drawn).value > 1  # type: ignore[arg-type]


def test_a_binomial_closed_form() -> None:
    """All right and pure ε: of the guessings, all N records at 15 % of the error refute most."""
    member = np.arange(200) % 2 == 0
    found = epsilon_lower_bound(member + 0.0, member, drawn="coins").value
    share = (0.05 * 0.15) ** (1 / 200)
    assert found == pytest.approx(math.log(share / (1 - share)), rel=0.02)


def test_ties_are_ordered_by_a_coin_and_not_by_the_order_of_records() -> None:
    member = np.arange(1000) < 500
    assert epsilon_lower_bound(np.zeros(1000), member, drawn="fixed").value == 0.0


def test_unequal_groups_count_as_much_as_the_smaller() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(4000) < 400
    assert count_usable(member, "fixed") == (800, "fixed")
    assert count_usable(~member, "fixed") == (800, "fixed")
    assert count_usable(member, "coins") == (800, "fixed")  # no fair coin
    score = rng.normal(size=4000) + 2 * member
    assert epsilon_lower_bound(score, member, DELTA).value == golden(2.4108)
    assert epsilon_lower_bound(score - 2 * member, member, DELTA).value == 0.0


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("drawn", ["coins", "fixed"])
def test_more_tries_show_no_more_and_unequal_groups_count_as_the_smaller(
    name: str, drawn: MembershipDraw
) -> None:
    table = TABLES[name]
    smaller, records = min(table.members, table.nonmembers), len(table.member)
    fair = drawn == "coins" and abs(table.members - records / 2) <= 2.5 * math.sqrt(records)
    usable = (records, "coins") if fair else (2 * smaller, "fixed")
    assert count_usable(table.member, drawn) == usable
    best = [
        max(
            epsilon_lower_bound(score, table.member, DELTA, drawn=drawn, tries=tries).value
            for score in table.scores
        )
        for tries in (1, len(table.scores), 40)
    ]
    assert best == sorted(best, reverse=True)
    assert (best[1] > 0) == (name in LEAKY)


def test_who_stands_out_alone_is_seen_at_either_end() -> None:
    rng = np.random.default_rng(1)
    member = mechanisms.coins(rng, 2000)
    for group, sign in ((member, 1), (~member, -1)):
        score = rng.normal(size=2000)
        score[np.flatnonzero(group)[:100]] += sign * 100
        assert epsilon_lower_bound(score, member, DELTA, drawn="coins").value > 1.5


def test_a_delta_weakens_the_bound() -> None:
    rng = np.random.default_rng(2)
    member = mechanisms.coins(rng, 4000)
    score = mechanisms.response(rng, member, 3.0)
    bounds = [
        epsilon_lower_bound(score, member, delta, drawn="coins").value
        for delta in (0.0, 1e-5, 1e-3, 0.1)
    ]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > bounds[2] > bounds[3]


def test_the_best_of_many_tries_keeps_its_promise() -> None:
    """Ten scores that know nothing: their highest bound is above 0 in 5 % of audits at most."""
    above = 0
    for k in range(RUNS):
        rng = stream(k, "tries")
        member = mechanisms.coins(rng, 1000)
        above += any(
            epsilon_lower_bound(rng.normal(size=1000), member, drawn="coins", tries=10).value > 0
            for _ in range(10)
        )
    assert above <= TOO_MANY


def test_gaussian_noise_needs_a_delta() -> None:
    member = np.arange(100) % 2 == 0
    with pytest.raises(SpecError, match="delta above 0"):
        epsilon_lower_bound(member + 0.0, member, noise="gaussian")


@pytest.mark.parametrize("noise", ["any", "gaussian", "independent-gaussian"])
@pytest.mark.parametrize("strength", [0.0, 1.0, 3.0, 30.0])
def test_an_epsilon_is_refuted_where_the_bound_exceeds_it(
    noise: NoiseAssumption, strength: float
) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        member = rng.random(300) < 0.5
        score = strength * member + rng.normal(size=300)
        bound = epsilon_lower_bound(score, member, 1e-5, drawn="coins", noise=noise).value
        # both sides of the bound, and of the values at which the number of guesses changes
        for epsilon in (0.01, 0.02, bound - 1e-9, bound, bound + 1e-9, 0.5, 2.0, 3.0, 100.0):
            said = refutes_epsilon(epsilon, score, member, 1e-5, noise=noise)
            assert said == (bound > epsilon)


@pytest.mark.parametrize(
    ("members", "records", "drawn", "usable", "by"),
    [
        (75, 100, "coins", 100, "coins"),  # five standard deviations, 2 x 75 - 100 = 5 x 10
        (25, 100, "coins", 100, "coins"),
        (76, 100, "coins", 48, "fixed"),
        (24, 100, "coins", 48, "fixed"),
        (50, 100, "fixed", 100, "fixed"),
        (60, 100, "fixed", 80, "fixed"),
    ],
)
def test_coins_are_fair_up_to_five_standard_deviations(
    members: int, records: int, drawn: MembershipDraw, usable: int, by: str
) -> None:
    found = count_usable(np.arange(records) < members, drawn)
    assert (found.records, found.drawn) == (usable, by)
