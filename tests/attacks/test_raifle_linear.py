"""Posterior means of linear systems, beside the textbook's formulas on whole covariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.attacks.interactions.raifle import linear
from divulge.attacks.interactions.raifle.coins import PRIOR_MEAN
from divulge.attacks.interactions.raifle.linear import _posterior
from divulge.core import Affine

PRIOR = 0.25


def textbook(affine: Affine, update: np.ndarray) -> tuple[np.ndarray, float]:
    """The mean and the surprise at the likeliest of the same sizes of noise."""
    matrix = affine.matrix
    rest = update - affine.constant - matrix.sum(axis=1) / 2
    found = []
    for size in np.linspace(-20, 2, 89):
        noise = rest @ rest / len(rest) * np.exp(size)
        covariance = PRIOR * matrix @ matrix.T + noise * np.eye(len(rest))
        inner = np.linalg.solve(covariance, rest)
        surprise = (np.linalg.slogdet(covariance)[1] + rest @ inner) / 2
        found.append((surprise, 0.5 + PRIOR * matrix.T @ inner))
    surprise, mean = min(found, key=lambda one: float(one[0]))
    return mean, float(surprise)


@given(
    st.integers(2, 12), st.integers(2, 12), st.sampled_from([1e-3, 0.1, 3.0]), st.integers(0, 99)
)
def test_it_is_the_textbooks(numbers: int, items: int, noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    affine = Affine(rng.normal(size=numbers), rng.normal(size=(numbers, items)))
    acted = rng.random(items) < 0.5
    update = affine.constant + affine.matrix @ acted + rng.normal(0, noise, numbers)
    found = _posterior(affine, update)
    mean, surprise = textbook(affine, update)
    assert found.surprise == pytest.approx(surprise, abs=1e-3)
    np.testing.assert_allclose(found.value, mean, atol=1e-4)


@pytest.mark.parametrize(("numbers", "items"), [(20, 6), (6, 20)])
def test_rank_and_condition_are_those_of_singular_values(numbers: int, items: int) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(numbers, 3)) @ rng.normal(size=(3, items))
    update = matrix @ (rng.random(items) < 0.5)
    affine, size = Affine(np.ones(numbers), matrix), np.linalg.svd(matrix, compute_uv=False)
    found = _posterior(affine, update + 1)
    assert found.rank == 3
    assert found.condition == pytest.approx(size[0] / size[2])
    solution, rank, condition = linear._least_squares(affine, update + 1)
    assert rank == 3
    assert condition == pytest.approx(size[0] / size[2])
    np.testing.assert_allclose(matrix @ solution, update, atol=1e-9)
    assert linear._least_squares(Affine(update, 0 * matrix), update)[1:] == (0, np.inf)


@pytest.mark.parametrize("numbers", [8, 3])
def test_items_without_a_trace_tie_exactly(numbers: int) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(numbers, 5))
    matrix[:, [1, 4]] = 0.0
    found = _posterior(Affine(np.zeros(numbers), matrix), rng.normal(size=numbers))
    assert (found.value[[1, 4]] == PRIOR_MEAN).all()
    assert (found.value[[0, 2, 3]] != PRIOR_MEAN).all()


def test_an_update_that_says_nothing_leaves_all_at_the_prior() -> None:
    found = _posterior(Affine(np.zeros(4), np.zeros((4, 3))), np.zeros(4))
    assert (found.value == PRIOR_MEAN).all()
    assert found.rank == 0
