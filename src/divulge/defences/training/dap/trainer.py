"""Train by DAP, discriminative adversarial privacy: the model learns to mislead an attacker.

How the paper's equations are read here. C(x) are the model's probabilities, and D(C(x), y) is the
chance that D gives to "was trained on", by probabilities, label y and loss.

* Eq. 2, min over C and max over D of E[log C(x)] + β E[log(1 - D(C(x), y))], cannot be meant with
  these signs: C would make its own likelihood small. Read as: every step goes down
  E[-log C(x)_y] + β E[-log(1 - D(C(x), y))]. The batch is of members, so the second term pulls D's
  answer about them towards "was not"; D is frozen, so nobody maximises. The released code also
  pulls records of the validation set towards "was".
* The expectation of the first term is over the batch. That of the second is over the records of the
  batch that the model classifies wrongly just then; there is none if it has none.
* The first term changes all weights, the second the last fully connected layer alone: what enters
  that layer is a constant to it. Both go into one step of the optimiser, where the text may be read
  as two.
* Eq. 3: before each epoch but the first, β is r times E[-log C(x)_y] / E[-log(1 - D)], both over
  the records held out as the model stands then, the second over those that it classifies wrongly
  (with none of them β stays). In the first epoch β is 1, whatever r is.
* Shadow models are trained for all epochs; or where the recipe is patient, until they get no more
  accurate on a part of their half that is held out.
"""

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
    """Train against a frozen discriminator that learned from shadow models how members look.

    Shadow models are trained on random halves of public records without a defence. A discriminator
    D learns from their answers to tell the records that they were trained on. Then each step of the
    model minimises

        mean of -log p_y over the batch + β (mean of -log(1 - D) over its misclassified records)

    where the second term changes the last linear layer alone. β is r times the first mean over the
    second, both on held-out records, and 1 in the first epoch. The model is trained once for each
    r, and the one with the highest AOP(2) on its held-out records is kept.

    Args:
        r: how much the discriminator counts; each is tried. The paper tries 41, from 0 to 1.
        shadows: how many models the discriminator learns from, K in the paper.
        samples: ``misclassified``, as the paper's text has it, or ``all``, as its released code.
        discriminator: ``trained``; or ``random``, one that learned nothing, as a control.
        public: the records of the shadow models. The held-out ones make the paper's DAP_v, the test
            set its DAP_t.

    References:
        Lomurno et al. (2023), Discriminative adversarial privacy: balancing accuracy and membership
        privacy in neural networks, section 3, eqs. 2 and 3. Departures: the signs of eq. 2 are
        taken for a misprint. The released code also takes all samples, pulls validation records the
        other way, limits β to 0.25 to 4 and selects by AOP(10).

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

    def train_best(self, discriminator: Discriminator, pool: Records, job: Job) -> "ProtectedModel":
        """The best by r against this discriminator, and how it was trained.

        Raises:
            TargetError: see `train_protected`.
        """
        tried = self.train_each(discriminator, pool, job)
        if len(tried) == 1:
            return tried[0]
        data = PoolArrays.prepare(pool, tried[0].module).tensors(self.device)
        parts = self.recipe.split_rows(job.rows, job.seed)
        merits = [merit("aop", model.module, data, *parts) for model in tried]
        # section 4: the best AOP(2) over r; the released code selects by AOP(10)
        return tried[int(np.argmax(np.nan_to_num(merits, nan=-1.0)))]

    def train_each(
        self, discriminator: Discriminator, pool: Records, job: Job
    ) -> "list[ProtectedModel]":
        """The model with each r; a dense network is trained with all of them at once.

        Raises:
            TargetError: see `train_protected`.
        """
        recipes = [self.against(discriminator, r) for r in self.r]
        network = build_network(self.recipe, job)
        data = PoolArrays.prepare(pool, network).tensors(self.device)
        if len(self.r) > 1 and dense_layers(network, data):
            losses = [DiscriminatorAdversary(discriminator, r, self.samples) for r in self.r]
            with torch_threads(self.workers or 1):
                modules = train_grid(self.recipe, losses, data, job)
        else:
            modules = [self.train_one(recipe, pool, job) for recipe in recipes]
        return [ProtectedModel(*pair) for pair in zip(modules, recipes, strict=True)]

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
            # what a patient shadow held out did not train it: it is no member there
            member[plain.split_rows(np.flatnonzero(member), shadow_seed)[1]] = False
        data = discriminators.collect_evidence(shadows, halves, public, self.samples)
        make = (
            discriminators.train_discriminator
            if self.discriminator == "trained"
            else discriminators.random_discriminator
        )
        return make(data, seed)

    def against(self, discriminator: Discriminator, r: float) -> Recipe:
        """How a model is trained against this discriminator."""
        return replace(self.recipe, loss=DiscriminatorAdversary(discriminator, r, self.samples))


class ProtectedModel(NamedTuple):
    """A model that was trained against a discriminator."""

    module: nn.Module
    recipe: Recipe
    """The recipe of this model, with the discriminator and the r that was chosen in its loss."""
