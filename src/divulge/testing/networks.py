"""Small worlds of over-fitted networks: candidates known in part, or a training that was seen."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from divulge.core import Game, Membership, ModelView, Records, ShadowModel, Target
from divulge.data import partial_records
from divulge.data.known_features import KnownFeatures
from divulge.metrics import signals
from divulge.targets.torch import TorchTarget
from divulge.training.optimisers import without_compiler

SIZE = 150


def draw(count: int, seed: int) -> Records:
    """Twelve features with four causes; a third of the labels only memory can fit."""
    random = np.random.default_rng([seed, 7])
    mix = np.random.default_rng(8).normal(size=(4, 12))
    causes = random.normal(size=(count, 4))
    x = causes @ mix + 0.3 * random.normal(size=(count, 12))
    y = causes[:, :3].argmax(axis=1)
    noisy = random.random(count) < 0.33
    y[noisy] = random.integers(0, 3, noisy.sum())
    return Records(x.astype(np.float32), y.astype(np.int64))


@cache
def trained(seed: int, members: int = SIZE) -> Target:
    """A network that memorised the first half of what `draw` makes of this seed."""
    *_, last = _states(draw(2 * members, seed).take(np.arange(members)), seed)
    return last


def _states(records: Records, seed: int) -> Iterator[Target]:
    """A network that memorises these records, ten times on the way and at the end."""
    import torch
    from torch import nn

    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 3))
    optimiser = without_compiler(torch.optim.Adam)(module.parameters(), 0.02)
    x, y = torch.tensor(records.x), torch.tensor(records.y)
    for step in range(250):
        if step % 25 == 0:
            yield _as_target(module)
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    yield _as_target(module)


def _as_target(module: Any) -> Target:
    # in float32 an answer depends on the place in the batch, by the processor's kernels
    return TorchTarget(copy.deepcopy(module).double().eval(), "logits")


@cache
def seen_in_training(seed: int, *, learned: bool) -> Game[ModelView, Membership]:
    """Half of the candidates were learned, or none, beside members that the attacker knows."""
    candidates, known = draw(2 * SIZE, seed), draw(SIZE, seed + 3000)
    member = np.random.default_rng([seed, 2]).permutation(2 * SIZE) < SIZE
    inside = candidates.take(member) if learned else draw(SIZE, seed + 2000)
    targets = list(_states(inside.joined(known), seed))
    losses = [
        -signals.compute_signal("loss", target.predict(candidates.x), candidates.y)
        for target in targets
    ]
    trace = np.stack(losses, axis=1)
    view = ModelView(targets[-1], candidates, known_members=known, loss_trace=trace)
    return Game(view, Membership(member))


def challenge(
    known: KnownFeatures, seed: int = 0, *, learned: bool = True, size: int = SIZE
) -> Game[ModelView, Membership]:
    """Half of the candidates were learned, or none."""
    candidates, own = draw(2 * size, seed), draw(400, seed + 1000)
    target = trained(seed if learned else seed + 500, size)
    shown = partial_records.hide_and_impute(candidates, own, None, known, (), seed)
    view = ModelView(target, shown.candidates[0], shown.reference, known=shown.known, own=own)
    return Game(view, Membership(np.arange(2 * size) < size))


def with_shadow(view: ModelView, known: KnownFeatures, seed: int = 0) -> ModelView:
    """The same view with one shadow."""
    theirs = draw(2 * SIZE, seed + 2000)
    shown = partial_records.hide_and_impute(theirs, view.own, None, known, (), seed + 1)
    shadow: Any = ShadowModel(
        trained(seed + 2000), shown.candidates[0], np.arange(2 * SIZE) < SIZE, shown.known
    )
    return replace(view, shadow=shadow)
