"""A frozen discriminator's suspicion, against its own answers and PyTorch's gradients."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.defences.training.dap.discriminator import (
    Discriminator,
    MembershipEvidence,
    Samples,
    evidence,
    train_discriminator,
)
from divulge.defences.training.dap.folded_discriminator import DiscriminatorLoss
from divulge.defences.training.dap.loss import DiscriminatorAdversary
from divulge.defences.training.dap.trainer import DAP
from divulge.training.engine import loop
from divulge.training.engine.loop import Job
from divulge.training.tensors import PoolArrays
from tests.slow import slow

from . import trained_table as table


def discriminator(classes: int) -> Discriminator:
    """One whose normalisation layers all have moved from where they start."""
    rng = np.random.default_rng(classes)
    logits = torch.tensor(rng.normal(size=(300, classes)), dtype=torch.float32)
    y = torch.tensor(rng.integers(0, classes, 300))
    member = rng.random(300) < 0.5
    logits[torch.tensor(member), y[member]] += 2.0
    return train_discriminator(MembershipEvidence(evidence(logits, y).numpy(), member), classes)


@pytest.mark.parametrize(("classes", "records"), [(2, 1), (3, 40), (7, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_are_those_of_the_discriminators_answers(
    classes: int, records: int, dtype: torch.dtype
) -> None:
    d = discriminator(classes)
    rng = np.random.default_rng(records)
    logits = torch.tensor(3 * rng.normal(size=(records, classes)), dtype=dtype, requires_grad=True)
    y = torch.tensor(rng.integers(0, classes, records))
    expected = cross_entropy(d(evidence(logits, y).float()), torch.zeros_like(y))
    (slope,) = torch.autograd.grad(expected, logits)
    assert slope.abs().max() > 1e-5

    suspicion = DiscriminatorLoss(d, torch.device("cpu"))
    before = logits.detach().clone()
    losses, gradients = suspicion.with_gradients(before, y)
    assert torch.equal(before, logits)
    assert gradients.dtype == dtype
    torch.testing.assert_close(losses.mean(), expected.detach(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(suspicion.losses(before, y), losses)
    torch.testing.assert_close(gradients / records, slope, rtol=1e-3, atol=1e-6)


class Other(nn.Sequential):
    """The same layers, which no step by hand is known for."""


@pytest.mark.parametrize("settings", [{}, {"optimiser": "sgd", "lr": 0.1, "momentum": 0.9}])
@pytest.mark.parametrize("samples", ["misclassified", "all"])
def test_a_dense_network_is_trained_without_a_graph_and_is_the_same(
    samples: Samples, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = DiscriminatorAdversary(discriminator(table.CLASSES), 0.5, samples)
    recipe = replace(table.RECIPE, epochs=4, loss=loss, **settings)
    data = PoolArrays.prepare(table.POOL, table.network()).tensors("cpu")
    job = Job(np.arange(60), 3)
    by_autograd = replace(recipe, network=lambda: Other(*table.network().children()))
    expected = loop.train_network(by_autograd, data, job).state_dict()
    plain = loop.train_network(replace(recipe, loss=None), data, job).state_dict()
    with monkeypatch.context() as patched:
        patched.setattr(torch.autograd, "backward", None)
        found = loop.train_network(recipe, data, job).state_dict()
    for name, weights in found.items():
        torch.testing.assert_close(weights, expected[name], rtol=1e-3, atol=1e-4)
        assert not torch.allclose(weights, plain[name], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("samples", ["misclassified", slow("all")])
@pytest.mark.parametrize("settings", [{}, {"patience": 1}, slow({"optimiser": "sgd", "lr": 0.1})])
def test_all_r_at_once_are_each_r_alone(samples: Samples, settings: dict[str, Any]) -> None:
    recipe = replace(table.RECIPE, epochs=4, **settings)
    d, job = discriminator(table.CLASSES), Job(np.arange(60), 3)
    dap = DAP(recipe, (0.0, 0.5, 2.0), samples=samples, way="one-by-one", workers=1)
    together = dap.train_each(d, table.POOL, job)
    seen = []
    for r, found in zip(dap.r, together, strict=True):
        (alone,) = replace(dap, r=(r,)).train_each(d, table.POOL, job)
        assert found.recipe == alone.recipe
        weights = alone.module.state_dict()
        for name, tensor in found.module.state_dict().items():
            torch.testing.assert_close(tensor, weights[name], rtol=1e-3, atol=1e-4)
        seen.append(next(found.module.parameters()))
    assert not torch.allclose(seen[0], seen[2], rtol=1e-2, atol=1e-2)
