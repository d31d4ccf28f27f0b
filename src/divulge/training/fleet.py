"""Train many small PyTorch models fast and reproducibly, for attacks with shadow models."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool
from torch import nn

from divulge._util.arguments import Count, check_arguments
from divulge.core import Records, Target
from divulge.errors import SpecError
from divulge.targets.batching import translate_model_errors
from divulge.targets.torch import TorchTarget
from divulge.training.engine.choose import TrainingSetup, choose_fastest, train_models
from divulge.training.engine.loop import (
    Job,
    build_network,
    make_jobs,
    torch_threads,
    train_stages,
)
from divulge.training.engine.native import check_bfloat16, check_native, find_native
from divulge.training.engine.networks import stacking_obstacle
from divulge.training.losses import Adversary
from divulge.training.memory import models_that_fit
from divulge.training.recipe import Precision, Recipe
from divulge.training.tensors import PoolArrays, is_cpu

Strategy = Literal["auto", "compiled", "processes", "stacked", "one-by-one"]
_NOT_IDENTITY = {"identity": False}
"""Metadata of a setting that changes the speed but not the models: `trainer_identity` omits it."""

_REMEDY = "build the network yourself, and run it on a few records to see why"

_log = logging.getLogger("divulge")


@check_arguments
@dataclass(frozen=True, slots=True)
class Fleet:
    """A recipe, repeated: each model has its own weights, records and batch order, by its seed.

    Whatever the way, the models are the same to floating-point tolerance; within one way, on one
    machine and with one number of threads, bit for bit. Another precision makes other models.

    Args:
        recipe: how one model is trained.
        way: the strategy of training. ``compiled`` trains dense and simple convolutional networks
            in native code, one model after another in each of some threads; ``processes`` trains
            in single-threaded processes, one model after another in each; ``stacked`` trains all
            models as one computation; ``one-by-one`` trains in this process; ``auto`` chooses,
            see `settled`.
        workers: how many processes are used, or how many threads by the other strategies; by
            default one a core, or as many threads as PyTorch has where models share them.
        device: where models are trained, as PyTorch names it: ``cpu``, ``cuda``, ``cuda:1``.
        at_once: how many models may be in memory at once; see `width` unless given.
        why: the reason for the strategy, in words; `settled` writes it.
        precision: in which networks multiply. ``bfloat16`` rounds records, weights and gradients
            for that; weights are float32. On a CPU it is for the first layer of a dense network
            (``compiled``), and needs a processor with AVX512-BF16; models that are trained
            one by one, as on an accelerator, multiply by PyTorch's autocast.

    Raises:
        SpecError: there is no such way, device or precision, there are no workers, or the way
            does not multiply in that precision.
    """

    recipe: Recipe
    way: Strategy = field(default="auto", metadata=_NOT_IDENTITY)
    workers: Count | None = field(default=None, metadata=_NOT_IDENTITY)
    device: str = field(default="cpu", metadata=_NOT_IDENTITY)
    at_once: Count | None = field(default=None, metadata=_NOT_IDENTITY)
    why: str = field(default="as asked for", metadata=_NOT_IDENTITY, compare=False)
    precision: Precision = field(default="float32", metadata={"identity": "if changed"})

    def __post_init__(self) -> None:
        if not is_cpu(self.device) and self.way in ("compiled", "processes"):
            raise SpecError(
                f'expected device="cpu" with {self.way}, got {self.device!r}: it would leave the '
                'accelerator to one model at a time; use way="auto"'
            )
        if self.precision == "bfloat16" and self.way in ("processes", "stacked"):
            raise SpecError(
                'expected way="auto", "compiled" or "one-by-one" with precision="bfloat16", got '
                f"{self.way!r}: leave the precision out"
            )

    @property
    def chosen(self) -> str:
        """The strategy, the number of workers, and the reason, in words."""
        if self.way == "auto":
            return "auto: chosen by a short trial when the records are there"
        return f"{self.way} ({self._worker_count()}): {self.why}"

    @property
    def together(self) -> int:
        """How many models are one computation, whose rounding depends on all of them."""
        return (self.at_once or 1) if self.way == "stacked" else 1

    def settled(self, pool: Records, subsets: Bool[np.ndarray, "models records"]) -> "Fleet":
        """The same fleet with its way, workers and width fixed.

        On a CPU ``auto`` becomes ``compiled`` for small networks that it can train, if divulge-fast
        is installed; else the way that was fastest in a short trial of those that may pay. On an
        accelerator models are stacked where their layers allow it. A settled
        fleet trains the same models again, bit for bit, on the same machine: keep its ``way``,
        ``workers`` and ``at_once`` for what must be resumed, and settle once for what is called
        often.

        Raises:
            SpecError: the network cannot be trained in the way or precision that was asked for.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
        """
        jobs = make_jobs(subsets, range(len(subsets)))
        with translate_model_errors("a shadow model to train", _REMEDY):
            return self._resolve(pool, jobs)[0] if jobs else self

    def width(self, pool: Records) -> int:
        """How many models are in memory at once: ``at_once``, or as many as half of it takes.

        Larger fleets run in waves of so many.

        Raises:
            TargetError: the recipe makes no network, or one that does not take these records.
        """
        with translate_model_errors("a shadow model to train", _REMEDY):
            return self._make_setup(
                pool, build_network(self.recipe, Job(np.arange(1), 0))
            ).models_at_once

    def networks(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
        start: Mapping[str, torch.Tensor] | None = None,
    ) -> Iterator[nn.Module]:
        """One trained network a row of ``subsets``, in order, as soon as it is there.

        Calls with the same pool share what processes need: they are started, and the pool is
        handed to them, once.

        Args:
            pool: the records to draw from.
            subsets: True where a network is trained on a record, shape (models, records).
            seeds: the seed of each network's own randomness, one a network.
            start: a state dictionary from which every network starts, as the clients of a
                federated round do; each starts from first weights of its own unless given.

        Raises:
            SpecError: the network cannot be trained in the way that was asked for.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
        """
        yield from self.train_jobs(pool, make_jobs(subsets, seeds, start))

    def train_jobs(self, pool: Records, jobs: Sequence[Job]) -> Iterator[nn.Module]:
        """`networks` of these jobs.

        Raises:
            SpecError: the network cannot be trained in the way that was asked for.
            TargetError: the recipe makes no network, or one that could not be trained.
        """
        if not jobs:
            return
        with translate_model_errors("a shadow model to train", _REMEDY):
            fleet, work = self._resolve(pool, jobs)
            _log.info("training %d models, %s", len(jobs), fleet.chosen)
            assert fleet.way != "auto"
            yield from train_models(work, fleet.way, fleet.workers or 1, jobs)

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """`networks` as targets.

        Raises:
            SpecError: the network cannot be trained in the way that was asked for.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
        """
        for module in self.networks(pool, subsets, seeds):
            yield TorchTarget(module, "logits")

    def stages(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
        epochs: Sequence[int],
    ) -> Iterator[list[Target]]:
        """Of each model, as targets, what it would be if training had ended after these epochs.

        Models are trained one by one.

        Raises:
            SpecError: models are trained in bfloat16.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
        """
        for job in make_jobs(subsets, seeds):
            yield self.train_stages(pool, job, epochs)

    def train_stages(self, pool: Records, job: Job, epochs: Sequence[int]) -> list[Target]:
        """`stages` of one model.

        Raises:
            SpecError: models are trained in bfloat16.
            TargetError: the recipe makes no network, or one that could not be trained.
        """
        if self.precision == "bfloat16":
            raise SpecError(
                "expected float32 for models as they are after some of their epochs, got "
                "bfloat16: leave the precision out"
            )
        with translate_model_errors("a shadow model to train", _REMEDY):
            data = PoolArrays.prepare(pool, build_network(self.recipe, job)).tensors(self.device)
            with torch_threads(self.workers or 1):
                modules = train_stages(self.recipe, data, job, epochs)
        return [TorchTarget(module, "logits") for module in modules]

    def _make_setup(self, pool: Records, network: nn.Module) -> TrainingSetup:
        data = PoolArrays.prepare(pool, network)
        wave = self.at_once or models_that_fit(self.recipe, data.tensors(self.device))
        return TrainingSetup(self.recipe, pool, data, self.device, wave, self.precision)

    def _worker_count(self) -> int:
        import joblib

        processes = self.way in ("auto", "compiled", "processes")
        return self.workers or (joblib.cpu_count() if processes else torch.get_num_threads())

    def _resolve(self, pool: Records, jobs: Sequence[Job]) -> tuple["Fleet", TrainingSetup]:
        network = build_network(self.recipe, jobs[0])
        why_not = stacking_obstacle(network)
        if isinstance(self.recipe.loss, Adversary):
            why_not = f"its loss has an adversary ({type(self.recipe.loss).__name__})"
        if self.way == "stacked" and why_not:
            raise SpecError(
                f"expected a training that can be stacked, but {why_not}: "
                'use way="auto", or train without that'
            )
        work = self._make_setup(pool, network)
        code = find_native()
        native = code is not None and code.is_native(self.recipe, network, work.data)
        fleet = replace(self, at_once=work.models_at_once)
        cpu = is_cpu(self.device)
        if self.precision == "bfloat16":
            if self.way == "auto":
                way: Strategy = "compiled" if cpu else "one-by-one"
                fleet = replace(fleet, way=way, why="it multiplies in bfloat16")
            if fleet.way == "compiled":
                check_bfloat16(self.recipe, network, work.data)
            return replace(fleet, workers=fleet._worker_count()), work
        if self.way == "compiled":
            check_native(self.recipe, network, work.data)
        if self.way == "auto" and cpu:
            threads = self.workers or torch.get_num_threads()
            choice = choose_fastest(
                work,
                jobs,
                self._worker_count(),
                threads,
                stackable=why_not is None,
                native=native,
            )
            return replace(fleet, way=choice.way, workers=choice.workers, why=choice.why), work
        if self.way == "auto" and why_not:
            fleet = replace(fleet, way="one-by-one", why=why_not)
        elif self.way == "auto":
            why = "small models leave an accelerator idle unless computed together"
            fleet = replace(fleet, way="stacked", why=why)
        return replace(fleet, workers=fleet._worker_count()), work
