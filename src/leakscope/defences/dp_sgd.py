"""DP-SGD: training that promises, with a number, how little one record changes."""

import math
import pickle
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Bool, Int64, Shaped
from torch import nn

from leakscope.core import Guarantee, Records, Target
from leakscope.defences.accounting import epsilon_of, noise_for
from leakscope.defences.per_record import check_network
from leakscope.errors import (
    DataError,
    SpecError,
    did_you_mean,
)
from leakscope.randomness import stream
from leakscope.targets.asking import guarded
from leakscope.targets.torch import TorchTarget
from leakscope.training.loop import seeded, threads
from leakscope.training.network import restore, state
from leakscope.training.packing import packed
from leakscope.training.pool import in_precision
from leakscope.training.recipe import Recipe, Rows

Clipping = Literal["per-record", "ghost"]


_REMEDY = (
    "make one network by hand, wrap it in opacus.GradSampleModule, and put a few records to it"
)


@dataclass(frozen=True, slots=True)
class DPSGD:
    """Differentially private SGD (Abadi et al. 2016, algorithm 1) by Opacus, on the CPU.

    Every record enters every batch by a coin of its own with probability batch_size / n (Poisson
    sampling, which the accountant assumes), so batches differ in size and may be empty. Each
    record's gradient is cut down to the norm ``max_grad_norm``; their sum gets Gaussian noise of
    standard deviation ``noise_multiplier * max_grad_norm``, and is divided by the *expected* batch
    size. What the recipe's optimiser makes of that (momentum, Adam, weight decay) costs no privacy.

    The guarantee is for *adding or removing one record*; exchanging one for another is worth 2 ε.
    It covers one trained model, not the choice of settings by trying many on the same records. The
    noise comes from PyTorch's pseudo-random generator and can be reproduced from the seed:
    right for an audit, but not cryptographically random, as a published model should have it.

    Args:
        recipe: network, optimiser, learning rate, schedule, epochs (how often each record is
            seen, on average) and batch size (on average).
        delta: δ of the guarantee; well below one over the number of records.
        noise_multiplier: how much noise; or
        epsilon: how much ε may be spent, from which the noise follows for each number of records.
        max_grad_norm: the norm that a record's gradient is clipped to.
        clipping: ``ghost`` takes the norms of the records' gradients alone where Opacus can, and a
            second backward pass; ``per-record`` keeps every gradient. The results are the same, but
            the second way costs far more memory and time; layers that share weights need it.
        jobs: processes; -1 is one a core.

    References:
        Abadi et al. (2016), Deep learning with differential privacy; Li, Tramèr, Liang and
        Hashimoto (2022), Large language models can be strong differentially private learners.

    Raises:
        SpecError: a setting makes no sense, or not exactly one of noise and ε is given.
    """

    recipe: Recipe
    delta: float
    noise_multiplier: float | None = None
    epsilon: float | None = None
    max_grad_norm: float = 1.0
    clipping: Clipping = "ghost"
    jobs: int = -1

    def __post_init__(self) -> None:
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
        if self.clipping not in get_args(Clipping):
            hint = did_you_mean(self.clipping, get_args(Clipping))
            raise SpecError(f"expected a known way of clipping, got {self.clipping!r}: {hint}")
        if self.jobs == 0 or self.jobs < -1:
            raise SpecError(f"expected jobs from 1, or -1 for one a core, got {self.jobs}")

    def guarantee(self, n_records: int) -> Guarantee | None:
        """What a model trained on so many records promises; None where that is no finite ε.

        Neighbours differ by one record added or removed. The ε is that of the privacy-loss
        distribution (PLD) of dp-accounting, see `leakscope.defences.accounting.epsilon_of`.

        Raises:
            SpecError: there are no records, or no noise keeps the ε asked for.
            MissingExtra: dp-accounting is not installed.
        """
        plan = self._plan(n_records)
        spent = self.epsilon
        if spent is None:
            spent = epsilon_of(plan.noise, plan.rate, plan.steps, self.delta)
        if not math.isfinite(spent):
            return None
        return Guarantee(
            spent,
            self.delta,
            f"DP-SGD, {n_records} records, noise multiplier {plan.noise:.4g}, {plan.steps} Poisson "
            f"batches at rate {plan.rate:.4g}, add or remove one record (PLD)",
        )

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """One private network a row of ``subsets``, in order, as soon as it is there.

        With ``epsilon``, the noise is calibrated for each subset's own number of records.

        Raises:
            SpecError: the network cannot be trained privately, or no noise keeps the ε.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
            MissingExtra: Opacus or dp-accounting is not installed.
        """
        from joblib import Parallel, delayed

        if not subsets.any(axis=1).all():
            raise DataError("expected records in every subset, got an empty one: enlarge the pool")
        if not len(seeds):
            return
        with guarded("a private model to train", _REMEDY):
            network = _fresh(self.recipe, seeds[0])
            x, y = in_precision(pool, network)
            check_network(network, torch.tensor(x[:8]))
            here = packed(self, self.recipe.network)
            tasks = (
                delayed(_train_here)(here, x, y, np.flatnonzero(subset), int(seed))
                for subset, seed in zip(subsets, seeds, strict=True)
            )
            jobs = min(self.jobs, len(seeds)) if self.jobs > 0 else self.jobs
            trained = Parallel(n_jobs=jobs, return_as="generator", batch_size=1)(tasks)
            for seed, arrays in zip(seeds, trained, strict=True):
                tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
                yield TorchTarget(restore(_fresh(self.recipe, seed), tensors), "logits")

    def _plan(self, records: int) -> "_Plan":
        if records < 1:
            raise SpecError(f"expected at least one record to train on, got {records}")
        size = min(self.recipe.batch_size, records)
        steps = -(-self.recipe.epochs * records // size)
        noise = self.noise_multiplier
        if noise is None:
            assert self.epsilon is not None
            noise = noise_for(self.epsilon, size / records, steps, self.delta)
        return _Plan(size, size / records, steps, noise)


class _Plan(NamedTuple):
    """What the settings mean for a number of records."""

    size: int
    """Of a batch, on average."""
    rate: float
    steps: int
    noise: float
    """In multiples of the clipping norm."""


class _Step:
    """Opacus' module, optimiser and loss around one network, as one function of a batch."""

    def __init__(self, how: DPSGD, plan: _Plan, module: nn.Module, noise: torch.Generator) -> None:
        from opacus import grad_sample, optimizers
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        inner = how.recipe.over([p for p in module.parameters() if p.requires_grad])
        settings = {
            "noise_multiplier": plan.noise,
            "max_grad_norm": how.max_grad_norm,
            "expected_batch_size": plan.size,  # what came by chance would be another sensitivity
            "generator": noise,
        }
        self._loss = nn.CrossEntropyLoss()
        if how.clipping == "ghost":
            self._module = grad_sample.GradSampleModuleFastGradientClipping(
                module, max_grad_norm=how.max_grad_norm
            )
            self._optimiser = optimizers.DPOptimizerFastGradientClipping(inner, **settings)
            self._loss = DPLossFastGradientClipping(self._module, self._optimiser, self._loss)
        else:
            self._module = grad_sample.GradSampleModule(module)
            self._optimiser = optimizers.DPOptimizer(inner, **settings)

    def __call__(self, rate: float, x: torch.Tensor, y: torch.Tensor) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad()
        if len(x):
            self._loss(self._module(x), y).backward()
        else:  # nobody's gradient, but the noise of every step
            for p in self._optimiser.params:
                p.grad_sample, p.grad = p.new_zeros((0, *p.shape)), torch.zeros_like(p)
        self._optimiser.step()


def _train(how: DPSGD, x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
    """One model on these records, from scratch. The caller's random numbers are left alone."""
    plan = how._plan(len(x))
    coins, noise = (_generator(seed, name) for name in ("poisson batches", "noise"))
    with seeded(seed, torch.device("cpu")), warnings.catch_warnings():
        # the first layer's input needs no gradient; its parameters get theirs all the same
        warnings.filterwarnings("ignore", "Full backward hook is firing", UserWarning)
        module = how.recipe.network().train()
        step = _Step(how, plan, module, noise)
        for k in range(plan.steps):
            # in double precision, as the accountant's rate is
            batch = torch.rand(len(x), generator=coins, dtype=torch.float64) < plan.rate
            step(how.recipe.rate(k / plan.steps), x[batch], y[batch])
    return module.eval()


def _train_here(
    here: bytes,
    x: Shaped[np.ndarray, "records *features"],
    y: Int64[np.ndarray, " records"],
    rows: Rows,
    seed: int,
) -> dict[str, np.ndarray]:
    """One model, in a process of its own: what training made of its state."""
    with threads(1):  # the same bits whatever the number of cores
        how: DPSGD = pickle.loads(here)  # noqa: S301 (what this program has just packed)
        module = _train(how, torch.from_numpy(x[rows]), torch.from_numpy(y[rows]), seed)
    return {name: tensor.contiguous().numpy() for name, tensor in state(module).items()}


def _fresh(recipe: Recipe, seed: int) -> nn.Module:
    with seeded(seed, torch.device("cpu")):
        return recipe.network()


def _generator(seed: int, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(int(stream(seed, name).integers(2**63)))
