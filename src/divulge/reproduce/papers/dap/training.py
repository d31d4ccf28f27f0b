"""Train a pool's models with one defence of DAP's tables, and time the training."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import nn

from divulge.core import Records
from divulge.defences import catalog
from divulge.defences.training.dap.discriminator import Discriminator
from divulge.defences.training.dap.loss import DiscriminatorAdversary
from divulge.defences.training.dap.trainer import DAP
from divulge.defences.training.dp_sgd.accounting import calibrate_noise, dp_sgd_epsilon
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.training.engine.loop import Job
from divulge.training.engine.tensors import PoolArrays
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge.training.selection import merit

Public = Literal["held out", "test", "others"]
DELTA = 1e-5
NOISE = 1.5
"""Noise multiplier where ε is spent epoch by epoch; the paper does not give its own."""
_TIMED_EPOCHS = 3
"""Number of epochs by which the time of one epoch is measured."""


class DefendedModels(NamedTuple):
    """Models trained with one defence, and the CPU seconds that took."""

    modules: list[nn.Module]
    whole: float
    """CPU seconds of the first model with all that comes before: tuning, shadows, discriminator."""
    epoch: float
    """CPU seconds of an epoch of one model, with its share of starting and choosing the epoch."""


class _FirstModel(NamedTuple):
    """A pool's first model, whose tuned settings all other models are trained with."""

    module: nn.Module
    train_another: Callable[[Job], nn.Module]
    """Trains another model with the same settings."""
    train_briefly: Callable[[], object]
    """Trains the first model for `_TIMED_EPOCHS` epochs."""
    extra_seconds: float = 0.0
    """CPU seconds to add: time that an earlier row has spent on the same. Or, below 0, time that
    was not training: finding the noise, or the number of epochs, for an ε."""


@dataclass(frozen=True, eq=False)
class PoolTrainer:
    """Trains a pool's models with any defence, in this process.

    Args:
        pool: records of all models.
        others: records outside the pool that DAP may learn from.
        jobs: training records and seed of each model.
        grid: values of each setting that Reg is tuned over.
        r: values of r that DAP tries.
        shadows: number of shadow models that DAP's discriminator learns from.
        private: settings of DP-SGD at a given ε: optimiser, learning rate, batch size, epochs.
    """

    pool: Records
    others: Records
    jobs: tuple[Job, ...]
    grid: Mapping[str, tuple[float, ...]]
    r: tuple[float, ...]
    shadows: int
    private: Mapping[str, Any]

    def train_all(
        self, recipe: Recipe, defence: str, settings: Mapping[str, Any]
    ) -> DefendedModels:
        """Train all models with a defence, as `study.measure_defence` names it."""
        self._train(_in_process_trainer(replace(recipe, epochs=1)), self.jobs[0])  # fills caches
        begun = process_time()
        first = self._train_first(recipe, defence, dict(settings))
        whole = process_time() - begun + first.extra_seconds
        times = []
        for _ in range(2):  # the better of two
            begun = process_time()
            first.train_briefly()
            times.append((process_time() - begun) / _TIMED_EPOCHS)
        rest = [first.train_another(job) for job in self.jobs[1:]]
        return DefendedModels([first.module, *rest], whole, min(times))

    def _train_first(self, recipe: Recipe, defence: str, settings: dict[str, Any]) -> _FirstModel:
        if defence == "none":
            return self._train_first_with(_in_process_trainer(recipe))
        if defence == "dap":
            return self._train_first_dap(recipe, **settings)
        if defence in ("dp-sgd", "epochs"):
            return self._train_first_private(recipe, defence, **settings)
        grid = self.grid if defence == "regularise" else {}
        combined = itertools.product(*grid.values())
        tuned = [dict(zip(grid, values, strict=True)) for values in combined]
        here = {"way": "one-by-one", "workers": 1}
        tried: list[Any] = [
            catalog.trained_defence(defence, recipe, **settings, **one, **here) for one in tuned
        ]
        return self._select_best([self._train_first_with(trainer) for trainer in tried], recipe)

    def _train_first_with(
        self, trainer: Any, adapt_job: Callable[[Job], Job] = lambda job: job
    ) -> _FirstModel:
        """Train the first model with a trainer.

        Args:
            trainer: trainer of the models.
            adapt_job: function from a model's job to the job that the trainer is given.
        """
        brief = replace(trainer, recipe=replace(trainer.recipe, epochs=_TIMED_EPOCHS))
        return _FirstModel(
            self._train(trainer, adapt_job(self.jobs[0])),
            lambda job: self._train(trainer, adapt_job(job)),
            lambda: self._train(brief, adapt_job(self.jobs[0])),
        )

    def _select_best(self, tried: Sequence[_FirstModel], recipe: Recipe) -> _FirstModel:
        """Select the best model by accuracy on held-out records, as the paper tunes."""
        if len(tried) == 1:
            return tried[0]
        data = PoolArrays.prepare(self.pool, tried[0].module).tensors("cpu")
        parts = recipe.split_rows(self.jobs[0].rows, self.jobs[0].seed)
        return max(tried, key=lambda one: merit("accuracy", one.module, data, *parts))

    def _train_first_dap(
        self, recipe: Recipe, public: Public = "held out", **settings: Any
    ) -> _FirstModel:
        dap = DAP(recipe, self.r, self.shadows, **settings, way="one-by-one", workers=1)
        job, begun = self.jobs[0], process_time()
        discriminator, seconds = self._discriminator_of(dap, public, job)
        aside = seconds - (process_time() - begun)
        module, found = dap.train_best(discriminator, self.pool, job)
        assert isinstance(found.loss, DiscriminatorAdversary)
        settled, brief = (
            replace(dap, r=(found.loss.r,)),
            _in_process_trainer(replace(found, epochs=_TIMED_EPOCHS)),
        )

        def alike(job: Job) -> nn.Module:
            return settled.train_best(
                self._discriminator_of(dap, public, job)[0], self.pool, job
            ).module

        return _FirstModel(module, alike, lambda: self._train(brief, job), aside)

    def _discriminator_of(self, dap: DAP, public: Public, job: Job) -> tuple[Discriminator, float]:
        """Discriminator for a model, and the CPU seconds that its training took.

        It does not depend on how the epoch of the model is chosen. One that learned from records
        outside the pool serves all models.
        """
        whose = 0 if public == "others" else [one.seed for one in self.jobs].index(job.seed)
        return _train_discriminator(
            self, replace(dap, recipe=replace(dap.recipe, select="loss")), public, whose
        )

    def _train_first_private(self, recipe: Recipe, how: str, epsilon: float) -> _FirstModel:
        """Train with DP-SGD: as many epochs as ε allows, or the least noise for a fixed number.

        Unless the epoch is chosen by AOP it is the last one: the guarantee stands.
        """

        def adapt_job(job: Job) -> Job:
            """Job without the held-out records by which other defences choose the epoch."""
            return job._replace(rows=recipe.split_rows(job.rows, job.seed)[0])

        plain = recipe if recipe.select == "aop" else replace(recipe, select=None)
        begun, records = process_time(), len(adapt_job(self.jobs[0]).rows)
        if how == "epochs":
            epochs = epochs_for(epsilon, min(1.0, recipe.batch_size / records))
            noise = NOISE
        else:
            epochs = self.private["epochs"]
            plain = replace(plain, **self.private)
            rate = min(1.0, plain.batch_size / records)
            noise = calibrate_noise(epsilon, rate, -(-epochs * records // plain.batch_size), DELTA)
        aside = begun - process_time()
        trainer = DPSGD(replace(plain, epochs=epochs), DELTA, noise, jobs=1)
        made = (
            self._train_first_with(trainer)
            if plain.selects
            else self._train_first_with(trainer, adapt_job)
        )
        return made._replace(extra_seconds=aside)

    def _train(self, trainer: Any, job: Job) -> nn.Module:
        chosen = np.isin(np.arange(len(self.pool)), job.rows)[None]
        (module,) = trainer.networks(self.pool, chosen, [job.seed])
        assert isinstance(module, nn.Module)
        return module


@functools.lru_cache(maxsize=64)
def _train_discriminator(
    making: PoolTrainer, dap: DAP, public: Public, whose: int
) -> tuple[Discriminator, float]:
    job = making.jobs[whose]
    tests = np.setdiff1d(np.arange(len(making.pool)), job.rows)
    records = {"held out": None, "test": making.pool.take(tests), "others": making.others}[public]
    begun = process_time()
    found = replace(dap, public=records).train_discriminator(making.pool, job.rows, job.seed)
    return found, process_time() - begun


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
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def _in_process_trainer(recipe: Recipe) -> Fleet:
    return Fleet(recipe, "one-by-one", 1)
