"""Describe models to train and what to ask each, and do that: one way for all workers."""

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64

from divulge.core import AnswerDefence, Need, Records, Target, Trainer
from divulge.errors import DivulgeError, TargetError
from divulge.metrics import signals
from divulge.metrics.softened import softened_log_probability
from divulge.targets.defended import DefendedTarget
from divulge.training.shadows.store import RowArray
from divulge.training.trainers import EstimatorTrainer, FunctionTrainer, innermost


@dataclass(frozen=True, slots=True)
class ShadowWorkload:
    """Models to train, and what to ask each. All of it is known before any is trained."""

    trainer: Trainer
    pool: Records
    queries: tuple[Records, ...]
    subsets: Bool[np.ndarray, "models records"]
    seeds: Sequence[int]
    models_with_predictions: int = 0
    """How many of the first models also return all their probabilities."""
    keep_first: bool = False
    """Whether the first model itself is handed over, for attacks that look into it."""
    answers: AnswerDefence | None = None
    """The defence that changes every model's predictions, with the model's seed as its secret."""
    also: tuple[AnswerDefence | None, ...] = ()
    """Further defences: every model's predictions are also returned as each changes them."""
    classes: int | None = None
    """The number of classes that every model has to have; None where no other model sets it."""
    epochs: tuple[int, ...] = ()
    """Epochs after each of which a model is asked; none where it is asked once it is trained."""

    @property
    def numbers(self) -> int:
        """How many numbers are kept of each model."""
        return sum(map(len, self.queries)) * (1 if self.queries[0].regression else 2)


class DefendedPredictions(NamedTuple):
    """The predictions of one model on all queries, as one defence changes them."""

    row: RowArray
    """φ of every query, one set of records after another, and then in the same order the log p_y
    of classifiers at a temperature; see `divulge.core.Shadows`."""
    answers: Float64[np.ndarray, "queries classes"] | None
    """All probabilities, of the models whose work asks for them."""


class ShadowPredictions(NamedTuple):
    """The predictions of one model on all queries."""

    model: int
    row: RowArray
    """As in `DefendedPredictions`."""
    answers: Float64[np.ndarray, "queries classes"] | None
    target: Target | None
    """The model itself, where the work keeps it."""
    also: tuple[DefendedPredictions, ...] = ()
    """One for each of the work's further defences."""
    stages: tuple[tuple[DefendedPredictions, ...], ...] = ()
    """For each of the work's epochs, or once trained, the predictions by each of all defences."""


class TrainingTask(NamedTuple):
    """One of the models of a work, where many works are to be done."""

    work: ShadowWorkload
    model: int


def train_batch(work: ShadowWorkload, models: Sequence[int]) -> Generator[ShadowPredictions]:
    """Train some models here, and ask each; the one way in which it is done anywhere.

    Raises:
        TargetError: one could not be trained, or is to hand over answers that it does not give.
    """
    seeds = [work.seeds[k] for k in models]
    for k, seed, stages in zip(models, seeds, _trained(work, models, seeds), strict=True):
        model = stages[-1]
        _check_kind(model, work.queries[0])
        if k < work.models_with_predictions and not model.offers & (
            Need.PROBABILITIES | Need.VALUES
        ):
            raise TargetError("expected models that give probabilities, got labels: train others")
        predictions = [
            tuple(
                _ask(work, k, _defend(stage, defence, seed))
                for defence in (work.answers, *work.also)
            )
            for stage in stages
        ]
        first, *also = predictions[-1]
        target = _defend(model, work.answers, seed) if work.keep_first and k == 0 else None
        yield ShadowPredictions(k, *first, target, tuple(also), tuple(predictions))


def _trained(
    work: ShadowWorkload, models: Sequence[int], seeds: Sequence[int]
) -> Iterator[Sequence[Target]]:
    """Each model after each of the work's epochs, or once it is trained."""
    subsets = work.subsets[list(models)]
    if work.epochs:
        assert isinstance(work.trainer, StagedTrainer)
        yield from work.trainer.stages(work.pool, subsets, seeds, work.epochs)
    else:
        for model in work.trainer.many(work.pool, subsets, seeds):
            yield [model]


def train_task(task: TrainingTask) -> ShadowPredictions | DivulgeError:
    """The model of one task, trained and asked with one thread; or why it could not be."""
    try:
        with _one_thread(task.work.trainer):
            (predictions,) = train_batch(task.work, [task.model])
    except DivulgeError as error:
        return error
    return predictions


def _one_thread(trainer: Trainer) -> AbstractContextManager[Any]:
    """One thread for PyTorch; it is not imported for what trains without it."""
    if "torch" not in sys.modules and isinstance(
        innermost(trainer), EstimatorTrainer | FunctionTrainer
    ):
        return nullcontext()
    from divulge.training.engine.loop import torch_threads

    return torch_threads(1)


def _defend(model: Target, defence: AnswerDefence | None, seed: int) -> Target:
    return model if defence is None else DefendedTarget(model, defence, seed)


def _ask(work: ShadowWorkload, k: int, target: Target) -> DefendedPredictions:
    """What a model says of all queries.

    Raises:
        TargetError: it has other classes.
    """
    answers = [target.predict(group.x) for group in work.queries]
    check_class_count(answers[0].shape[1], work.classes)
    pairs = list(zip(answers, work.queries, strict=True))
    row = [signals.compute_phi(answer, group) for answer, group in pairs]
    if not work.queries[0].regression:
        row += [softened_log_probability(answer, group.y) for answer, group in pairs]
    whole = np.concatenate(answers) if k < work.models_with_predictions else None
    return DefendedPredictions(np.concatenate(row), whole)


def _check_kind(model: Target, records: Records) -> None:
    """Refuse a classifier where records have true values, and a regression model where classes.

    Raises:
        TargetError: the model is of the other kind.
    """
    if (Need.VALUES in model.offers) != records.regression:
        kinds = ["classifiers", "regression models"]
        wanted, got = kinds[records.regression], kinds[not records.regression]
        raise TargetError(
            f"expected {wanted} as shadow models, as the target is, got {got}: train them as the "
            "target was"
        )


def check_class_count(given: int, wanted: int | None) -> None:
    """Refuse a model with other classes than the target's.

    Raises:
        TargetError: it has more or fewer.
    """
    if wanted is not None and given != wanted:
        raise TargetError(
            f"expected shadow models with {wanted} classes, as the target has, got one with "
            f"{given}: train them on the labels of the target, all classes included"
        )


@runtime_checkable
class StagedTrainer(Protocol):
    """A trainer that can also show what its models would be, had training ended earlier."""

    def stages(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
        epochs: Sequence[int],
    ) -> Iterator[Sequence[Target]]:
        """Of each model, as targets, what it would be if training had ended after these epochs."""
        ...
