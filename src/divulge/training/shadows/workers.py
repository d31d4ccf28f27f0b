"""Train shadow models in this process or on a cluster, and fix the trainer's strategy first.

Both kinds of workers return the same rows. A run that is resumed keeps the strategy that it began
with.
"""

import dataclasses
import pickle
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util import atomic
from divulge._util.json import JSON
from divulge._util.processes import parallel_calls
from divulge.core import AnswerDefence, Need, Records, Target, Trainer
from divulge.errors import DivulgeError, TargetError
from divulge.metrics import signals
from divulge.targets.defended import DefendedTarget
from divulge.training.shadows.store import RowArray


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


class DefendedPredictions(NamedTuple):
    """The predictions of one model on all queries, as one defence changes them."""

    row: RowArray
    """φ of every query, one set of records after another; see `divulge.core.Shadows`."""
    answers: Float64[np.ndarray, "queries classes"] | None
    """All probabilities, of the models whose work asks for them."""


class ShadowPredictions(NamedTuple):
    """The predictions of one model on all queries."""

    model: int
    row: RowArray
    """φ of every query, one set of records after another; see `divulge.core.Shadows`."""
    answers: Float64[np.ndarray, "queries classes"] | None
    target: Target | None
    """The model itself, where the work keeps it."""
    also: tuple[DefendedPredictions, ...] = ()
    """One for each of the work's further defences."""
    stages: tuple[tuple[DefendedPredictions, ...], ...] = ()
    """For each of the work's epochs, or once trained, the predictions by each of all defences."""


@runtime_checkable
class Workers(Protocol):
    """A place where models are trained."""

    def session(self) -> AbstractContextManager[Any]:
        """Within it, workers that were started once are there for all that is trained."""
        ...

    def processors(self) -> int:
        """How many models can be in training at once."""
        ...

    def train(self, work: ShadowWorkload, models: Sequence[int]) -> Generator[ShadowPredictions]:
        """These models, in any order, each as soon as it is there.

        Raises:
            TargetError: one could not be trained.
        """
        ...

    def train_each(
        self, tasks: "Sequence[TrainingTask]"
    ) -> Generator[tuple[int, ShadowPredictions | DivulgeError]]:
        """One model of each task, in any order, with the position of its task.

        A model that could not be trained is the error instead, and the others are trained. The
        trainers must need one thread, so that models are the same wherever they are trained.
        """
        ...


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
        asked = [
            tuple(
                _ask(work, k, _defend(stage, defence, seed))
                for defence in (work.answers, *work.also)
            )
            for stage in stages
        ]
        first, *also = asked[-1]
        kept = _defend(model, work.answers, seed) if work.keep_first and k == 0 else None
        yield ShadowPredictions(k, *first, kept, tuple(also), tuple(asked))


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
    from divulge.training.engine.loop import torch_threads

    try:
        with torch_threads(1):
            (found,) = train_batch(task.work, [task.model])
    except DivulgeError as error:
        return error
    return found


MIN_SAVED_SECONDS = 5.0
"""Seconds that processes must save before they are started: importing PyTorch takes some."""


def _train_in_processes(
    tasks: Sequence[TrainingTask], processes: int
) -> Generator[ShadowPredictions | DivulgeError]:
    """The models of tasks, in order; joblib shares the arrays of their works."""
    from joblib import delayed

    from divulge.training.engine.processes import pickle_settings

    calls = (
        delayed(_train_in_worker)(
            dataclasses.replace(
                work, trainer=_PackedTrainer(pickle_settings(work.trainer, _code_of(work.trainer)))
            ),
            model,
        )
        for work, model in tasks
    )
    yield from parallel_calls(calls, processes, batch_size=1)


def _code_of(trainer: Any) -> Any:
    """What a trainer calls of the user's: the function that makes a network, where it has one."""
    return getattr(getattr(trainer, "recipe", None), "network", type(trainer))


@dataclass(frozen=True, slots=True)
class _PackedTrainer:
    """A trainer on its way to another process, with code that could not be imported there."""

    packed: bytes

    def unpack(self) -> Trainer:
        """The trainer."""
        found: Trainer = pickle.loads(self.packed)  # noqa: S301 (what this program has just packed)
        return found

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """See `divulge.core.Trainer.many`."""
        yield from self.unpack().many(pool, subsets, seeds)


def _train_in_worker(work: ShadowWorkload, model: int) -> ShadowPredictions | DivulgeError:
    assert isinstance(work.trainer, _PackedTrainer)
    trainer = work.trainer.unpack()
    return train_task(TrainingTask(dataclasses.replace(work, trainer=trainer), model))


def _defend(model: Target, defence: AnswerDefence | None, seed: int) -> Target:
    return model if defence is None else DefendedTarget(model, defence, seed)


def _ask(work: ShadowWorkload, k: int, target: Target) -> DefendedPredictions:
    """What a model says of all queries.

    Raises:
        TargetError: it has other classes.
    """
    answers = [target.predict(group.x) for group in work.queries]
    check_class_count(answers[0].shape[1], work.classes)
    row = [
        signals.compute_phi(answer, group)
        for answer, group in zip(answers, work.queries, strict=True)
    ]
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


def check_class_count(found: int, wanted: int | None) -> None:
    """Refuse a model with other classes than the target's.

    Raises:
        TargetError: it has more or fewer.
    """
    if wanted is not None and found != wanted:
        raise TargetError(
            f"expected shadow models with {wanted} classes, as the target has, got one with "
            f"{found}: train them on the labels of the target, all classes included"
        )


class LocalWorkers:
    """This process, and whatever processes the trainer starts by itself."""

    def session(self) -> AbstractContextManager[Any]:
        """See `Workers`."""
        return nullcontext()

    def processors(self) -> int:
        """See `Workers`."""
        import joblib

        return int(joblib.cpu_count())

    def train(self, work: ShadowWorkload, models: Sequence[int]) -> Generator[ShadowPredictions]:
        """See `Workers`."""
        if models:
            yield from train_batch(work, models)

    def train_each(
        self, tasks: Sequence[TrainingTask]
    ) -> Generator[tuple[int, ShadowPredictions | DivulgeError]]:
        """See `Workers`; in processes of one thread each, where these save their start."""
        for k, task in enumerate(tasks):
            begun = time.perf_counter()
            yield k, train_task(task)
            took, left = time.perf_counter() - begun, len(tasks) - k - 1
            processes = min(self.processors(), left)
            if processes > 1 and took * left * (1 - 1 / processes) > MIN_SAVED_SECONDS:
                yield from enumerate(_train_in_processes(tasks[k + 1 :], processes), k + 1)
                return


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


@runtime_checkable
class ResolvableTrainer(Protocol):
    """A dataclass that can fix what it would else choose anew each time, as a ``Fleet`` can.

    The fields that it fixes have ``identity`` False in their metadata.
    """

    def settled(self, pool: Records, subsets: Bool[np.ndarray, "models records"]) -> Trainer:
        """The same trainer, its choices made."""
        ...

    @property
    def together(self) -> int:
        """How many models are one computation; 1 where each stands for itself."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class _StoredStrategy:
    """The content of ``KEY.way.json``: settings that change the speed, but not the models."""

    settings: dict[str, JSON]


def settle(work: ShadowWorkload, workers: Workers) -> Trainer:
    """The trainer of the work, its choices made for these workers.

    Elsewhere than here a worker has one core, of which a trial on all cores here tells nothing: one
    model after another.
    """
    trainer: Any = work.trainer
    if not isinstance(trainer, ResolvableTrainer):
        return work.trainer
    if not isinstance(workers, LocalWorkers) and getattr(trainer, "way", None) == "auto":
        trainer = dataclasses.replace(trainer, way="one-by-one", workers=1)  # type: ignore[type-var]
    settled: Trainer = trainer.settled(work.pool, work.subsets)
    return settled


def resolve_trainer(
    work: ShadowWorkload, missing: list[int], path: Path, workers: Workers
) -> tuple[ShadowWorkload, list[int]]:
    """The work with its trainer settled as it was when these models were begun, and what to train.

    Two ways of training give the same models up to rounding, and one way gives them bit for bit:
    what is resumed must not change it. Models that are one computation are trained together again.

    Args:
        work: what to train.
        missing: numbers of the models still to come.
        path: the file that keeps the choice.
        workers: who trains.

    Raises:
        StoreError: the file is damaged, or cannot be read or written.
    """
    if not missing or not isinstance(work.trainer, ResolvableTrainer):
        return work, missing
    trainer: Any = work.trainer
    raw = atomic.read(path) if path.exists() else None
    if raw is None:
        kept = _StoredStrategy(_execution_settings(settle(work, workers)))
        atomic.write(path, atomic.to_json(kept, _StoredStrategy).encode())
    else:
        kept = atomic.from_json(raw, _StoredStrategy, path)
    trainer = dataclasses.replace(trainer, **kept.settings)
    work = dataclasses.replace(work, trainer=trainer)
    return work, same_computation(work, missing, range(len(work.seeds)))


def same_computation(
    work: ShadowWorkload, models: Sequence[int], among: Sequence[int]
) -> list[int]:
    """Those models among others that are one computation with some of these."""
    trainer = work.trainer
    together = trainer.together if isinstance(trainer, ResolvableTrainer) else 1
    waves = {k // together for k in models}
    return [k for k in among if k // together in waves]


def _execution_settings(trainer: Any) -> dict[str, JSON]:
    choices = {
        field.name: getattr(trainer, field.name)
        for field in dataclasses.fields(trainer)
        if not field.metadata.get("identity", True)
    }
    # each model is trained by one thread: the same one however many there are
    if choices.get("way") in ("compiled", "processes"):
        del choices["workers"]
    return choices
