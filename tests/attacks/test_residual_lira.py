"""The likelihood ratio of residuals, by a loop over records with SciPy's densities."""

import numpy as np
import pytest
from scipy import stats

from divulge.attacks.membership.lira import Density, ResidualKind, ResidualLiRA
from divulge.attacks.shared import turns
from divulge.core import ModelView, Records, Shadows

RECORDS, MODELS = 40, 8


def draw(*, online: bool) -> tuple[ModelView, np.ndarray, np.ndarray]:
    """A regression model and shadows whose residuals are smaller for what they learned."""
    rng = np.random.default_rng(3)
    member = rng.random((RECORDS, MODELS + 1)) < 0.5
    member[:, :2], member[:, 2:4] = True, False  # each record is known to two, and to two not
    residual = rng.normal(0.4, np.where(member, 0.3, 1.0))
    y = rng.normal(size=RECORDS)
    seen = member[:, :-1] & online
    shadows = Shadows(residual[:, :-1], seen, np.empty((0, MODELS)))
    view = ModelView(
        turns.replay(residual[:, -1], y),
        Records(np.arange(1.0 * RECORDS)[:, None], y),
        None,
        shadows,
    )
    return view, residual, seen


def spreads(phi: np.ndarray, side: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Mean, sum of squares and number by record, and the variance of all."""
    rows = [row[mask] for row, mask in zip(phi, side, strict=True)]
    squares = np.array([((row - row.mean()) ** 2).sum() for row in rows])
    counts = np.array([len(row) for row in rows])
    return (
        np.array([row.mean() for row in rows]),
        squares,
        counts,
        squares.sum() / (counts - 1).sum(),
    )


def log_densities(
    phi: np.ndarray, side: np.ndarray, density: Density, home: float | None = None
) -> np.ndarray:
    mean, squares, counts, pooled = spreads(phi[:, :-1], side)
    centre = mean if home is None else np.full(RECORDS, home)
    observed = phi[:, -1]
    if density == "gaussian":  # fewer than 16 a side: one variance for all
        return np.asarray(stats.norm(centre, pooled**0.5).logpdf(observed))
    freedom = counts - 1 + 4
    wide = ((squares + 4 * pooled) / freedom * (1 + 1 / counts)) ** 0.5
    student = stats.t(freedom)
    return np.asarray(stats.t(freedom, centre, wide).logpdf(observed) - student.logpdf(0.0))


@pytest.mark.parametrize("residual", ["signed", "size"])
@pytest.mark.parametrize("density", ["student", "gaussian"])
@pytest.mark.parametrize("online", [True, False])
def test_residuals_are_compared_as_by_the_naive_twin(
    *, online: bool, density: Density, residual: ResidualKind
) -> None:
    view, residuals, member = draw(online=online)
    phi = residuals if residual == "signed" else -np.abs(residuals)
    others = log_densities(phi, ~member, density)
    if online:
        expected = log_densities(phi, member, density) - others
    elif residual == "signed":  # a member's residual lies around zero, as widely as others'
        expected = log_densities(phi, ~member, density, home=0.0) - others
    else:
        mean, squares, counts, pooled = spreads(phi[:, :-1], ~member)
        shrunk = (squares + 4 * pooled) / (counts - 1 + 4)
        variance = pooled if density == "gaussian" else shrunk
        expected = (phi[:, -1] - mean) / variance**0.5
    attack = ResidualLiRA(residual=residual, density=density)
    found = attack(view, np.random.default_rng(0)).score
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
