"""The plan of canaries: the smallest number that suffices is found, and its chance is counted."""

import math
from typing import Any

import numpy as np
import pytest

from divulge._util.random import stream
from divulge.canaries import plan as planning
from divulge.canaries.plan import gaussian_mu
from divulge.metrics import epsilon as bounds

SIZES = sorted({round(20 * 10 ** (k / 10), -1) for k in range(31)})
"""Ten numbers a decade, from 20 to 20,000, in whole tens."""


@pytest.mark.parametrize("least", SIZES)
def test_the_smallest_number_with_the_power_is_found(
    least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, float]] = []

    def chance(*given: float) -> float:
        canaries = int(given[4])
        asked.append((canaries, given[5] if len(given) > 5 else 0.0))
        return 0.8 if canaries >= least else 0.79

    monkeypatch.setattr(planning, "_chance", chance)
    fault = planning._plan_fault(1.0, 2.0, 1e-5, "any", 0.8)
    assert fault == planning.PlannedFault(2.0, int(least), 0.8)
    searched, last = asked[:-1], asked[-1]
    assert {power for _, power in searched} == {0.8}
    assert last[0] == least
    assert last[1] == 0.0  # the chance that is told is simulated to its end
    assert len(searched) <= math.ceil(math.log2(len(SIZES) + 1))  # each halves what is left


def test_the_largest_number_is_named_by_its_chance_where_it_does_not_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "_chance", lambda *given: given[4] / 100_000)
    fault = planning._plan_fault(1.0, 2.0, 1e-5, "any", 0.8)
    assert fault == planning.PlannedFault(2.0, None, 0.2)


@pytest.mark.parametrize(
    ("wanted", "right", "runs"),
    [(0.0, 0, 100), (0.8, 0, 21), (0.8, 10, 31), (1.0, 100, 100), (0.0, 100, 100)],
)
def test_a_simulation_ends_where_it_cannot_reach_the_power(
    wanted: float, right: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 runs 80 have to contradict: the 21st that does not decides."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def refute(
        epsilon: float, score: np.ndarray, inserted: np.ndarray, delta: float, noise: str
    ) -> bool:
        assert (epsilon, delta, noise) == (1.0, 1e-5, "gaussian")
        seen.append((score, inserted))
        return len(seen) <= right

    monkeypatch.setattr(planning, "refutes_epsilon", refute)
    chance = planning._chance.__wrapped__(1.0, 2.0, 1e-5, "gaussian", 200, wanted)
    assert len(seen) == runs
    assert chance == right / 100
    rng = stream(0, "canary plan", 200)
    for score, inserted in seen:  # a coin each, and the noise of the true ε
        np.testing.assert_array_equal(inserted, rng.random(200) < 0.5)
        noise = rng.normal(size=200) / gaussian_mu(2.0, 1e-5)
        np.testing.assert_allclose(score, inserted + noise, rtol=1e-12)


def test_what_gives_away_every_canary_has_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def refute(_: float, score: np.ndarray, inserted: np.ndarray, *__: object, noise: str) -> bool:
        assert noise == "any"
        return bool((score == inserted).all())

    monkeypatch.setattr(planning, "refutes_epsilon", refute)
    assert planning._chance.__wrapped__(1.0, math.inf, 1e-5, "any", 200) == 1.0


def test_a_simulation_without_a_canary_on_each_side_contradicts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "can_refute", lambda *_, **__: True)
    monkeypatch.setattr(planning, "refutes_epsilon", lambda *_, **__: True)
    rng = stream(0, "canary plan", 2)
    both = 0
    for _ in range(100):
        inserted = rng.random(2) < 0.5
        if 0 < inserted.sum() < 2:
            both += 1
            rng.normal(size=2)
    assert 0 < both < 100
    assert planning._chance.__wrapped__(1.0, 2.0, 1e-5, "any", 2) == both / 100


def test_nothing_is_simulated_where_no_score_could_contradict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "can_refute", lambda *_, **__: False)
    monkeypatch.setattr(planning, "refutes_epsilon", lambda *_, **__: True)
    assert planning._chance.__wrapped__(1.0, math.inf, 1e-5, "any", 200) == 0.0


@pytest.mark.parametrize(("records", "epsilon"), [(1, 1.0), (2, 2.0), (3, 3.0)])
def test_a_plan_is_for_what_is_promised_to_a_canary(
    records: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many records have so many times the ε; a canary has one unless it is said."""
    asked: list[tuple[float, float]] = []

    def chance(*given: Any) -> float:
        asked.append(given[:2])
        return 0.5

    monkeypatch.setattr(planning, "_chance", chance)
    more: dict[str, Any] = {} if records == 1 else {"records_each": records}
    plan = planning.plan_canaries(1.0, 1e-5, canaries=50, **more)
    assert plan.epsilon == epsilon
    assert asked == [(epsilon, times * epsilon) for times in planning.TIMES]
    assert bool(plan.promise) == (records > 1)
