from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from divulge.core import Records
from divulge.errors import DataError
from divulge.training.engine.networks import Stack
from divulge.training.engine.selection import merit
from divulge.training.fleet import Fleet, Strategy
from divulge.training.recipe import Optimiser, Recipe, Select
from divulge.training.tensors import PoolArrays

from .twin import (
    WAYS,
    assert_close,
    batch_norm,
    by_hand,
    conv2d,
    linear,
    pool_for,
    trained,
)

NOISE: dict[str, Any] = {"epochs": 12, "batch_size": 8, "held_out": 0.3, "patience": 2}
"""Labels are noise: the loss on held-out records rises soon, for each model at another time."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("network", [linear, conv2d, batch_norm])
def test_a_model_ends_with_the_weights_of_its_best_epoch(
    network: Callable[[], nn.Module], way: Strategy
) -> None:
    # not Adam: it magnifies the rounding of a gradient that is nought, as of a bias before a norm
    recipe = Recipe(network, lr=0.03, momentum=0.9, **NOISE)
    assert_close(trained(Fleet(recipe, way, workers=2)), by_hand(recipe, pool_for(network)))


@pytest.mark.parametrize(
    ("optimiser", "settings"),
    [("sgd", {"lr": 0.03, "momentum": 0.9}), ("sgd", {"lr": 0.3}), ("adadelta", {"lr": 1.0})],
)
def test_a_model_that_stops_leaves_its_stack(
    optimiser: Optimiser, settings: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    keep = Stack.keep

    def spy(stack: Stack, positions: list[int], over: torch.optim.Optimizer) -> None:
        sizes.append(len(positions))
        keep(stack, positions, over)

    monkeypatch.setattr(Stack, "keep", spy)
    recipe = Recipe(linear, optimiser, **{**NOISE, **settings})
    expected = by_hand(recipe, pool_for(linear))
    assert_close(trained(Fleet(recipe, "stacked")), expected)
    assert sizes
    assert max(sizes) < 2  # the stacks are pairs


def test_epochs_that_get_better_are_all_run() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    pool = Records((np.eye(3)[y] @ rng.normal(size=(3, 128))).astype(np.float32), y)
    patient = Recipe(linear, lr=0.01, **NOISE)
    rows = np.arange(60)
    fit, held_out = patient.split_rows(rows, 1)
    assert len(held_out) == 18
    np.testing.assert_array_equal(np.sort(np.concatenate([fit, held_out])), rows)
    only = np.isin(rows, fit)[None]
    [stopping] = Fleet(patient, "one-by-one").networks(pool, np.ones((1, 60), np.bool_), [1])
    [running] = Fleet(replace(patient, patience=None), "one-by-one").networks(pool, only, [1])
    assert_close([stopping.state_dict()], [running.state_dict()])


def test_a_loss_that_is_no_number_stops_a_model_too() -> None:
    recipe = Recipe(linear, lr=1e30, **NOISE)
    [module] = Fleet(recipe, "one-by-one").networks(
        pool_for(linear), np.ones((1, 60), np.bool_), [1]
    )
    assert isinstance(module, nn.Module)


def test_one_record_cannot_be_trained_on_and_held_out() -> None:
    fleet = Fleet(Recipe(linear, patience=1), "one-by-one")
    with pytest.raises(DataError, match="two records or more to hold one out, got 1"):
        list(fleet.networks(pool_for(linear), np.arange(60)[None] < 1, [1]))
    [module] = fleet.networks(pool_for(linear), np.arange(60)[None] < 2, [1])
    assert not module.training


def naive_merit(
    select: Select, module: nn.Module, x: Any, y: Any, fit: Any, held_out: Any
) -> float:
    """Record by record, and pair by pair."""
    with torch.no_grad():
        log_p = module(torch.tensor(x)).log_softmax(1).numpy().astype(np.float64)
    loss = -log_p[np.arange(len(y)), y]
    if select == "loss":
        return -float(loss[held_out].mean())
    right = float((log_p.argmax(1) == y)[held_out].mean())
    if select == "accuracy":
        return right
    pairs = loss[fit][:, None], loss[held_out]
    auc = float(((pairs[0] < pairs[1]) + 0.5 * (pairs[0] == pairs[1])).mean())
    return right / (2 * max(auc, 0.5)) ** 2


@pytest.mark.parametrize("way", ["one-by-one", "stacked"])
@pytest.mark.parametrize("select", ["loss", "accuracy", "aop"])
def test_the_epoch_is_the_best_by_what_was_asked_for(select: Select, way: Strategy) -> None:
    pool = pool_for(linear)
    recipe = Recipe(linear, lr=0.03, momentum=0.9, epochs=6, batch_size=8, held_out=0.5)
    rows, everybody = np.arange(60), np.ones((1, 60), np.bool_)
    selecting = replace(recipe, select=select)
    fit, held_out = selecting.split_rows(rows, 1)
    only = np.isin(rows, fit)[None]
    after = [
        next(Fleet(replace(recipe, epochs=k), "one-by-one").networks(pool, only, [1]))
        for k in range(1, 7)
    ]
    data = PoolArrays.prepare(pool, after[0]).tensors("cpu")
    merits = [naive_merit(select, module, pool.x, pool.y, fit, held_out) for module in after]
    for module, expected in zip(after, merits, strict=True):
        assert merit(select, module, data, fit, held_out) == pytest.approx(expected, abs=1e-6)
    assert len(set(np.round(merits, 3))) > 1
    [found] = Fleet(selecting, way).networks(pool, everybody, [1])
    assert_close([found.state_dict()], [after[int(np.argmax(np.round(merits, 9)))].state_dict()])


def test_patience_counts_epochs_without_a_better_merit() -> None:
    """All answers are the same whatever is learned: the first epoch is the best and the last."""
    recipe = Recipe(linear, epochs=50, batch_size=8, select="accuracy", patience=3)
    seen: list[int] = []

    class Counting(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(len(x) * self.training)
            return super().forward(x.flatten(1))

    patient = replace(recipe, network=lambda: Counting(128, 3), lr=1e-30, held_out=0.5)
    next(Fleet(patient, "one-by-one").networks(pool_for(linear), np.ones((1, 60), np.bool_), [1]))
    assert sum(seen) == 4 * 30  # the first epoch, and three that were no better
