"""A recipe holds the settings by which one network is trained; a fleet repeats it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Int64

from divulge._util.arguments import Count, check_arguments
from divulge._util.random import stream
from divulge.errors import DataError, SpecError
from divulge.training.losses import Adversary, Loss

if TYPE_CHECKING:
    import torch

Optimiser = Literal["sgd", "adam", "adamw", "adamax", "adadelta"]
Schedule = Literal["constant", "cosine"]
Select = Literal["loss", "accuracy", "aop"]
Precision = Literal["float32", "bfloat16"]
Rows = Int64[np.ndarray, " rows"]
RaggedRows = Int64[np.ndarray, "_"]
"""Row numbers of the pool, as `Rows`, where several such arrays differ in length."""
TrainingRows = Int64[np.ndarray, " fitted"]
HeldOutRows = Int64[np.ndarray, " held_out"]


@check_arguments
@dataclass(frozen=True, slots=True)
class Recipe:
    """Training of one classifier, by default with cross-entropy, as PyTorch's optimisers define it.

    Args:
        network: makes an untrained module that maps records to logits, one a class; called once a
            model, after PyTorch's random numbers were seeded for it.
        optimiser: ``sgd``, ``adam``, ``adamw``, ``adamax`` or ``adadelta``.
        lr: the learning rate at the first step.
        momentum: the momentum of ``sgd``, from 0 to below 1; the other optimisers have their own.
        weight_decay: the factor of the weights that is added to the gradient (``adamw`` takes it
            off the weights instead).
        epochs: how often a model sees each of its records.
        batch_size: how many records a step has. The last batch of an epoch is smaller, but never
            one record, of which batch normalisation knows no variance: that one joins the batch
            before.
        schedule: how the learning rate changes: ``constant``, or ``cosine``, down to zero over all
            steps (Loshchilov and Hutter 2017, eq. 5, without restarts).
        patience: stop a model once it was no better by ``select`` for so many epochs in a row;
            by default all epochs are run.
        held_out: the share of a model's own records that is held out where ``patience`` or
            ``select`` is given, drawn from its seed. The model is not trained on them.
        select: which epoch's weights are taken: the best by the ``loss`` or ``accuracy`` on records
            held out, or by ``aop``, that accuracy over what a threshold on the loss tells of who
            was trained on, see `divulge.training.engine.selection.merit`; by default the last
            epoch, or with ``patience`` that of the least loss.
        loss: what a step makes smaller; the cross-entropy unless given.
        stop_after: end training after so many of the epochs, with learning rates as if all were
            run. A defence whose teachers label the records trains these for all epochs.

    Raises:
        SpecError: there is no such optimiser, schedule or way to select, or a number makes no
            sense.
    """

    network: Callable[[], "torch.nn.Module"]
    optimiser: Optimiser = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    epochs: Count = 20
    batch_size: Count = 100
    schedule: Schedule = "constant"
    patience: int | None = None
    held_out: float = 0.1
    select: Select | None = None
    loss: Loss | Adversary | None = None
    stop_after: Count | None = None

    def __post_init__(self) -> None:
        _require(self.lr > 0, "lr above 0", self.lr)
        _require(0 <= self.momentum < 1, "momentum from 0 to below 1", self.momentum)
        _require(self.weight_decay >= 0, "weight_decay from 0", self.weight_decay)
        _require(self.patience is None or self.patience >= 1, "patience from 1", self.patience)
        _require(0 < self.held_out < 1, "held_out above 0 and below 1", self.held_out)
        if self.momentum and self.optimiser != "sgd":
            raise SpecError(
                f"expected no momentum with {self.optimiser}, which has its own, got "
                f'{self.momentum}: leave it out, or use optimiser="sgd"'
            )

    @property
    def selects(self) -> Select | None:
        """The criterion of the best epoch; None where the last epoch is taken."""
        return self.select or ("loss" if self.patience else None)

    def batch_edges(self, records: int) -> list[int]:
        """Positions at which an epoch over so many records is cut into batches.

        Examples:
            >>> Recipe(list, batch_size=4).batch_edges(10)
            [4, 8]
            >>> Recipe(list, batch_size=4).batch_edges(9)
            [4]
        """
        edges = list(range(self.batch_size, records, self.batch_size))
        lonely = bool(edges) and self.batch_size > 1 and records - edges[-1] == 1
        return edges[:-1] if lonely else edges

    def split_rows(self, rows: Rows, seed: int) -> tuple[TrainingRows, HeldOutRows]:
        """The rows that a model is trained on, and those held out for it.

        Raises:
            DataError: no row is left for one of the two.
        """
        if self.selects is None:
            return rows, rows[:0]
        if len(rows) < 2:
            raise DataError(
                f"expected two records or more to hold one out, got {len(rows)}: "
                "enlarge the pool, or leave patience and select out"
            )
        held_out = min(max(1, round(self.held_out * len(rows))), len(rows) - 1)
        shuffled = stream(seed, "held out").permutation(rows)
        return np.sort(shuffled[held_out:]), np.sort(shuffled[:held_out])

    @property
    def epochs_run(self) -> int:
        """How many epochs are run at most."""
        return self.epochs if self.stop_after is None else min(self.stop_after, self.epochs)

    def steps(self, records: int) -> int:
        """How many steps so many records are trained with, held-out ones not counted."""
        return self.epochs_run * (len(self.batch_edges(records)) + 1)

    def plan(self, rows: Rows, seed: int) -> "Iterator[list[tuple[float, torch.Tensor]]]":
        """For each epoch, the learning rate and the batch of each step: all rows, shuffled anew."""
        import torch

        order = torch.Generator().manual_seed(int(stream(seed, "batches").integers(2**63)))
        records, edges = torch.from_numpy(rows), self.batch_edges(len(rows))
        per_epoch = len(edges) + 1
        steps = self.epochs * per_epoch
        for first in range(0, self.steps(len(rows)), per_epoch):
            shuffled = records[torch.randperm(len(rows), generator=order)]
            rates = (self.rate(step / steps) for step in range(first, first + per_epoch))
            yield list(zip(rates, shuffled.tensor_split(edges), strict=True))

    def rate(self, progress: float) -> float:
        """The learning rate after this share of all steps."""
        if self.schedule == "constant":
            return self.lr
        return self.lr * (1 + math.cos(math.pi * progress)) / 2

    def make_optimiser(self, params: "list[torch.Tensor]") -> "torch.optim.Optimizer":
        """The optimiser of these parameters.

        All of them work element by element: a stack of weights is trained as each one would be.
        """
        from torch import optim

        from divulge.training.optimisers import without_compiler

        lr, decay = self.lr, self.weight_decay
        if self.optimiser == "sgd":
            sgd = without_compiler(optim.SGD)
            return sgd(params, lr, self.momentum, weight_decay=decay, fused=True)
        if self.optimiser == "adam":
            return without_compiler(optim.Adam)(params, lr, weight_decay=decay, fused=True)
        if self.optimiser == "adamw":
            return without_compiler(optim.AdamW)(params, lr, weight_decay=decay, fused=True)
        if self.optimiser == "adamax":
            return without_compiler(optim.Adamax)(params, lr, weight_decay=decay, foreach=True)
        return without_compiler(optim.Adadelta)(params, lr, weight_decay=decay)


def _require(fine: bool, expected: str, got: object) -> None:  # noqa: FBT001 (a condition)
    if not fine:
        raise SpecError(f"expected {expected}, got {got!r}: change the recipe")
