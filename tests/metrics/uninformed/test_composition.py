"""Class shares: the test keeps its error, is exact with few clients, and finds what is there."""

import numpy as np
import pytest
from scipy.stats import binom

from divulge.core import Proportions
from divulge.metrics import composition as metrics
from divulge.metrics.uninformed import composition
from divulge.metrics.uninformed.draws import RandomisationTest

CLASSES, ATTACKS = 10, 3
Mixes = list[Proportions]


def mixes(rng: np.random.Generator, clients: int) -> Mixes:
    drawn = rng.dirichlet(np.full(CLASSES, 0.5), clients)
    return [Proportions.of(rng.multinomial(100, row)) for row in drawn]


def audited(rng: np.random.Generator, clients: int, blur: float) -> RandomisationTest:
    """Three correlated attacks: of each guess, a share ``blur`` is somebody else's mix."""
    truth, others = mixes(rng, clients), mixes(rng, clients)
    guesses = []
    for _ in range(ATTACKS):
        share = [
            np.abs((1 - blur) * own.share + blur * other.share + rng.normal(0, 0.02, CLASSES))
            for own, other in zip(truth, others, strict=True)
        ]
        guesses.append([Proportions(one / one.sum(), one / one.sum() < 0.02) for one in share])
    return composition.randomise([*guesses, None], truth, rng)


@pytest.mark.parametrize("clients", [4, 5, 8])
def test_it_errs_in_one_of_twenty_audits(clients: int) -> None:
    rng, audits = np.random.default_rng(clients), 400
    found = sum(audited(rng, clients, 1.0).p <= 0.05 for _ in range(audits))
    assert found <= binom.isf(1e-3, audits, 0.05)


@pytest.mark.parametrize(("clients", "blur"), [(4, 0.2), (6, 0.5), (10, 0.7)])
def test_it_finds_guesses_that_are_partly_right(clients: int, blur: float) -> None:
    rng, audits = np.random.default_rng(clients), 150
    found = sum(audited(rng, clients, blur).p <= 0.05 for _ in range(audits))
    # measured .95 and more: with .9 a count below this comes about once in a thousand tests
    assert found >= binom.ppf(1e-3, audits, 0.9)


@pytest.mark.parametrize(("clients", "orders"), [(3, 6), (4, 24), (5, 120)])
def test_with_few_clients_p_is_exact(clients: int, orders: int) -> None:
    rng = np.random.default_rng(0)
    truth = mixes(rng, clients)
    found = composition.randomise([truth], truth, rng)
    assert len(found.draws[0]) == orders
    assert found.p == pytest.approx(1 / orders)
    assert found.smallest == pytest.approx(1 / orders)


def test_clients_who_hold_the_same_cannot_be_told_apart() -> None:
    rng = np.random.default_rng(0)
    truth = mixes(rng, 3)
    truth = [*truth, truth[0]]
    assert composition.randomise([truth], truth, rng).smallest == pytest.approx(2 / 24)
    assert composition.randomise([truth], truth, rng).p == pytest.approx(2 / 24)
    alike = [truth[0]] * 5
    assert composition.randomise([mixes(rng, 5)], alike, rng).p == 1.0


def test_what_all_clients_have_in_common_is_not_seen() -> None:
    """A limit that the page states: a perfect guess of a common mix stands out nowhere."""
    rng = np.random.default_rng(0)
    common = Proportions.of(np.array([70, 10, 10, 10]))
    truth = [Proportions.of(rng.multinomial(100, common.share)) for _ in range(6)]
    assert composition.randomise([[common] * 6], truth, rng).p == 1.0


def test_statistics_are_the_metrics() -> None:
    rng = np.random.default_rng(1)
    truth, guess = mixes(rng, 5), mixes(rng, 5)
    found, measured = (
        composition.randomise([guess], truth, rng),
        metrics.measure(guess, truth).metrics,
    )
    assert -found.observed_value(0, "l1") == pytest.approx(measured["l1"].value)
    assert found.observed_value(0, "null") == pytest.approx(measured["null_accuracy"].value)
