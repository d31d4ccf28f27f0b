"""Making one defended model as DAP's tables have it, and what that takes."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from leakscope import catalog
from leakscope.core import Records, Trainer
from leakscope.defences.accounting import epsilon_of
from leakscope.defences.dap import DAP
from leakscope.defences.dp_sgd import DPSGD
from leakscope.training.early import merit
from leakscope.training.fleet import Fleet
from leakscope.training.loop import Job
from leakscope.training.pool import Arrays
from leakscope.training.recipe import Recipe

PRIVATE = ("epochs", "dp-sgd")
DELTA = 1e-5
NOISE = 3.0
"""The paper does not give its noise; ε follows from it and from the number of epochs."""
_EPOCHS = 20
"""Where the noise follows from ε instead."""
_TIMED = 3
"""Epochs by which one epoch is timed."""


class _Made(NamedTuple):
    """A defended model."""

    module: nn.Module
    alike: Any
    """Trains others in the same way: what an attacker does who knows all."""
    brief: Any
    """The same for `_TIMED` epochs."""


class Timed(NamedTuple):
    """A defended model, and CPU seconds."""

    module: nn.Module
    alike: Trainer
    whole: float
    """With everything that comes before: tuning, shadows, a discriminator."""
    epoch: float
    """Of the model itself; its start and its share of the choice of the epoch are in it."""


@dataclass(frozen=True)
class Making:
    """Makes the target in different ways, in this process.

    Args:
        pool: the candidates.
        job: which of them are the target's, and its seed.
        recipe: of an undefended model.
        grid: what Reg is tuned over.
    """

    pool: Records
    job: Job
    recipe: Recipe
    grid: Mapping[str, tuple[float, ...]]

    def timed(self, defence: str, settings: Mapping[str, Any]) -> Timed:
        """A model with this defence, as `leakscope.experiments.dap_models.measured` names it."""
        self._trained(_here(replace(self.recipe, epochs=1)))  # fills caches, not to be timed
        begun = process_time()
        made = self._made(defence, dict(settings))
        whole = process_time() - begun
        times = []
        for _ in range(2):  # the better of two
            begun = process_time()
            self._trained(made.brief)
            times.append((process_time() - begun) / _TIMED)
        return Timed(made.module, made.alike, whole, min(times))

    def _made(self, defence: str, settings: dict[str, Any]) -> _Made:
        if defence == "none":
            return self._by_recipe(self.recipe)
        if defence == "dap":
            dap = DAP(self.recipe, **settings, way="one-by-one", workers=1)
            module, recipe = dap.protected(self.pool, self.job)
            return _Made(module, _here(recipe), _here(replace(recipe, epochs=_TIMED)))
        if defence in PRIVATE:
            return self._private(defence, settings["epsilon"])
        if defence == "regularise":
            combined = itertools.product(*self.grid.values())
            each = [dict(zip(self.grid, values, strict=True)) for values in combined]
            return self._best([self._by_recipe(self._defended(defence, one)) for one in each])
        return self._by_recipe(self._defended(defence, settings))

    def _defended(self, defence: str, settings: Mapping[str, Any]) -> Recipe:
        found: Any = catalog.trained_defence(defence, self.recipe, **settings)
        recipe: Recipe = found.defended()
        return recipe

    def _by_recipe(self, recipe: Recipe) -> _Made:
        brief = _here(replace(recipe, epochs=_TIMED))
        return _Made(self._trained(_here(recipe)), _here(recipe), brief)

    def _private(self, defence: str, epsilon: float) -> _Made:
        fitted = len(self.recipe.parts(self.job.rows, self.job.seed)[0])
        if defence == "epochs":
            epochs = epochs_for(epsilon, min(1.0, self.recipe.batch_size / fitted))
            private = DPSGD(replace(self.recipe, epochs=epochs), DELTA, NOISE, jobs=1)
        else:
            recipe = replace(self.recipe, epochs=_EPOCHS)
            private = DPSGD(recipe, DELTA, epsilon=epsilon, jobs=1)
        brief = DPSGD(replace(self.recipe, epochs=_TIMED), DELTA, NOISE, jobs=1)
        return _Made(self._trained(private), private, brief)

    def _best(self, tried: list[_Made]) -> _Made:
        """By accuracy on the records held out, as the paper tunes."""
        data = Arrays.prepare(self.pool, tried[0].module).tensors("cpu")
        parts = self.recipe.parts(self.job.rows, self.job.seed)
        return max(tried, key=lambda one: merit("accuracy", one.module, data, *parts))

    def _trained(self, trainer: Any) -> nn.Module:
        chosen = np.isin(np.arange(len(self.pool)), self.job.rows)[None]
        (module,) = trainer.networks(self.pool, chosen, [self.job.seed])
        assert isinstance(module, nn.Module)
        return module


def epochs_for(epsilon: float, rate: float) -> int:
    """The most epochs of DP-SGD with `NOISE` that spend no more than ε; one at least.

    Args:
        epsilon: at `DELTA`.
        rate: the chance of a record to be in a batch.
    """

    def within(epochs: int) -> bool:
        return epsilon_of(NOISE, rate, round(epochs / rate), DELTA) <= epsilon

    low, high = 1, 2
    while within(high) and high < 2**10:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def _here(recipe: Recipe) -> Fleet:
    return Fleet(recipe, "one-by-one", 1)
