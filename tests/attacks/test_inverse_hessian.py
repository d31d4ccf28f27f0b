"""The inverse Hessian attack against its formula, written out for one record after another."""

from typing import Any

import numpy as np
import pytest

from divulge.attacks.membership import inverse_hessian
from divulge.attacks.membership.inverse_hessian import InverseHessian
from divulge.core import ModelView, Records
from divulge.errors import NotApplicable, SpecError
from divulge.targets.torch import TorchTarget

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = (np.eye(3, 4)[Y] + 0.5 * RNG.normal(size=(60, 4))).astype(np.float64)
KNOWN, CANDIDATES = Records(X[:40], Y[:40]), Records(X[40:], Y[40:])


def view(width: int, steps: int = 50) -> ModelView:
    """A network of 8 width + 3 weights that learned the known members."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3)).double()
    optimiser = torch.optim.SGD(module.parameters(), 0.5)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(torch.tensor(KNOWN.x)), torch.tensor(KNOWN.y)).backward()
        optimiser.step()
    return ModelView(TorchTarget(module.eval(), "logits"), CANDIDATES, known_members=KNOWN)


def naive_scores(seen: ModelView, rate: float, damping: float) -> list[float]:
    """The authors' score with the whole Hessian, one record after another."""
    module = seen.target.module  # type: ignore[attr-defined]
    shapes = {name: one.shape for name, one in module.named_parameters()}
    sizes = [shape.numel() for shape in shapes.values()]

    def loss(flat: Any, records: Records) -> Any:
        parts = zip(shapes.items(), flat.split(sizes), strict=True)
        weights = {name: part.reshape(shape) for (name, shape), part in parts}
        answers = torch.func.functional_call(module, weights, (torch.tensor(records.x),))
        return nn.functional.cross_entropy(answers, torch.tensor(records.y))

    flat = nn.utils.parameters_to_vector(module.parameters()).detach()
    hessian = torch.autograd.functional.hessian(lambda at: loss(at, KNOWN), flat)
    inverse = torch.linalg.inv(hessian + damping * torch.eye(len(flat), dtype=flat.dtype))
    pull = inverse @ torch.autograd.functional.jacobian(lambda at: loss(at, KNOWN), flat)
    scores = []
    for row in range(len(CANDIDATES)):
        one = CANDIDATES.take(np.array([row]))
        moved = inverse @ torch.autograd.functional.jacobian(
            lambda at, one=one: loss(at, one), flat
        )
        second, third = moved @ moved / len(KNOWN) / rate, 2 * pull @ moved / rate
        scores.append((loss(flat, one) - (second + third)).item())
    return scores


def test_it_is_the_formula() -> None:
    seen = view(4)
    found = InverseHessian(0.3, 0.5)(seen, np.random.default_rng(0)).score
    np.testing.assert_allclose(found, naive_scores(seen, 0.3, 0.5), rtol=1e-8)


def test_with_the_largest_eigenvalues_alone_it_is_the_formula_within_the_neglected_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A neglected eigenvalue changes its share of a vector by a tenth at most, so |H^-1 g|² by at
    most 1.1² - 1; the loss and the pull of the members, which ended near 0, are the rest.
    """
    monkeypatch.setattr(inverse_hessian, "FIRST", 4)
    seen, decomposed = view(20, 2000), []
    inner = inverse_hessian._decompose

    def note(*given: Any) -> Any:
        decomposed.append(inner(*given))
        return decomposed[-1]

    monkeypatch.setattr(inverse_hessian, "_decompose", note)
    found = InverseHessian(0.1, 0.2)(seen, np.random.default_rng(0)).score
    assert 4 <= len(decomposed[0][0]) < 163
    np.testing.assert_allclose(found, naive_scores(seen, 0.1, 0.2), rtol=0.21)


def test_a_training_that_did_not_end_near_a_minimum_is_refused() -> None:
    with pytest.raises(NotApplicable, match="near a minimum"):
        InverseHessian(0.1, 1e-6)(view(4, 1), np.random.default_rng(0))


@pytest.mark.parametrize("setting", ["learning_rate", "damping"])
def test_settings_are_above_zero(setting: str) -> None:
    with pytest.raises(SpecError, match=f"{setting} above 0"):
        InverseHessian(**{setting: 0.0})
