"""MIST: what its sub-models learn, and from whom."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from divulge._util.random import stream
from divulge.defences.training.mist import MIST
from divulge.errors import DataError
from divulge.training.engine.loop import Job

from . import trained_table as table

RECIPE = replace(
    table.RECIPE, optimiser="sgd", momentum=0.5, lr=0.2, select=None, epochs=3, schedule="cosine"
)
JOB = Job(np.arange(10, 50), 7)


def by_hand(models: int, weight: float, batch: int) -> dict[str, torch.Tensor]:
    """Epoch after epoch, each sub-model by itself, as the two phases are told."""
    x, y = torch.tensor(table.POOL.x), torch.tensor(table.POOL.y)
    torch.manual_seed(JOB.seed)
    model = table.network()
    for epoch in range(3):
        order = stream(JOB.seed, "parts", epoch).permutation(JOB.rows)
        parts = [torch.tensor(part) for part in np.array_split(order, models)]
        subs = [copy.deepcopy(model) for _ in parts]
        optimisers = [torch.optim.SGD(sub.parameters(), 0.2, 0.5) for sub in subs]

        def step(k: int, loss: torch.Tensor, progress: float) -> None:
            optimisers[k].param_groups[0]["lr"] = 0.1 * (1 + np.cos(np.pi * progress))  # noqa: B023
            optimisers[k].zero_grad()  # noqa: B023
            torch.autograd.backward(loss)
            optimisers[k].step()  # noqa: B023

        for k, part in enumerate(parts):
            for number, rows in enumerate(batches := torch.split(part, batch)):
                progress = (epoch + number / len(batches)) / 3
                step(k, cross_entropy(subs[k](x[rows]), y[rows]), progress)
        learned = [copy.deepcopy(sub) for sub in subs]
        for k, part in enumerate(parts):
            for number, rows in enumerate(batches := torch.split(part, batch)):
                own, distance = subs[k](x[rows]).softmax(1), torch.tensor(0.0)
                for other in (sub for j, sub in enumerate(learned) if j != k):
                    apart = (own - other(x[rows]).softmax(1).detach()).abs().sum(1)
                    distance = distance + apart.mean() / (models - 1)
                step(k, weight * distance, (epoch + number / len(batches)) / 3)
        with torch.no_grad():
            for parameter, *same in zip(
                model.parameters(), *(sub.parameters() for sub in subs), strict=True
            ):
                parameter.copy_(sum(same) / models)
    return {name: tensor.detach() for name, tensor in model.named_parameters()}


@pytest.mark.parametrize(("models", "weight"), [(3, 2.0), (2, 0.5)])
def test_it_is_what_a_loop_over_sub_models_learns(models: int, weight: float) -> None:
    recipe = replace(RECIPE, batch_size=7)  # 40 records in 3 parts: batches of 7, and of 6
    defence = MIST(recipe, models=models, weight=weight)
    subset = np.isin(np.arange(len(table.POOL)), JOB.rows)[None]
    (module,) = defence.networks(table.POOL, subset, [JOB.seed])
    expected = by_hand(models, weight, batch=7)
    for name, weights in module.named_parameters():
        torch.testing.assert_close(weights.detach(), expected[name], rtol=1e-4, atol=1e-5)


def test_without_the_second_phase_the_mean_is_another_model() -> None:
    subset = np.isin(np.arange(len(table.POOL)), JOB.rows)[None]
    alone, agreed = (
        next(MIST(RECIPE, models=2, weight=weight).many(table.POOL, subset, [0]))
        for weight in (0.0, 5.0)
    )
    assert not np.allclose(alone.predict(table.OTHERS.x), agreed.predict(table.OTHERS.x), atol=0.01)


def test_each_sub_model_needs_a_record() -> None:
    subset = (np.arange(len(table.POOL)) < 3)[None]
    with pytest.raises(DataError, match="a record for each of 4 sub-models, got 3"):
        list(MIST(RECIPE, models=4).networks(table.POOL, subset, [0]))
