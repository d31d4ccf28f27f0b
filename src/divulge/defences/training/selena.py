"""Defend by SELENA: a model learns from predictions of models that never saw the record."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool
from torch import nn
from torch.nn.functional import cross_entropy

from divulge._util.arguments import check_arguments
from divulge._util.random import stream
from divulge.core import Records, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import DataError, SpecError
from divulge.targets.torch import TorchTarget
from divulge.training.engine.loop import Job
from divulge.training.engine.tensors import PoolTensors
from divulge.training.losses import BatchLoss
from divulge.training.recipe import TrainingRows


@check_arguments
@dataclass(frozen=True, slots=True)
class SELENA(TrainingDefence):
    """Self-distillation from an ensemble in which every record has models that never saw it.

    Split-AI: each training record is left out by ``left_out`` of ``models`` sub-models, drawn for
    it alone, and its soft label is the mean of their probabilities. These are what other records
    get, on which all sub-models are like strangers. Then one model learns the training records with
    their soft labels instead of their own: the ensemble is thrown away.

    Sub-models are trained for all epochs. Where the recipe selects an epoch, this is the last
    model's, and records held out for it are nobody's members. The same record twice in the
    training set is two records here, each of which gives the other's label away.

    Args:
        models: how many sub-models are trained, K in the paper.
        left_out: how many sub-models leave a record out, L in the paper.

    References:
        Tang et al. (2022), Mitigating membership inference attacks by self-distillation through a
        novel ensemble architecture, algorithms 1 and 2; the paper has K = 25 and L = 10.

    Raises:
        SpecError: left_out is not from 1 to below models.
    """

    models: int = 25
    left_out: int = 10

    name: ClassVar[str] = "selena"
    paper: ClassVar[str] = "Tang et al. 2022"
    search: ClassVar[SearchSpace] = {"models": (5, 10), "left_out": (2, 3)}

    def __post_init__(self) -> None:
        if not 1 <= self.left_out < self.models:
            raise SpecError(
                f"expected left_out from 1 to below models, got left_out={self.left_out} of "
                f"models={self.models}: the paper leaves a record out of 10 of 25"
            )

    @property
    def trainings(self) -> int:
        """The sub-models, and the model that learns from them."""
        return self.models + 1

    def _networks(self, pool: Records, jobs: Sequence[Job]) -> Iterator[nn.Module]:
        for job in jobs:
            loss = _SoftLabelLoss(self.soft_labels(pool, job))
            yield self.train_one(replace(self.recipe, loss=loss), pool, job)

    def soft_labels(self, pool: Records, job: Job) -> torch.Tensor:
        """For each record of the pool that is learned, what those say who never saw it; else 0.

        Raises:
            DataError: a sub-model is left without records.
        """
        fit, _ = self.recipe.split_rows(job.rows, job.seed)
        unseen = self._draw_exclusions(fit, job.seed)
        if unseen.all(axis=1).any():
            raise DataError(
                f"expected records for each of {self.models} sub-models, got {len(fit)} in all: "
                "give more, or leave each out of fewer"
            )
        subsets = np.zeros((self.models, len(pool)), np.bool_)
        subsets[:, fit] = ~unseen
        seeds = stream(job.seed, "sub-models").integers(2**31, size=self.models).tolist()
        plain = replace(self.recipe, select=None, patience=None)
        networks = self.fleet(plain).networks(pool, subsets, seeds, job.start)
        own = pool.take(fit)
        total: np.ndarray = sum(
            hidden[:, None] * TorchTarget(network, "logits").predict(own.x)
            for network, hidden in zip(networks, unseen, strict=True)
        )
        labels = np.zeros((len(pool), total.shape[1]), np.float32)
        labels[fit] = total / self.left_out
        return torch.from_numpy(labels).to(self.device)

    def _draw_exclusions(
        self, fit: TrainingRows, seed: int
    ) -> Bool[np.ndarray, "sub_models fitted"]:
        """Which sub-model leaves out which record."""
        order = stream(seed, "split").permuted(
            np.tile(np.arange(self.models), (len(fit), 1)), axis=1
        )
        unseen: np.ndarray = self.left_out > order.T
        return unseen


@dataclass(frozen=True, eq=False)
class _SoftLabelLoss:
    """The cross-entropy with a soft label a record, by its row in the pool."""

    labels: torch.Tensor

    def against(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], BatchLoss]:
        """The cross-entropy with soft labels; no attacker learns beside the model."""
        del held_out

        def loss(rows: torch.Tensor) -> torch.Tensor:
            x, _ = data.batch(rows)
            logits = module(x)
            return cross_entropy(logits, self.labels[rows].to(logits.dtype))

        return lambda epoch: loss  # noqa: ARG005 (the same in all epochs)
