"""The base class of defences that change a model's training."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool
from torch import nn

from divulge.core import Records, SearchSpace, Target
from divulge.errors import SpecError
from divulge.targets.torch import TorchTarget
from divulge.training.engine.loop import Job, make_jobs
from divulge.training.fleet import Fleet, Strategy
from divulge.training.recipe import Recipe

_NOT_IDENTITY = {"identity": False}


@dataclass(frozen=True, slots=True)
class TrainingDefence:
    """A trainer of defended models: a recipe, changed.

    Args:
        recipe: how an undefended model would be trained.
        way: the strategy of training, as for `divulge.training.Fleet`.
        workers: how many processes or threads are used.
        device: where models are trained, as PyTorch names it.
    """

    recipe: Recipe
    way: Strategy = field(default="auto", kw_only=True, metadata=_NOT_IDENTITY)
    workers: int | None = field(default=None, kw_only=True, metadata=_NOT_IDENTITY)
    device: str = field(default="cpu", kw_only=True, metadata=_NOT_IDENTITY)

    name: ClassVar[str]
    paper: ClassVar[str]
    search: ClassVar[SearchSpace] = {}
    """What `divulge.harden` tries of the settings; it leaves others at their defaults."""
    staged: ClassVar[bool] = True
    """Whether `stages` can be asked for."""

    def defended_recipe(self) -> Recipe:
        """How a defended model is trained."""
        raise NotImplementedError

    @property
    def preparation(self) -> float:
        """The work before a model itself is trained, in trainings on all of its records."""
        return 0.0

    def networks(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
        start: Mapping[str, torch.Tensor] | None = None,
    ) -> Iterator[nn.Module]:
        """One defended network a row of ``subsets``, in order, as soon as it is there.

        Args:
            pool: the records to draw from.
            subsets: True where a network is trained on a record, shape (models, records).
            seeds: the seed of each network's own randomness, one a network.
            start: a state dictionary from which every network starts.

        Raises:
            DataError: a subset is empty, or too small for this defence.
            TargetError: the recipe makes no network, or one that could not be trained or defended.
        """
        yield from self._networks(pool, make_jobs(subsets, seeds, start))

    def _networks(self, pool: Records, jobs: Sequence[Job]) -> Iterator[nn.Module]:
        """Train all models as one fleet; defences that prepare something for each override this."""
        self.check_records(pool)
        yield from self.fleet(self.defended_recipe()).train_jobs(pool, jobs)

    def stages(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
        epochs: Sequence[int],
    ) -> Iterator[list[Target]]:
        """Of each model, as targets, what it would be if training had ended after these epochs.

        Raises:
            DataError: a subset is empty, or too small for this defence.
            TargetError: the recipe makes no network, or one that could not be trained or defended.
        """
        self.check_records(pool)
        for job in make_jobs(subsets, seeds):
            yield self.fleet(self.recipe_of(pool, job)).train_stages(pool, job, epochs)

    def check_records(self, pool: Records) -> None:
        """Refuse records that this defence cannot train on; most take all.

        Raises:
            SpecError: they are of the wrong kind.
        """

    def recipe_of(self, pool: Records, job: Job) -> Recipe:
        """How one defended model is trained; defences that prepare something for each override it.

        Args:
            pool: the records to draw from.
            job: the model.
        """
        del pool, job
        return self.defended_recipe()

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """`networks` as targets.

        Raises:
            DataError: a subset is empty, or too small for this defence.
            TargetError: the recipe makes no network, or one that could not be trained or defended.
        """
        for module in self.networks(pool, subsets, seeds):
            yield TorchTarget(module, "logits")

    def check_held_out(self) -> None:
        """Refuse a recipe that holds no records out, for defences that learn from some.

        Raises:
            SpecError: it holds none out.
        """
        if self.recipe.selects is None:
            raise SpecError(
                f"expected a recipe that holds records out for {self.name}, got one that holds "
                'none: set select, as in select="accuracy", and held_out'
            )

    def fleet(self, recipe: Recipe) -> Fleet:
        """What trains models by this recipe here."""
        return Fleet(recipe, self.way, self.workers, self.device)

    def train_one(self, recipe: Recipe, pool: Records, job: Job) -> nn.Module:
        """One model by a recipe of its own, in this process."""
        fleet = Fleet(recipe, "one-by-one", self.workers or 1, self.device)
        (module,) = fleet.train_jobs(pool, [job])
        return module
