"""Defend by MIST: models that learn parts of the records have to answer alike about them."""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from divulge._util.arguments import check_arguments
from divulge._util.random import stream
from divulge.core import Range, Records, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import DataError, SpecError
from divulge.targets.batching import translate_model_errors
from divulge.training.engine.loop import (
    Job,
    build_network,
    build_network_unseeded,
    flush_subnormals,
    plain_loss,
    step_optimiser,
    temporary_seed,
    torch_threads,
)
from divulge.training.engine.selection import BestEpoch
from divulge.training.losses import Loss
from divulge.training.recipe import RaggedRows, Recipe
from divulge.training.tensors import PoolArrays, PoolTensors, to_channels_last
from divulge.training.weights import restore, state

_ASKED_AT_ONCE = 1024
"""Records that the other sub-models answer about at a time."""


@check_arguments
@dataclass(frozen=True, slots=True)
class MIST(TrainingDefence):
    """Average sub-models that learn parts of the records, and answer about them as others do.

    In each epoch the records are cut at random into as many parts as there are sub-models, which
    all start from the model. First each learns its part. Then it goes through its part once more
    and minimises the cross-difference: the mean L1 distance between its probabilities and those of
    each other sub-model, none of which has seen these records in this epoch. The mean of all their
    weights is the model. So what only those learn that saw a record is taken back. Here ``way``
    changes nothing.

    Args:
        models: how many sub-models there are, from 2.
        weight: how much the cross-difference counts; 0 is averaging alone.

    References:
        Li, Li and Ribeiro (2024), MIST: defending against membership inference attacks through
        membership-invariant subspace training (USENIX Security). Only its abstract was at hand: the
        two phases and the distance are those of public implementations by others, which train on
        from each sub-model's own weights; here all start from their mean. Both defaults are ours.

    Raises:
        SpecError: there are fewer than two sub-models, the weight is below 0, or the recipe has a
            loss of its own.
    """

    models: int = 4
    weight: float = 1.0

    name: ClassVar[str] = "mist"
    paper: ClassVar[str] = "Li, Li and Ribeiro 2024"
    search: ClassVar[SearchSpace] = {"models": (2, 4, 8), "weight": Range(0.1, 30.0, log=True)}
    staged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (self.models >= 2 and 0 <= self.weight < math.inf):
            raise SpecError(
                "expected models from 2 and weight from 0, got "
                f"models={self.models} and weight={self.weight}"
            )
        if self.recipe.loss is not None:
            raise SpecError(
                f"expected a recipe with the cross-entropy, got {self.recipe.loss!r}: leave loss "
                "out, since mist has two of its own"
            )

    @property
    def preparation(self) -> float:
        """The second pass, and what the others answer: a third of a training step each."""
        return 1 + (self.models - 1) / 3

    def _networks(self, pool: Records, jobs: Sequence[Job]) -> Iterator[nn.Module]:
        for job in jobs:
            with translate_model_errors("a defended model to train", _REMEDY):
                data = PoolArrays.prepare(pool, build_network(self.recipe, job))
                with torch_threads(self.workers or 1):
                    yield self._train(data.tensors(self.device), job)

    @flush_subnormals()
    def _train(self, data: PoolTensors, job: Job) -> nn.Module:
        """One model, in evaluation mode."""
        recipe = self.recipe
        fit, held_out = recipe.split_rows(job.rows, job.seed)
        if len(fit) < self.models:
            raise DataError(
                f"expected a record for each of {self.models} sub-models, got {len(fit)} in all: "
                "give more, or fewer sub-models"
            )
        with temporary_seed(job.seed, data.x.device):
            module = build_network_unseeded(recipe, job).to(data.x.device).train()
            if data.channels_last:
                to_channels_last(module)
            best = BestEpoch(recipe, data, fit, held_out) if recipe.selects else None
            for epoch in range(recipe.epochs_run):
                order = stream(job.seed, "parts", epoch).permutation(fit)
                subs = [copy.deepcopy(module) for _ in range(self.models)]
                _Epoch(recipe, data, epoch, subs).run(
                    np.array_split(order, self.models), self.weight
                )
                restore(module, mean_state(subs))
                if best and not best.should_continue(module):
                    break
                module.train()
        return restore(module, best.state) if best else module.eval()


_REMEDY = "build the network yourself, and train it on a few records to see why"


class _Epoch:
    """What the sub-models do in one epoch."""

    def __init__(
        self, recipe: Recipe, data: PoolTensors, epoch: int, subs: Sequence[nn.Module]
    ) -> None:
        self._recipe, self._data, self._epoch, self._subs = recipe, data, epoch, subs
        self._optimisers = [
            recipe.make_optimiser([p for p in sub.parameters() if p.requires_grad]) for sub in subs
        ]

    def run(self, parts: Sequence[RaggedRows], weight: float) -> None:
        """Both phases."""
        plain = plain_loss(self._recipe)
        for number, part in enumerate(parts):
            self._learn(number, part, plain)
        if not weight:
            return
        # all answers first: the order of the sub-models changes nothing
        others = [self._answers_of_others(number, part) for number, part in enumerate(parts)]
        for number, part in enumerate(parts):
            self._agree(number, part, others[number], weight)

    def _learn(self, number: int, part: RaggedRows, loss: Loss) -> None:
        for rate, places in self._steps(part):
            x, y = self._data.batch(self._rows(part[places]))
            self._step(number, loss(self._subs[number](x), y, self._epoch), rate)

    def _agree(
        self,
        number: int,
        part: RaggedRows,
        others: Float[torch.Tensor, "others records classes"],
        weight: float,
    ) -> None:
        for rate, places in self._steps(part):
            x, _ = self._data.batch(self._rows(part[places]))
            answers = self._subs[number](x).softmax(dim=1)
            self._step(number, weight * cross_difference(answers, others[:, places]), rate)

    def _step(self, number: int, loss: torch.Tensor, rate: float) -> None:
        self._optimisers[number].zero_grad()
        torch.autograd.backward(loss)
        step_optimiser(self._optimisers[number], rate)

    def _steps(self, part: RaggedRows) -> Iterator[tuple[float, np.ndarray]]:
        """The learning rate of each step, and the places of its batch in the part."""
        batches = np.split(np.arange(len(part)), self._recipe.batch_edges(len(part)))
        for number, places in enumerate(batches):
            progress = (self._epoch + number / len(batches)) / self._recipe.epochs
            yield self._recipe.rate(progress), places

    @torch.no_grad()
    def _answers_of_others(
        self, number: int, part: RaggedRows
    ) -> Float[torch.Tensor, "others records classes"]:
        rows = torch.split(self._rows(part), _ASKED_AT_ONCE)
        others = [sub for other, sub in enumerate(self._subs) if other != number]
        answers = torch.stack(
            [
                torch.cat([sub.eval()(self._data.batch(some)[0]).softmax(dim=1) for some in rows])
                for sub in others
            ]
        )
        for sub in others:
            sub.train()
        return answers

    def _rows(self, rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(rows).to(self._data.x.device)


def cross_difference(
    answers: Float[torch.Tensor, "records classes"],
    others: Float[torch.Tensor, "others records classes"],
) -> Float[torch.Tensor, ""]:
    """The mean L1 distance of a record's probabilities from those of each other sub-model.

    Examples:
        >>> own, other = torch.tensor([[0.9, 0.1]]), torch.tensor([[[0.6, 0.4]], [[0.8, 0.2]]])
        >>> round(float(cross_difference(own, other)), 6)
        0.4
    """
    return (answers - others).abs().sum(dim=2).mean()


def mean_state(modules: Sequence[nn.Module]) -> dict[str, torch.Tensor]:
    """The mean of parameters and buffers; counters are the first module's."""
    states = [state(module) for module in modules]
    return {
        name: torch.stack([tensors[name] for tensors in states]).mean(dim=0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in states[0].items()
    }
