"""Decaf's steps against closed forms and slow twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from divulge.attacks.composition.decaf import published
from divulge.attacks.shared import observed_round
from divulge.core import OutputLayerNames
from divulge.federation.output_layer import shares_of_biases, solve_on_simplex


def bases(seed: int, classes: int = 4, inputs: int = 6) -> np.ndarray:
    """One basis a class and the calibrator, about their sum, as in training."""
    rng = np.random.default_rng(seed)
    each = -rng.random((classes, classes, inputs)) / 4
    each[np.arange(classes), np.arange(classes)] = rng.random((classes, inputs))
    whole = each.sum(axis=0) + rng.normal(0, 0.05, (classes, inputs))
    return np.concatenate([each, whole[None]])


@pytest.mark.parametrize("seed", range(5))
def test_plain_gradient_descent_never_shows_a_class_that_is_absent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.random((40, 6)), rng.choice([0, 2], 40)
    weight = rng.normal(size=(4, 6))
    sent = weight.copy()
    for _ in range(5):
        answers = np.exp(x @ weight.T)
        answers /= answers.sum(axis=1, keepdims=True)
        weight = weight - 0.1 * (answers - np.eye(4)[y]).T @ x / len(x)
    change = (weight - sent) / 0.1
    assert observed_round.null_classes(change)[[1, 3]].all()


def test_a_threshold_hides_small_entries() -> None:
    change = np.array([[0.0005, -1.0], [0.01, -1.0]])
    assert observed_round.null_classes(change, 0.001).tolist() == [True, False]


@pytest.mark.parametrize("solver", ["nnls", "descent"])
@pytest.mark.parametrize("seed", range(3))
def test_scale_factors_that_built_a_change_are_found(seed: int, solver: published.Solver) -> None:
    known = bases(seed)
    scales = np.array([0.5, 0.0, 1.2, 0.1, 0.3])
    change = np.tensordot(scales, known, 1)
    found = published.decompose(change, known, solver)
    assert published.decomposition_loss(change, known, found) < 1e-3 * float((change**2).mean())
    if solver == "nnls":
        np.testing.assert_allclose(found, scales, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_reduced_system_has_the_solution_of_the_whole_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known, change = bases(seed), rng.normal(size=(4, 6))
    whole = lsq_linear(known.reshape(5, -1).T, change.ravel(), (0, np.inf), tol=1e-12).x
    np.testing.assert_allclose(published.decompose(change, known), whole, atol=1e-5)
    descended = published.decompose(change, known, "descent")
    exact = published.decomposition_loss(change, known, published.decompose(change, known))
    assert exact <= published.decomposition_loss(change, known, descended) + 1e-12


def test_shares_count_the_calibrator_for_each_class() -> None:
    np.testing.assert_allclose(
        published.class_shares(np.array([0.2, 0.0, 0.1])), [0.3 / 0.4, 0.1 / 0.4]
    )
    np.testing.assert_allclose(published.class_shares(np.zeros(5)), np.full(4, 0.25))


@given(st.integers(0, 10**6))
def test_the_simplex_solution_is_the_best_of_many(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, right = rng.normal(size=(5, 3)), rng.normal(size=5)
    found = solve_on_simplex(matrix, right)
    assert found.min() >= 0
    assert abs(found.sum() - 1) < 1e-9
    others = rng.dirichlet(np.full(3, 0.5), 300)
    best = np.linalg.norm(matrix @ others.T - right[:, None], axis=0).min()
    assert np.linalg.norm(matrix @ found - right) <= best + 1e-9


@given(st.integers(0, 10**6))
def test_one_step_of_any_model_gives_away_the_exact_shares(seed: int) -> None:
    """Where each class is answered alike, the balance is an identity."""
    rng = np.random.default_rng(seed)
    answers, shares = rng.dirichlet(np.ones(4), 4), rng.dirichlet(np.ones(4))
    shares[seed % 4] = 0
    shares /= shares.sum()
    change = 0.3 * (shares - answers.T @ shares)
    null = np.arange(4) == seed % 4
    found = shares_of_biases(change, 0.3, answers, null)
    np.testing.assert_allclose(found, shares, atol=1e-6)
    assert found[seed % 4] == 0


def test_the_last_layer_may_lack_biases() -> None:
    assert OutputLayerNames.of({"a.weight": (3, 2), "norm.bias": (2,)}) == OutputLayerNames(
        "a.weight", None
    )


def test_the_descent_is_that_of_adam_cut_off_at_zero() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    columns, right = rng.normal(size=(20, 4)), rng.normal(size=20)
    scales = torch.full((4,), 0.25, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([scales], lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        ((torch.tensor(columns) @ scales - torch.tensor(right)) ** 2).mean().backward()
        optimiser.step()
        scales.data.clamp_(min=0.0)
    found = published._solve_by_descent(columns, right, 5, 0.1)
    np.testing.assert_allclose(found, scales.detach().numpy(), rtol=1e-9)
    assert 0 < (found > 0).sum() < 4
