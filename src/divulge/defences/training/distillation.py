"""What defences by self-distillation share: models that never saw a record label it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool
from torch import nn
from torch.nn.functional import cross_entropy

from divulge._util.random import stream
from divulge.core import Records
from divulge.defences.training.base import TrainingDefence
from divulge.errors import DataError
from divulge.targets.torch import TorchTarget
from divulge.training.engine.loop import Job
from divulge.training.losses import BatchLoss
from divulge.training.recipe import Recipe, TrainingRows
from divulge.training.tensors import PoolTensors

Exclusions = Bool[np.ndarray, "teachers fitted"]
"""Which teacher never sees which record."""


@dataclass(frozen=True, slots=True)
class SelfDistillation(TrainingDefence):
    """A trainer whose model learns its records with labels by teachers that never saw them.

    Teachers are trained for all epochs. Where the recipe selects an epoch, this is the last
    model's, and records held out for it are nobody's members. The same record twice in the
    training set is two records here, each of which gives the other's label away.
    """

    @property
    def teachers(self) -> int:
        """How many teachers one model has."""
        raise NotImplementedError

    def exclude(self, records: int, seed: int) -> Exclusions:
        """Which teacher never sees which of so many records; one at least for each."""
        raise NotImplementedError

    @property
    def softness(self) -> float:
        """The temperature of the labels, and of the answers that are to match them."""
        return 1.0

    @property
    def preparation(self) -> float:
        """The teachers, each on the records that it sees."""
        hidden = self.exclude(1000, 0).mean()
        return float(self.teachers * (1 - hidden))

    def _networks(self, pool: Records, jobs: Sequence[Job]) -> Iterator[nn.Module]:
        for job in jobs:
            yield self.train_one(self.recipe_of(pool, job), pool, job)

    def recipe_of(self, pool: Records, job: Job) -> Recipe:
        """The same recipe with the soft labels of this model's records."""
        labels = self.soft_labels(pool, job)
        return replace(self.recipe, loss=SoftLabelLoss(labels, self.softness))

    def soft_labels(self, pool: Records, job: Job) -> torch.Tensor:
        """For each record of the pool that is learned, what those say who never saw it; else 0.

        Raises:
            DataError: a teacher is left without records.
        """
        fit, _ = self.recipe.split_rows(job.rows, job.seed)
        unseen = self.exclude(len(fit), job.seed)
        if unseen.all(axis=1).any():
            raise DataError(
                f"expected records for each of {self.teachers} sub-models, got {len(fit)} in all: "
                "give more, or leave each out of fewer"
            )
        subsets = np.zeros((len(unseen), len(pool)), np.bool_)
        subsets[:, fit] = ~unseen
        labels = self._ask(pool, job, subsets, fit, unseen)
        if self.softness != 1:
            # softmax(z / T) is p^(1/T), normalised: no logits are needed
            labels = labels ** (1 / self.softness)
            labels /= labels.sum(axis=1, keepdims=True)
        whole = np.zeros((len(pool), labels.shape[1]), np.float32)
        whole[fit] = labels
        return torch.from_numpy(whole).to(self.device)

    def _ask(
        self,
        pool: Records,
        job: Job,
        subsets: Bool[np.ndarray, "teachers records"],
        fit: TrainingRows,
        unseen: Exclusions,
    ) -> np.ndarray:
        """The mean answer of a record's teachers, shape (fitted records, classes)."""
        seeds = stream(job.seed, "sub-models").integers(2**31, size=len(subsets)).tolist()
        plain = replace(self.recipe, select=None, patience=None, stop_after=None)
        networks = self.fleet(plain).networks(pool, subsets, seeds, job.start)
        own = pool.take(fit)
        total: np.ndarray = sum(
            hidden[:, None] * TorchTarget(network, "logits").predict(own.x)
            for network, hidden in zip(networks, unseen, strict=True)
        )
        # algorithm 2 of SELENA: the mean over sub-models that never saw the record
        return np.asarray(total / unseen.sum(axis=0)[:, None])


@dataclass(frozen=True, eq=False)
class SoftLabelLoss:
    """The cross-entropy with a soft label a record, by its row in the pool.

    At a temperature T logits are divided by it, and the loss is multiplied by its square, which
    keeps the size of gradients (Hinton, Vinyals and Dean 2015, section 2).
    """

    labels: torch.Tensor
    temperature: float = 1.0

    def against(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], BatchLoss]:
        """The cross-entropy with soft labels; no attacker learns beside the model."""
        del held_out

        def loss(rows: torch.Tensor) -> torch.Tensor:
            x, _ = data.batch(rows)
            logits = module(x) / self.temperature
            own = cross_entropy(logits, self.labels[rows].to(logits.dtype))
            # gradients of soft labels shrink as 1 / T²
            return self.temperature**2 * own

        return lambda epoch: loss  # noqa: ARG005 (the same in all epochs)
