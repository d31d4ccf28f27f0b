"""Train by DP-SGD, and state the (ε, δ) guarantee of each model."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool
from torch import nn

from divulge._util.arguments import check_arguments
from divulge.core import Guarantee, NoiseKind, Range, Records, SearchSpace, Target
from divulge.defences.training.dp_sgd.accounting import calibrate_noise, dp_sgd_epsilon
from divulge.defences.training.dp_sgd.clipping import Clipping
from divulge.defences.training.dp_sgd.loop import (
    DPSGDPlan,
    Watch,
    train_in_workers,
    train_privately,
)
from divulge.defences.training.dp_sgd.network_trials import (
    NetworkTrials,
    translate_training_errors,
)
from divulge.errors import SpecError
from divulge.targets.torch import TorchTarget
from divulge.training.engine.loop import Job, build_network, make_jobs, torch_threads
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolArrays, is_cpu


@check_arguments
@dataclass(frozen=True, slots=True)
class DPSGD(NetworkTrials):
    """Differentially private SGD: clip every record's gradient, and add noise to the sum.

    Every record enters every batch by a coin of its own with probability batch size / n (Poisson
    sampling). Each record's gradient is clipped to the norm ``max_grad_norm``; the sum gets
    Gaussian noise of standard deviation ``noise_multiplier * max_grad_norm``, and is divided by the
    *expected* batch size.

    The guarantee is for adding or removing one record; exchanging one is worth 2 ε. The number of
    records counts as public. It covers one trained model, or a client's part in a federation, not
    the choice of settings by many trials on the same records. It does not hold against anyone who
    knows the seed of seeded noise, nor with a recipe that selects an epoch or stops early.

    Args:
        recipe: network, optimiser, learning rate, schedule, epochs (how often each record is seen,
            on average) and batch size (on average).
        delta: the δ of the guarantee; well below one over the number of records.
        noise_multiplier: the standard deviation of the noise over ``max_grad_norm``; give this or
            ``epsilon``.
        epsilon: the ε that may be spent, from which the noise follows for each number of records.
        max_grad_norm: the norm that a record's gradient is clipped to.
        clipping: ``ghost`` takes norms and the clipped sum from one pass; ``per-record`` keeps each
            record's gradient, with more memory and time, and is taken if a comparison before
            training shows that ``ghost`` is wrong for the network.
        rounds: with ``epsilon``: how many trainings on the same records it is spent on together,
            such as a federation's rounds.
        noise: ``seeded``, which can be repeated, for audits and experiments; ``secure``, by AES
            from the system's entropy, for a model or an update that leaves.
        jobs: processes that train; -1 starts one per core. They change nothing but the time.
        device: where models are trained, as PyTorch names it: ``cpu``, ``cuda``. Seeded noise comes
            from its own generator, so another device gives another model.

    References:
        Abadi et al. (2016), Deep learning with differential privacy, algorithm 1, by Opacus; Li,
        Tramèr, Liang and Hashimoto (2022), Large language models can be strong differentially
        private learners.

    Raises:
        SpecError: a setting makes no sense, or not exactly one of noise and ε is given.
    """

    recipe: Recipe
    delta: float
    noise_multiplier: float | None = None
    epsilon: float | None = None
    max_grad_norm: float = 1.0
    clipping: Clipping = "ghost"
    rounds: int = 1
    noise: NoiseKind = "seeded"
    jobs: int = field(default=-1, metadata={"identity": False})
    device: str = field(default="cpu", metadata={"identity": "if changed"})

    name: ClassVar[str] = "dp-sgd"
    paper: ClassVar[str] = "Abadi et al. 2016"
    search: ClassVar[SearchSpace] = {
        "epsilon": Range(1.0, 1000.0, log=True),
        "delta": (1e-5,),
        "max_grad_norm": Range(0.1, 10.0, log=True),
    }

    def __post_init__(self) -> None:
        if self.recipe.loss is not None:
            raise SpecError(
                f"expected a recipe with the cross-entropy, got {self.recipe.loss!r}: leave loss "
                "out, since one that mixes records of a batch would break the promise"
            )
        if self.recipe.stop_after is not None:
            raise SpecError(
                f"expected a recipe without stop_after, got {self.recipe.stop_after}: noise is "
                "for all epochs; set epochs instead"
            )
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise SpecError(
                "expected either noise_multiplier or epsilon, got "
                f"{'neither' if self.epsilon is None else 'both'}: one follows from the other"
            )
        if not 0 < self.delta < 1:
            raise SpecError(
                f"expected delta above 0 and below 1, got {self.delta}: take far less than one "
                "over the number of records"
            )
        for name in ("noise_multiplier", "epsilon", "max_grad_norm"):
            value = getattr(self, name)
            if value is not None and not 1e-6 <= value <= 1e6:
                raise SpecError(f"expected {name} from 1e-6 to 1e6, got {value}")
        if self.rounds < 1:
            raise SpecError(f"expected rounds from 1, got {self.rounds}: one is a single training")
        if self.jobs == 0 or self.jobs < -1:
            raise SpecError(f"expected jobs from 1, or -1 for one a core, got {self.jobs}")
        is_cpu(self.device)  # refuses what is no device

    def guarantee(self, n_records: int, rounds: int = 1) -> Guarantee | None:
        """What a model trained on so many records promises; None where that is no finite ε.

        Neighbours differ by one record added or removed. The ε is that of the privacy-loss
        distribution (PLD) of dp-accounting, see `accounting.dp_sgd_epsilon`.

        Args:
            n_records: how many records the model was trained on.
            rounds: how many trainings on them, one after another, are promised for together, each
                from a start that the ones before may have led to: the rounds of a federation that
                a client took part in. Their Poisson batches compose as those of one long training.

        Raises:
            SpecError: there are no records or rounds, or no noise keeps the ε asked for.
            MissingExtra: dp-accounting is not installed.
        """
        if rounds < 1:
            raise SpecError(f"expected one round or more, got {rounds}: count what was trained")
        if self.recipe.selects is not None:
            return None
        plan = self._plan(n_records)
        steps = rounds * plan.steps
        spent = self.epsilon
        if spent is None or rounds != self.rounds:
            # the ε asked for holds for `rounds` trainings; other numbers are accounted anew
            spent = dp_sgd_epsilon(plan.noise, plan.rate, steps, self.delta)
        if not math.isfinite(spent):
            return None
        return Guarantee(
            spent,
            self.delta,
            f"DP-SGD, {n_records} records, {self.noise} noise, noise multiplier {plan.noise:.4g}, "
            f"{steps} Poisson batches at rate {plan.rate:.4g}, "
            f"{self._clipping_words()}add or remove one record (PLD)",
            # steps on all records compose to one Gaussian mechanism; samples of them do not
            "gaussian" if plan.rate == 1 else "any",
        )

    def training_settings(self, n_records: int) -> dict[str, str]:
        """What a reader of a model card has to know of the training, by name.

        Raises:
            SpecError: there are no records, or no noise keeps the ε asked for.
        """
        plan, recipe = self._plan(n_records), self.recipe
        return {
            "noise": self.noise,
            "noise multiplier": f"{plan.noise:.6g}",
            "clipping": self._clipping_note() or self.clipping,
            "clipping norm": f"{plan.max_grad_norm:g}",
            "sampling rate": f"{plan.rate:.6g} (Poisson)",
            "steps": f"{plan.steps:,}",
            "batch size": f"{plan.size:,} on average",
            "epochs": f"{recipe.epochs}",
            "optimiser": recipe.optimiser,
            "learning rate": f"{recipe.lr:g}",
        }

    def check(self, pool: Records) -> str:
        """Try the network, and refuse one that cannot be trained privately on such records.

        No record is looked at but for its shape and type: what depends on one would tell of it.

        Returns:
            How gradients are clipped, and why, where it is not as ``clipping`` sets; else nothing.

        Raises:
            SpecError: a layer, or the network, lets the records of a batch depend on each other,
                or keeps what it gets.
            TargetError: the recipe makes no network, or one that does not take these records.
            MissingExtra: Opacus is not installed.
        """
        return self._clipping_way(pool).note

    def networks(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
        start: Mapping[str, torch.Tensor] | None = None,
    ) -> Iterator[nn.Module]:
        """One private network a row of ``subsets``, in order, as soon as it is there.

        With ``epsilon``, the noise is calibrated for each subset's own number of records.

        Args:
            pool: the records to draw from.
            subsets: True where a network is trained on a record, shape (models, records).
            seeds: the seed of each network's own randomness, one a network.
            start: a state dictionary from which every network starts, as the clients of a
                federated round do; each starts from first weights of its own unless given.

        Raises:
            SpecError: the network cannot be trained privately, or no noise keeps the ε.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
            MissingExtra: Opacus or dp-accounting is not installed.
        """
        jobs = make_jobs(subsets, seeds, start)
        if not jobs:
            return
        way = self._clipping_way(pool)
        plans = (self._plan(self._training_size(job)) for job in jobs)
        yield from train_in_workers(
            self.recipe, plans, way, pool, jobs, start, self.jobs, self.device
        )

    def train(self, records: Records, seed: int, watch: Watch | None = None) -> nn.Module:
        """One private network, trained in this process, in evaluation mode.

        Args:
            records: those to train on, all of them.
            seed: of all its randomness, as for `networks`.
            watch: a function that gets the network and Opacus' optimiser before the first step,
                such as ``CanaryRecorder.watch``. What it does is not covered by the guarantee.

        Raises:
            SpecError: the network cannot be trained privately, or no noise keeps the ε.
            DataError: there are no records.
            TargetError: the recipe makes no network, or one that could not be trained.
            MissingExtra: Opacus or dp-accounting is not installed.
        """
        (job,) = make_jobs(np.ones((1, len(records)), bool), [seed], None)
        way = self._clipping_way(records)
        with translate_training_errors(), torch_threads(1):
            data = PoolArrays.prepare(records, build_network(self.recipe, job))
            plan = self._plan(self._training_size(job))
            return train_privately(self.recipe, plan, way, data, job, watch, self.device)

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """`networks` as targets.

        Raises:
            SpecError: the network cannot be trained privately, or no noise keeps the ε.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
            MissingExtra: Opacus or dp-accounting is not installed.
        """
        for module in self.networks(pool, subsets, seeds):
            yield TorchTarget(module, "logits")

    def _clipping_words(self) -> str:
        note = self._clipping_note()
        return f"{note}, " if note else ""

    def _training_size(self, job: Job) -> int:
        """How many records a model is trained on; others are held out."""
        return len(self.recipe.split_rows(job.rows, job.seed)[0])

    def _plan(self, records: int) -> DPSGDPlan:
        if records < 1:
            raise SpecError(f"expected at least one record to train on, got {records}")
        size = min(self.recipe.batch_size, records)
        # rounded up: the last epoch is finished where batches do not divide it
        steps = -(-self.recipe.epochs * records // size)
        noise = self.noise_multiplier
        if noise is None:
            assert self.epsilon is not None
            noise = calibrate_noise(self.epsilon, size / records, self.rounds * steps, self.delta)
        return DPSGDPlan(size, size / records, steps, noise, self.max_grad_norm, self.noise)
