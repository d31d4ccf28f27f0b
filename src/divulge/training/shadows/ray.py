"""Train shadow models on a Ray cluster, in batches, each as a remote task."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from divulge.errors import DivulgeError
from divulge.training import cluster
from divulge.training.cluster import RayCluster
from divulge.training.shadows.strategy import ResolvableTrainer, same_computation
from divulge.training.shadows.workload import (
    ShadowPredictions,
    ShadowWorkload,
    TrainingTask,
    train_batch,
    train_task,
)


@dataclass(frozen=True, slots=True)
class RayWorkers(RayCluster):
    """Workers of one processor each; a wave whose worker or machine is lost goes to another."""

    def train(self, work: ShadowWorkload, models: Sequence[int]) -> Generator[ShadowPredictions]:
        """These models, wave by wave as they finish.

        A model that is handed over is trained in this process, with its wave, meanwhile: no model
        travels.

        Raises:
            TargetError: a model could not be trained, or workers died again and again.
        """
        if not models:
            return
        with self.session() as ray:
            width = _models_per_batch(work, len(models), cluster.count_processors(ray))
            here = same_computation(work, [0], models) if work.keep_first else []
            away = [k for k in models if k not in here]
            waves = [away[start : start + width] for start in range(0, len(away), width)]
            waiting = cluster.submit(ray, _train_batch_remotely, [cluster.share(ray, work)], waves)
            yield from train_batch(work, here)
            for _, trained in cluster.collect(ray, waiting):
                yield from trained

    def train_each(
        self, tasks: Sequence[TrainingTask]
    ) -> Generator[tuple[int, ShadowPredictions | DivulgeError]]:
        """See `Workers`; each model is a remote task.

        Raises:
            TargetError: workers died again and again.
        """
        if not tasks:
            return
        with self.session() as ray:
            running: dict[Any, int] = {}
            for work in {id(task.work): task.work for task in tasks}.values():
                mine = [k for k, task in enumerate(tasks) if task.work is work]
                models = [tasks[k].model for k in mine]
                sent = cluster.submit(
                    ray, _train_model_remotely, [cluster.share(ray, work)], models
                )
                running |= {task: mine[k] for task, k in sent.items()}
            yield from cluster.collect(ray, running)


def _train_model_remotely(work: ShadowWorkload, model: int) -> ShadowPredictions | DivulgeError:
    """Train one model on a worker."""
    return train_task(TrainingTask(work, model))


def _train_batch_remotely(work: ShadowWorkload, models: Sequence[int]) -> list[ShadowPredictions]:
    """Train some models on a worker, with one processor for all."""
    return list(train_batch(work, models))


def _models_per_batch(work: ShadowWorkload, models: int, processors: int) -> int:
    """Models a wave: those that are one computation, else few, so that little is lost with one."""
    if isinstance(work.trainer, ResolvableTrainer) and work.trainer.together > 1:
        return work.trainer.together
    return max(1, min(4, models // (2 * processors)))
