"""Interactions of 0 and 1 behind a linear system, beside all of their combinations."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from divulge.attacks.interactions.raifle import coins
from divulge.attacks.interactions.raifle.coins import PRIOR_MEAN, WhiteSystem


def enumerated(system: WhiteSystem) -> np.ndarray:
    """Posterior of each coin from the likelihoods of all combinations."""
    each = np.array(list(itertools.product([0.0, 1.0], repeat=system.matrix.shape[1])))
    fit = -((system.rest - each @ system.matrix.T) ** 2).sum(axis=1) / 2
    weight = np.exp(fit - fit.max())
    found: np.ndarray = weight @ each / weight.sum()
    return found


def drawn(
    equations: int, items: int, noise: float, seed: int, rate: float = 0.5
) -> tuple[WhiteSystem, np.ndarray]:
    rng = np.random.default_rng(seed)
    acted = rng.random(items) < rate
    matrix = rng.normal(size=(equations, items)) / noise
    return WhiteSystem(matrix, matrix @ acted + rng.normal(size=equations)), acted


def test_separate_coins_are_judged_exactly() -> None:
    matrix, rest = np.diag([0.5, 1.0, 3.0]), np.array([0.4, 0.1, 2.9])
    slope = matrix.diagonal()
    wanted = expit(slope * (rest - slope / 2))
    np.testing.assert_allclose(
        coins.propagate(WhiteSystem(matrix, rest)).probability, wanted, atol=1e-3
    )


@pytest.mark.parametrize(("equations", "items"), [(12, 8), (7, 8)])
def test_it_is_near_the_posterior_over_all_combinations(equations: int, items: int) -> None:
    apart = []
    for seed in range(12):
        system, _ = drawn(equations, items, 1.0, seed)
        apart.append(np.abs(coins.propagate(system).probability - enumerated(system)).mean())
    assert np.mean(apart) < 0.03


def test_coins_are_found_from_fewer_equations_than_items() -> None:
    """A normal prior spreads what is open; coins leave one combination that fits."""
    for seed in range(4):
        system, acted = drawn(28, 40, 1e-3, seed)
        np.testing.assert_array_equal(coins.propagate(system).probability > 0.5, acted)
        least, *_ = np.linalg.lstsq(system.matrix, system.rest - system.matrix.sum(1) / 2)
        assert not np.array_equal(least > 0, acted)


def test_few_interactions_are_found_from_fewer_than_half_as_many_equations() -> None:
    """With fair coins and noise of its own size alone, 7 of these 12 ended at a wrong answer."""
    for seed in range(12):
        system, acted = drawn(26, 60, 1e-3, seed, 0.12)
        np.testing.assert_array_equal(coins.propagate(system).probability > 0.5, acted)


def test_a_second_answer_that_explains_less_is_not_taken() -> None:
    """With half as many equations as coins that are fair, estimating their rate often harms."""
    worse = 0
    for seed in range(12):
        system, _ = drawn(32, 80, 1e-2, seed)
        fair = coins._fair_coins(system)
        first = coins._lower_noise(system, 1.0, fair, fair=True).probability
        noise = float(np.sqrt(max(coins.unexplained(system, first) / 32, 1.0)))
        second = coins._lower_noise(system, noise, fair, fair=False).probability
        left = [
            coins.unexplained(system, x)
            for x in (first, second, coins.propagate(system).probability)
        ]
        worse += left[0] > 100 and left[1] > left[0]
        assert left[2] <= left[0]
    assert worse


def test_a_system_much_like_the_last_goes_on_where_that_ended() -> None:
    """The answer is that from fair coins, and no factor moves when nothing has changed."""
    for seed in range(4):
        system, _ = drawn(40, 30, 0.5, seed)
        first = coins.propagate(system)
        again = coins.propagate(system, first)
        np.testing.assert_allclose(again.probability, first.probability, atol=1e-3)
        near = WhiteSystem(system.matrix, system.rest + 0.01)
        cold, warm = coins.propagate(near), coins.propagate(near, first)
        np.testing.assert_allclose(warm.probability, cold.probability, atol=1e-3)


def test_items_without_a_trace_stay_at_one_half() -> None:
    system, _ = drawn(6, 5, 0.5, 0)
    system.matrix[:, [1, 4]] = 0.0
    found = coins.propagate(system).probability
    assert (found[[1, 4]] == PRIOR_MEAN).all()
    assert (found[[0, 2, 3]] != PRIOR_MEAN).all()


@pytest.mark.parametrize("solve", [coins._solve_by_item, coins._solve_by_equation])
@pytest.mark.parametrize(("equations", "items"), [(12, 8), (7, 8)])
def test_both_ways_to_the_marginals_are_those_of_the_joint_normal(
    solve: Callable[[WhiteSystem], coins._Solver], equations: int, items: int
) -> None:
    system, _ = drawn(equations, items, 0.1, 0)
    rng = np.random.default_rng(1)
    precision, shift = rng.uniform(0.1, 9.0, items), rng.normal(size=items)
    covariance = np.linalg.inv(system.matrix.T @ system.matrix + np.diag(precision))
    mean, variance = solve(system)(precision, shift)
    np.testing.assert_allclose(mean, covariance @ (system.matrix.T @ system.rest + shift))
    np.testing.assert_allclose(variance, covariance.diagonal())


def test_a_matrix_that_rounding_left_singular_has_a_factor() -> None:
    ones = np.ones((3, 3))
    root = coins._factor(ones)
    assert (root.diagonal() > 0).all()
    np.testing.assert_allclose(root @ root.T, ones, atol=1e-14)


@pytest.mark.parametrize("equations", [16, 7])
def test_equal_items_behind_hardly_any_noise_do_not_stop_it(equations: int) -> None:
    """Rounding leaves no precision in the direction in which only their priors tell of them."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(equations, 8)) * 1e9
    matrix[:, :2] = 2.0**30  # the sum of 16 squares of it has an exact root: the next pivot is 0
    acted = np.array([1.0, 0, 1, 0, 1, 1, 0, 0])
    rounding = (matrix**2).sum(axis=0).max() * np.finfo(np.float64).eps
    assert rounding > 1 / coins.PRIOR_VARIANCE
    found = coins.propagate(WhiteSystem(matrix, matrix @ acted)).probability
    np.testing.assert_allclose(found[2:], acted[2:], atol=1e-3)
    assert found[:2].sum() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("numbers", [12, 60])
def test_noise_known_by_examples_is_made_white(numbers: int) -> None:
    """Twenty draws of noise that lies in three directions; new draws of it come out as white."""
    rng = np.random.default_rng(0)
    directions, matrix = rng.normal(size=(3, numbers)), rng.normal(size=(numbers, 8))
    size = np.array([5.0, 3.0, 1.0])

    def noise() -> np.ndarray:
        found: np.ndarray = (size * rng.normal(size=3)) @ directions
        return found + rng.normal(0, 0.01, numbers)

    acted = rng.random(8) < 0.5
    white = coins.whiten(matrix, matrix @ acted + noise(), np.stack([noise() for _ in range(20)]))
    np.testing.assert_array_equal(coins.propagate(white).probability > 0.5, acted)
    lost = coins.whiten(matrix, matrix @ acted + noise(), np.zeros((1, numbers)))
    surer = np.linalg.slogdet(white.matrix.T @ white.matrix)[1]
    assert surer > np.linalg.slogdet(lost.matrix.T @ lost.matrix)[1]
