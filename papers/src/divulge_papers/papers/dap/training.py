"""Train a pool's models with one defence of DAP's tables, and time the training."""

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import process_time
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from divulge.core import Records
from divulge.defences import catalog
from divulge.defences.training.dap.discriminator import Discriminator
from divulge.defences.training.dap.trainer import DAP
from divulge.defences.training.dp_sgd.accounting import calibrate_noise, dp_sgd_epsilon
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.training.engine.loop import Job
from divulge.training.engine.selection import merit
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolArrays
from divulge_papers.papers.dap.networks import NetworkStore, TrainedNetwork

Public = Literal["held out", "test", "others"]
DELTA = 1e-5
NOISE = 1.5
"""Noise multiplier where ε is spent epoch by epoch; the paper does not give its own."""
_TIMED_EPOCHS = 3
"""Number of epochs by which the time of one epoch is measured."""

Train = Callable[[Job, int | None], TrainedNetwork]
"""Function of a model's rows and seed, and of the number of epochs if not all."""


class DefendedModels(NamedTuple):
    """Models trained with one defence, and the CPU seconds that took."""

    modules: list[nn.Module]
    whole: float
    """CPU seconds of a deployer's training: shadows, discriminator, and a model a setting."""
    epoch: float
    """CPU seconds of an epoch of one model, with its share of starting and choosing the epoch."""


class _Method(NamedTuple):
    """A defence with every setting that is tried."""

    tried: Callable[[Job], list[Train]]
    prepare: Callable[[Job], float] = lambda _job: 0.0
    """CPU seconds of what is made once for all settings of a model."""
    train_each: Callable[[Job], list[TrainedNetwork]] | None = None
    """Trains a model with all settings at once, where that is faster."""


class _ChosenNetwork(NamedTuple):
    """A model with the best setting."""

    module: nn.Module
    setting: int
    """Position of the setting among those tried."""
    seconds: float
    """CPU seconds of the training with all settings, and of what came before."""


@dataclass(frozen=True, eq=False)
class PoolTrainer:
    """Trains a pool's models with any defence, in this process.

    The settings of each model are chosen as its deployer would, by AOP(2) on its own records held
    out.

    Args:
        pool: records of all models.
        others: records outside the pool that DAP may learn from.
        jobs: training records and seed of each model.
        grids: values of each setting that is tuned, by defence.
        first_r: values of r that the first model tries; a model that is a shadow too often to try
            as many has those of ``grids``.
        shadows: number of shadow models that DAP's discriminator learns from.
        private: settings of DP-SGD at a given ε: optimiser, learning rate, batch size, epochs.
        store: store of networks that several rows need.
    """

    pool: Records
    others: Records
    jobs: tuple[Job, ...]
    grids: Mapping[str, Mapping[str, tuple[float, ...]]]
    first_r: tuple[float, ...]
    shadows: int
    private: Mapping[str, Any]
    store: NetworkStore

    def train_all(
        self, recipe: Recipe, defence: str, settings: Mapping[str, Any]
    ) -> DefendedModels:
        """Train all models with a defence, as `study.measure_defence` names it."""
        self._train_by(_in_process_trainer(recipe), self.jobs[0], 1)  # fills caches
        method = self._method(recipe, defence, settings)
        chosen = [self._train_best(method, recipe, job) for job in self.jobs]
        train = method.tried(self.jobs[0])[chosen[0].setting]
        times = [train(self.jobs[0], _TIMED_EPOCHS).seconds for _ in range(2)]
        modules = [network.module for network in chosen]
        return DefendedModels(modules, chosen[0].seconds, min(times) / _TIMED_EPOCHS)

    def train_first(self, recipe: Recipe, r: float) -> nn.Module:
        """Train the first model by DAP_v with one r."""
        return self._train_dap(self._dap(recipe), "held out", r, self.jobs[0], None).module

    def _train_best(self, method: _Method, recipe: Recipe, job: Job) -> _ChosenNetwork:
        """Train a model with each setting; the best by AOP(2) on its records held out is taken."""
        seconds = method.prepare(job)
        each = method.train_each
        tried = each(job) if each else [train(job, None) for train in method.tried(job)]
        seconds += sum(network.seconds for network in tried)
        best = 0
        if len(tried) > 1:
            data = PoolArrays.prepare(self.pool, tried[0].module).tensors("cpu")
            parts = recipe.split_rows(job.rows, job.seed)
            # as a deployer would, who has no test records and no other attack than the loss
            merits = [merit("aop", network.module, data, *parts) for network in tried]
            best = int(np.argmax(np.nan_to_num(merits, nan=-1.0)))
        return _ChosenNetwork(tried[best].module, best, seconds)

    def _method(self, recipe: Recipe, defence: str, settings: Mapping[str, Any]) -> _Method:
        if defence == "none":
            return _Method(lambda _: [partial(self._train_stored, recipe)])
        if defence == "dap":
            return self._dap_method(recipe, **settings)
        if defence in ("dp-sgd", "epochs"):
            private = self._private_method(recipe, defence, **settings)
            return _Method(lambda _: [private])
        here = {"way": "one-by-one", "workers": 1}
        grid = self.grids.get(defence, {})
        trainers = [
            catalog.trained_defence(
                defence, recipe, **settings, **dict(zip(grid, values, strict=True)), **here
            )
            for values in itertools.product(*grid.values())
        ]
        return _Method(lambda _: [partial(self._train_by, trainer) for trainer in trainers])

    def _dap(self, recipe: Recipe, **settings: Any) -> DAP:
        return DAP(recipe, (0.0,), self.shadows, **settings, way="one-by-one", workers=1)

    def _dap_method(self, recipe: Recipe, public: Public = "held out", **settings: Any) -> _Method:
        dap = self._dap(recipe, **settings)

        def grid(job: Job) -> tuple[float, ...]:
            return self.first_r if job is self.jobs[0] else self.grids["dap"]["r"]

        def train_each(job: Job) -> list[TrainedNetwork]:
            discriminator = self._discriminator(dap, public, job).module
            assert isinstance(discriminator, Discriminator)
            begun = process_time()
            models = replace(dap, r=grid(job)).train_each(discriminator, self.pool, job)
            share = (process_time() - begun) / len(models)
            return [TrainedNetwork(model.module, share) for model in models]

        return _Method(
            lambda job: [partial(self._train_dap, dap, public, r) for r in grid(job)],
            lambda job: self._discriminator(dap, public, job).seconds,
            train_each if self.store.folder is None else None,  # a stored one is taken up alone
        )

    def _train_dap(
        self, dap: DAP, public: Public, r: float, job: Job, epochs: int | None
    ) -> TrainedNetwork:
        discriminator = self._discriminator(dap, public, job).module
        assert isinstance(discriminator, Discriminator)
        about = f"{public} {dap.samples} {dap.discriminator} {r}"
        return self._train_stored(dap.against(discriminator, r), job, epochs, about)

    def _discriminator(self, dap: DAP, public: Public, job: Job) -> TrainedNetwork:
        """Discriminator for a model.

        It does not depend on how the epoch of the model is chosen. One that learned from records
        outside the pool serves all models.
        """
        whose = (
            0 if public == "others" else [pool_job.seed for pool_job in self.jobs].index(job.seed)
        )
        plain = replace(dap, recipe=replace(dap.recipe, select="accuracy"))
        return _train_discriminator(self, plain, public, whose)

    def _private_method(self, recipe: Recipe, how: str, epsilon: float) -> Train:
        """Train with DP-SGD: as many epochs as ε allows, or the least noise for a fixed number.

        Unless the epoch is chosen by AOP it is the last one: the guarantee stands.
        """

        def adapt_job(job: Job) -> Job:
            """Job without the held-out records by which other defences choose the epoch."""
            return job._replace(rows=recipe.split_rows(job.rows, job.seed)[0])

        plain = replace(recipe, patience=None)
        plain = plain if recipe.select == "aop" else replace(plain, select=None)
        records = len(adapt_job(self.jobs[0]).rows)
        if how == "epochs":
            epochs = epochs_for(epsilon, min(1.0, recipe.batch_size / records))
            noise = NOISE
        else:
            epochs = self.private["epochs"]
            plain = replace(plain, **self.private)
            rate = min(1.0, plain.batch_size / records)
            noise = calibrate_noise(epsilon, rate, -(-epochs * records // plain.batch_size), DELTA)
        trainer = DPSGD(replace(plain, epochs=epochs), DELTA, noise, jobs=1)
        if plain.selects:
            return partial(self._train_by, trainer)
        return lambda job, epochs: self._train_by(trainer, adapt_job(job), epochs)

    def _train_stored(
        self, recipe: Recipe, job: Job, epochs: int | None, about: str = "plain"
    ) -> TrainedNetwork:
        """Train by a recipe; a network of all epochs is kept, as other rows need it too."""

        def train() -> nn.Module:
            return self._train_by(_in_process_trainer(recipe), job, epochs).module

        if epochs is not None:
            return TrainedNetwork.measure(train)
        named = f"{about} {recipe.network} {recipe.select} {job.seed}"
        return self.store.get(named, recipe.network, train)

    def _train_by(self, trainer: Any, job: Job, epochs: int | None) -> TrainedNetwork:
        if epochs is not None:
            brief = replace(trainer.recipe, epochs=epochs, patience=None)
            trainer = replace(trainer, recipe=brief)
        chosen = np.isin(np.arange(len(self.pool)), job.rows)[None]
        return TrainedNetwork.measure(
            lambda: next(iter(trainer.networks(self.pool, chosen, [job.seed])))
        )


@functools.lru_cache(maxsize=64)
def _train_discriminator(
    making: PoolTrainer, dap: DAP, public: Public, whose: int
) -> TrainedNetwork:
    job = making.jobs[whose]
    tests = making.pool.take(np.setdiff1d(np.arange(len(making.pool)), job.rows))
    known = {"held out": None, "test": tests, "others": making.others}[public]
    inputs = 2 * int(making.pool.y.max() + 1) + 1

    def make() -> Discriminator:
        blank = Discriminator(torch.zeros(inputs), torch.ones(inputs))
        return blank.requires_grad_(requires_grad=False)

    about = f"discriminator {public} {dap.samples} {dap.discriminator} {job.seed}"
    return making.store.get(
        about,
        make,
        lambda: replace(dap, public=known).train_discriminator(making.pool, job.rows, job.seed),
    )


def epochs_for(epsilon: float, rate: float) -> int:
    """Find the most epochs of DP-SGD with `NOISE` that spend no more than ε, at least one.

    Args:
        epsilon: privacy budget ε at `DELTA`.
        rate: probability of a record to be in a batch.
    """

    def within(epochs: int) -> bool:
        return dp_sgd_epsilon(NOISE, rate, round(epochs / rate), DELTA) <= epsilon

    low, high = 1, 2
    while within(high) and high < 2**10:
        low, high = high, 2 * high  # ε grows with the number of steps, so halves can be searched
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def _in_process_trainer(recipe: Recipe) -> Fleet:
    return Fleet(recipe, "one-by-one", 1)
