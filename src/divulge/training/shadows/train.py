"""Train the planned shadow models, store each one's predictions, and map them into memory."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.digest import digest
from divulge._util.progress import Track, track_silently
from divulge.core import (
    ModelView,
    Need,
    PoolPredictions,
    Records,
    ShadowModel,
    Shadows,
    Target,
    check_trainer,
)
from divulge.training.shadows.plan import ShadowPlan, shadow_key
from divulge.training.shadows.store import RowFile
from divulge.training.shadows.strategy import resolve_trainer
from divulge.training.shadows.workers import LocalWorkers, Workers
from divulge.training.shadows.workload import ShadowPredictions, ShadowWorkload

FOLDER = "shadows"
"""The folder within a run folder that holds the predictions of shadows."""

RowMatrix = Float64[np.ndarray, "models numbers"]


def train_shadows(
    view: ModelView,
    plan: ShadowPlan,
    seed: int = 0,
    run: Path | None = None,
    track: Track[Any] = track_silently,
    workers: Workers | None = None,
) -> Shadows:
    """Shadows for a view.

    Args:
        view: the view whose candidates and reference records the shadows are asked about.
        plan: what to train.
        seed: the seed of the halves and of each model's own randomness.
        run: the run folder. Models whose predictions are in it are not trained again, also where
            more models are asked for. Without one, predictions are in a temporary file.
        track: shows progress.
        workers: where models are trained; in this process, unless given.

    Raises:
        TargetError: a shadow could not be trained.
        StoreError: its answers could not be stored.
    """
    shadows, _ = _train(view, plan, _workload(view, plan, seed), seed, run, track, workers)
    return shadows


def train_shadows_and_keep_first(
    view: ModelView,
    plan: ShadowPlan,
    seed: int = 0,
    run: Path | None = None,
    track: Track[Any] = track_silently,
    workers: Workers | None = None,
) -> tuple[Shadows, ShadowModel | None]:
    """`train_shadows`, and the first shadow itself, for attacks that look into it.

    The model that is handed over is the one whose predictions are stored. A run folder keeps no
    models: where it holds the predictions already, the first model is trained again, with all that
    are one computation with it. None where less can be asked of the model than of the target.

    Args:
        view: as for `train_shadows`, as are the others.
        plan: what to train, from a pool of the attacker's own.
        seed: the seed of the halves and of each model's own randomness.
        run: the run folder.
        track: shows progress.
        workers: where the other models are trained.

    Raises:
        TargetError: a shadow could not be trained.
        StoreError: its answers could not be stored.
    """
    assert plan.pool is not None
    work = replace(_workload(view, plan, seed), keep_first=True)
    shadows, first = _train(view, plan, work, seed, run, track, workers)
    assert first is not None
    if view.target.offers & ~first.offers:
        return shadows, None
    records = plan.pool_asked or plan.pool
    return shadows, ShadowModel(first, records, work.subsets[0], plan.pool_known)


FEW = 4
"""How many further models are trained at a time for controls."""


@dataclass(frozen=True, slots=True)
class ConditionalShadowTrainer:
    """Trains further shadows for a view; see `divulge.core.ConditionalShadows`."""

    view: ModelView
    plan: ShadowPlan
    """What was trained already, and how many models to train at a time: its ``cascade``."""
    seed: int = 0
    run: Path | None = None
    track: Track[Any] = track_silently
    workers: Workers | None = None

    def __call__(
        self, inside: Bool[np.ndarray, " records"], outside: Bool[np.ndarray, " records"]
    ) -> Shadows:
        """Shadows that agree on some candidates and differ on random halves of the others."""
        plan = replace(self.plan, models=self.plan.cascade)
        # other candidates, other seeds: what is stored is never taken for other models
        seed = int(digest(f"further shadows of {self.seed}", inside, outside)[:15], 16)
        work = _workload(self.view, plan, seed)
        work = replace(work, subsets=(work.subsets | inside) & ~outside)
        shadows, _ = _train(self.view, plan, work, seed, self.run, self.track, self.workers)
        return shadows

    def fewer(self) -> "ConditionalShadowTrainer":
        """The same with `FEW` models at a time."""
        return replace(self, plan=replace(self.plan, cascade=min(FEW, self.plan.cascade)))


def count_further(plan: ShadowPlan, rounds: int) -> int:
    """The most models that this many rounds train, with those for the two controls."""
    return rounds * (plan.cascade + 2 * min(FEW, plan.cascade))


def _workload(view: ModelView, plan: ShadowPlan, seed: int) -> ShadowWorkload:
    """The work, for models that name as many classes as the target."""
    classes = view.target.predict(view.records.x).shape[1]
    if Need.TOKENS in view.target.offers:
        classes = 2  # as `TokenProbability` answers of shadow models
    return prepare_workload(plan, shadow_queries(view, plan), seed, classes=classes)


def _train(
    view: ModelView,
    plan: ShadowPlan,
    work: ShadowWorkload,
    seed: int,
    run: Path | None,
    track: Track[Any],
    workers: Workers | None,
) -> tuple[Shadows, Target | None]:
    """The shadows, and the first model where the work keeps it."""
    models: list[Target] = []

    def keep(trained: ShadowPredictions) -> None:
        if trained.target is not None:
            models.append(trained.target)

    with ExitStack() as stack:
        # a temporary folder would be left by a kill: there is none where there is a run folder
        folder = run or Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        matrix = load_or_train_rows(
            folder / FOLDER,
            shadow_key(plan, work.queries, seed),
            work,
            track,
            workers or LocalWorkers(),
            keep,
            again=(0,) if work.keep_first else (),
        )
    return as_shadows(view, plan, matrix, work.subsets), models[0] if models else None


def prepare_workload(
    plan: ShadowPlan,
    queries: tuple[Records, ...],
    seed: int,
    models_with_predictions: int = 0,
    classes: int | None = None,
) -> ShadowWorkload:
    """The work of the workers; nothing is trained yet. The candidates are the first query."""
    pool = queries[0] if plan.pool is None else plan.pool
    return ShadowWorkload(
        trainer=plan.trainer,
        pool=pool,
        queries=queries,
        subsets=plan.subsets(pool, seed),
        seeds=plan.seeds(seed),
        models_with_predictions=models_with_predictions,
        answers=plan.answers,
        classes=classes,
    )


def shadow_queries(view: ModelView, plan: ShadowPlan) -> tuple[Records, ...]:
    """Records that shadows are asked about: candidates, augmented ones, reference, own pool."""
    reference = () if view.reference is None else (view.reference,)
    return (view.records, *view.augmented, *reference, *plan.own)


def load_or_train_rows(
    folder: Path,
    key: str,
    work: ShadowWorkload,
    track: Track[Any],
    workers: Workers,
    keep: Callable[[ShadowPredictions], None] = lambda _: None,
    again: Sequence[int] = (),
) -> RowMatrix:
    """The predictions of every model, read-only and mapped; those on disk are not trained again.

    Args:
        folder: the folder of the file.
        key: what the predictions depend on; the file's name begins with it.
        work: what to train.
        track: shows progress.
        workers: where models are trained.
        keep: is called with a model's predictions before it counts as trained.
        again: numbers of models to train even though they are on disk.
    """
    file = open_rows(folder, key, work)
    models = sorted({*file.missing, *again})
    work, models = resolve_trainer(work, models, folder / f"{file.key}.way.json", workers)
    with closing(workers.train(work, models)) as fresh:
        for _ in track(models, training_text(work), len(work.seeds) - len(models)):
            trained = next(fresh)
            keep(trained)
            file.put(trained.model, trained.row)
    return file.matrix()


def open_rows(folder: Path, key: str, work: ShadowWorkload) -> RowFile:
    """The file of every model's predictions.

    Args:
        folder: where it is.
        key: what the predictions depend on.
        work: what to train.

    Raises:
        StoreError: it is damaged, or cannot be read or written.
    """
    # files of classifiers without the further numbers have other names: their models are trained
    # again, and no row of one width is read as one of another
    kind = "" if work.queries[0].regression else "-softened"
    return RowFile(folder, f"{key}{kind}", len(work.seeds), work.numbers)


def training_text(work: ShadowWorkload) -> str:
    """What the progress line says while these models are trained."""
    note = check_trainer(work.trainer, work.pool)
    return f"Training shadows ({note})" if note else "Training shadows"


def as_shadows(
    view: ModelView,
    plan: ShadowPlan,
    matrix: RowMatrix,
    subsets: Bool[np.ndarray, "models records"],
) -> Shadows:
    """The rows of `load_or_train_rows` as attacks get them.

    There is a matrix for each set of records, without a copy.
    """
    ends = np.cumsum([len(group) for group in shadow_queries(view, plan)])
    phi = (part.T for part in np.split(matrix[:, : ends[-1]], ends[:-1], axis=1))
    ways = (view.records, *view.augmented)
    candidates, *augmented = (next(phi) for _ in ways)
    softened: tuple[np.ndarray, ...] = ()
    if not view.records.regression:
        rest = np.split(matrix[:, ends[-1] :], ends[:-1], axis=1)
        softened = tuple(part.T for part in rest[: len(ways)])
    reference = np.empty((0, len(matrix))) if view.reference is None else next(phi)
    if plan.pool is None:
        return Shadows(candidates, subsets.T, reference, tuple(augmented), softened=softened)
    nowhere = np.broadcast_to(np.False_, candidates.shape)
    pool = PoolPredictions(plan.pool.y, next(phi), subsets.T, tuple(phi))
    return Shadows(candidates, nowhere, reference, tuple(augmented), pool, softened)
