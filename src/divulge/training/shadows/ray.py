"""Train shadow models on a Ray cluster, in batches, each as a remote task."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from divulge.training import cluster
from divulge.training.cluster import RayCluster
from divulge.training.shadows.workers import (
    ResolvableTrainer,
    ShadowPredictions,
    ShadowWorkload,
    same_computation,
    train_batch,
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


def _train_batch_remotely(work: ShadowWorkload, models: Sequence[int]) -> list[ShadowPredictions]:
    """Train some models on a worker, with one processor for all."""
    return list(train_batch(work, models))


def _models_per_batch(work: ShadowWorkload, models: int, processors: int) -> int:
    """Models a wave: those that are one computation, else few, so that little is lost with one."""
    if isinstance(work.trainer, ResolvableTrainer) and work.trainer.together > 1:
        return work.trainer.together
    return max(1, min(4, models // (2 * processors)))
