"""Train by DAP, discriminative adversarial privacy: the model learns to mislead an attacker."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from torch import nn

from divulge._util.arguments import check_arguments
from divulge._util.random import stream
from divulge.core import Records, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.defences.training.dap import discriminator as discriminators
from divulge.defences.training.dap.discriminator import Discriminator, Samples
from divulge.defences.training.dap.grid import train_grid
from divulge.defences.training.dap.loss import DiscriminatorAdversary
from divulge.errors import SpecError
from divulge.training.engine.dense import dense_layers
from divulge.training.engine.loop import Job, build_network, torch_threads
from divulge.training.engine.selection import merit
from divulge.training.recipe import Recipe, Rows
from divulge.training.tensors import PoolArrays

DiscriminatorKind = Literal["trained", "random"]


@check_arguments
@dataclass(frozen=True, slots=True)
class DAP(TrainingDefence):
    """Trains against a discriminator that learned from shadow models whose records are members.

    Each model gets its own: ``shadows`` models are trained on random halves of public records
    without any defence, for all epochs; or where the recipe is patient, until they get no more
    accurate on a part of the half that is held out. What they say of these, of records that they
    classify wrongly alone unless told otherwise, teaches the discriminator D, which is then frozen.
    Then the model is trained once for each r, and the one of the highest AOP(2) on its records held
    out is taken (`divulge.training.engine.selection.merit`).

    The paper's equations, and how they are read here. C(x) are the model's probabilities, and
    D(C(x), y) is the chance that D gives to "was trained on", by probabilities, label y and loss.

    * Eq. 2, min over C and max over D of E[log C(x)] + β E[log(1 - D(C(x), y))], cannot be meant
      with these signs: C would make its own likelihood small. Read as: every step goes down
      E[-log C(x)_y] + β E[-log(1 - D(C(x), y))]. The batch is of members, so the second term pulls
      D's answer about them towards "was not"; D is frozen, so nobody maximises. The released code
      also pulls records of the validation set towards "was".
    * The expectation of the first term is over the batch. That of the second is over the records of
      the batch that the model classifies wrongly just then; there is none if it has none.
    * The first term changes all weights, the second the last fully connected layer alone: what
      enters that layer is a constant to it. Both go into one step of the optimiser, where the text
      may be read as two.
    * Eq. 3: before each epoch but the first, β is r times E[-log C(x)_y] / E[-log(1 - D)], both
      over the records held out as the model stands then, the second over those that it classifies
      wrongly (with none of them β stays). In the first epoch β is 1, whatever r is.

    Args:
        r: how much the discriminator counts; each is tried. The paper tries 41, from 0 to 1. Small
            ones matter: with much more than 0.1 a model may learn next to nothing.
        shadows: how many models the discriminator learns from, K in the paper.
        samples: ``misclassified``, as the paper's text has it, or ``all``, as its released code.
        discriminator: ``trained``; or ``random``, one that learned nothing, as a control: if the
            defence works as well with it, it is not the discriminator that works.
        public: the records of the shadows. By default those held out for the model, which is DAP_v
            in the paper. Its DAP_t takes the test set, which is then no test any more.

    References:
        Lomurno et al. (2023), Discriminative adversarial privacy: balancing accuracy and membership
        privacy in neural networks, section 3, eqs. 2 and 3.

    Raises:
        SpecError: a setting makes no sense, or the recipe holds no records out.
    """

    r: tuple[float, ...] = (0.0, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0)
    shadows: int = 10
    samples: Samples = "misclassified"
    discriminator: DiscriminatorKind = "trained"
    public: Records | None = None

    name: ClassVar[str] = "dap"
    paper: ClassVar[str] = "Lomurno et al. 2023"
    search: ClassVar[SearchSpace] = {
        "shadows": (4,),
        "samples": ("misclassified", "all"),
        "select": ("aop", "accuracy"),
    }
    staged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.check_held_out()
        if not self.r or min(self.r) < 0:
            raise SpecError(f"expected r from 0, one or more of them, got {self.r}")
        if self.shadows < 1:
            raise SpecError(f"expected shadows from 1, got {self.shadows}: the paper has 10")

    @property
    def preparation(self) -> float:
        """The shadows, on halves of the records held out, and a model for each r but one."""
        shadows = self.shadows * self.recipe.held_out / 2 if self.public is None else 0.0
        return shadows + len(self.r) - 1

    def _networks(self, pool: Records, jobs: Sequence[Job]) -> Iterator[nn.Module]:
        for job in jobs:
            yield self.train_protected(pool, job).module

    def train_protected(self, pool: Records, job: Job) -> "ProtectedModel":
        """One protected network, and how it was trained in the end.

        Raises:
            DataError: shadows classify too few records wrongly.
            TargetError: the recipe makes no network, or one that could not be trained, or that does
                not end in a linear layer.
        """
        return self.train_best(self.train_discriminator(pool, job.rows, job.seed), pool, job)

    def train_best(self, found: Discriminator, pool: Records, job: Job) -> "ProtectedModel":
        """The best by r against this discriminator, and how it was trained.

        Raises:
            TargetError: see `train_protected`.
        """
        tried = self.train_each(found, pool, job)
        if len(tried) == 1:
            return tried[0]
        data = PoolArrays.prepare(pool, tried[0].module).tensors(self.device)
        parts = self.recipe.split_rows(job.rows, job.seed)
        merits = [merit("aop", one.module, data, *parts) for one in tried]
        return tried[int(np.argmax(np.nan_to_num(merits, nan=-1.0)))]

    def train_each(self, found: Discriminator, pool: Records, job: Job) -> "list[ProtectedModel]":
        """The model with each r; a dense network is trained with all of them at once.

        Raises:
            TargetError: see `train_protected`.
        """
        recipes = [self.against(found, r) for r in self.r]
        network = build_network(self.recipe, job)
        data = PoolArrays.prepare(pool, network).tensors(self.device)
        if len(self.r) > 1 and dense_layers(network, data):
            losses = [DiscriminatorAdversary(found, r, self.samples) for r in self.r]
            with torch_threads(self.workers or 1):
                modules = train_grid(self.recipe, losses, data, job)
        else:
            modules = [self.train_one(recipe, pool, job) for recipe in recipes]
        return [ProtectedModel(*one) for one in zip(modules, recipes, strict=True)]

    def train_discriminator(self, pool: Records, rows: Rows, seed: int) -> Discriminator:
        """The frozen discriminator of one model.

        Raises:
            DataError: shadows classify too few records wrongly.
        """
        held_out = self.recipe.split_rows(rows, seed)[1]
        public = pool.take(held_out) if self.public is None else self.public
        drawn = stream(seed, "halves of the public records")
        half = len(public) // 2
        halves = np.stack([drawn.permutation(len(public)) < half for _ in range(self.shadows)])
        seeds = stream(seed, "shadows").integers(2**31, size=self.shadows).tolist()
        patient = self.recipe.patience is not None
        plain = replace(self.recipe, select="accuracy" if patient else None, loss=None)
        shadows = list(self.fleet(plain).networks(public, halves, seeds))
        for member, shadow_seed in zip(halves, seeds, strict=True):
            member[plain.split_rows(np.flatnonzero(member), shadow_seed)[1]] = False
        found = discriminators.collect_evidence(shadows, halves, public, self.samples)
        make = (
            discriminators.train_discriminator
            if self.discriminator == "trained"
            else discriminators.random_discriminator
        )
        return make(found, seed)

    def against(self, discriminator: Discriminator, r: float) -> Recipe:
        """How a model is trained against this discriminator."""
        return replace(self.recipe, loss=DiscriminatorAdversary(discriminator, r, self.samples))


class ProtectedModel(NamedTuple):
    """A model that was trained against a discriminator."""

    module: nn.Module
    recipe: Recipe
    """The recipe of this model, with the discriminator and the r that was chosen in its loss."""
