"""Train one network by DP-SGD with Opacus: Poisson batches, clipped gradients and noise.

Only networks that treat each record by itself can be trained; `layer_norm` converts others.
"""

import copy
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from divulge._util.arguments import check_arguments
from divulge._util.packing import pickle_settings
from divulge._util.processes import parallel_calls
from divulge._util.random import stream
from divulge.core import NoiseKind, Records
from divulge.defences.noise import SecureNoise
from divulge.defences.training.dp_sgd.clipping import set_clipped_sum
from divulge.defences.training.dp_sgd.clipping_way import ClippingWay
from divulge.defences.training.dp_sgd.network_trials import translate_training_errors
from divulge.training.engine.loop import (
    Job,
    build_network,
    build_network_unseeded,
    temporary_seed,
    torch_threads,
)
from divulge.training.engine.networks import pool_before_relu
from divulge.training.engine.processes import keep_freed_memory, share_on_disk
from divulge.training.engine.selection import BestEpoch
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolArrays, is_cpu, to_channels_last
from divulge.training.weights import as_arrays, as_tensors, restore, state

Watch = Callable[[nn.Module, Any], None]
"""Gets the network and Opacus' optimiser before the first step, to see all steps."""


class DPSGDPlan(NamedTuple):
    """The batch size, steps and noise that the settings give for a number of records."""

    size: int
    """The mean number of records in a batch."""
    rate: float
    """The probability of each record to enter a batch."""
    steps: int
    """How many batches a model is trained with."""
    noise: float
    """The standard deviation of the noise, in multiples of the clipping norm."""
    max_grad_norm: float
    source: NoiseKind
    """Where the noise and the coins of the batches come from."""


class _DPSGDStep:
    """Opacus' optimiser around one network, as one function of a batch.

    Gradients are clipped and added up here; Opacus adds noise to their sum and takes the step.
    """

    def __init__(
        self, recipe: Recipe, plan: DPSGDPlan, module: nn.Module, seed: int, way: ClippingWay
    ) -> None:
        device = next(module.parameters()).device
        from opacus.optimizers import DPOptimizerFastGradientClipping

        self._gradients = way.gradients(module)
        self.optimiser = DPOptimizerFastGradientClipping(
            recipe.make_optimiser([p for p in module.parameters() if p.requires_grad]),
            noise_multiplier=plan.noise,
            max_grad_norm=plan.max_grad_norm,
            expected_batch_size=plan.size,  # what came by chance would be another sensitivity
            generator=_generator(seed, "noise", device) if plan.source == "seeded" else None,
        )
        if plan.source == "secure":
            self.optimiser.add_noise = partial(_add_secure_noise, self.optimiser, SecureNoise())
        self.optimiser.attach_step_hook(_match_memory_format)

    def __call__(self, rate: float, x: torch.Tensor, y: torch.Tensor) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        if len(x):
            # algorithm 1: clip each gradient, add up, add noise, divide by the expected batch size
            set_clipped_sum(self._gradients, x, y, self.optimiser.max_grad_norm)
        else:  # nobody's gradient, but the noise of every step
            for p in self.optimiser.params:
                p.grad = torch.zeros_like(p)
        self.optimiser.records_in_batch = len(x)
        self.optimiser.step()


def train_privately(
    recipe: Recipe,
    plan: DPSGDPlan,
    way: ClippingWay,
    data: PoolArrays,
    job: Job,
    watch: Watch | None = None,
    device: str = "cpu",
) -> nn.Module:
    """One model, in evaluation mode. The random numbers of the caller are left alone."""
    fit, held_out = recipe.split_rows(job.rows, job.seed)
    tensors, rows = data.tensors(device), torch.from_numpy(fit)
    draw_batch = _batches(plan, len(rows), job.seed)
    with temporary_seed(job.seed, tensors.x.device), ExitStack() as stack:
        module = build_network_unseeded(recipe, job).to(tensors.x.device).train()
        if data.channels_last:
            to_channels_last(module)
        stack.enter_context(pool_before_relu(module))
        step = _DPSGDStep(recipe, plan, module, job.seed, way)
        if watch is not None:
            watch(module, step.optimiser)
        best = BestEpoch(recipe, tensors, fit, held_out) if recipe.selects else None
        for k in range(plan.steps):
            step(
                recipe.rate(k / plan.steps), *tensors.batch(rows[draw_batch()].to(tensors.x.device))
            )
            if best and _epoch_ends(k, plan) and not best.should_continue(module):
                break
            module.train()
    return restore(module, best.state) if best else module.eval()


def _batches(plan: DPSGDPlan, records: int, seed: int) -> Callable[[], torch.Tensor]:
    """Draws batch after batch: True for each record whose coin puts it in."""
    if plan.source == "secure":  # who knows the batches is promised less: they are secret too
        secure = SecureNoise()
        return lambda: torch.from_numpy(secure.coins(records, plan.rate))
    coins = _generator(seed, "poisson batches")
    # in double precision, as the accountant's rate is
    return lambda: torch.rand(records, generator=coins, dtype=torch.float64) < plan.rate


def _add_secure_noise(optimiser: Any, noise: SecureNoise) -> None:
    """Make each gradient from the clipped sum, in place of the noise of Opacus."""
    params, scale = optimiser.params, optimiser.noise_multiplier * optimiser.max_grad_norm
    sums = torch.cat([p.summed_grad.flatten() for p in params]).cpu().double().numpy()
    noisy = torch.from_numpy(noise.add_normal(sums, scale)).to(params[0].device)
    for p, grad in zip(params, torch.split(noisy, [p.numel() for p in params]), strict=True):
        # noise is drawn in double precision on a grid, and rounded to the weights' type last
        p.grad = grad.to(p.dtype).view_as(p)


def _match_memory_format(optimiser: Any) -> None:
    """Lay gradients out as weights are: for images these have their channels last.

    PyTorch's fused optimisers go through both by their place in memory.
    """
    for p in optimiser.params:
        if p.grad.stride() != p.stride():
            p.grad = torch.empty_like(p).copy_(p.grad)


def _epoch_ends(step: int, plan: DPSGDPlan) -> bool:
    """Whether as many records as there are, on average, were seen since the last time."""
    return int((step + 1) * plan.rate) > int(step * plan.rate) or step + 1 == plan.steps


def train_in_workers(
    recipe: Recipe,
    plans: Iterable[DPSGDPlan],
    way: ClippingWay,
    pool: Records,
    jobs: Sequence[Job],
    start: Mapping[str, torch.Tensor] | None,
    processes: int,
    device: str = "cpu",
) -> Iterator[nn.Module]:
    """Yield one model a job, in order, trained in processes.

    Args:
        recipe: how each is trained.
        plans: the plan of each job.
        way: how gradients are clipped.
        pool: the records.
        jobs: rows and seed of each model.
        start: the state that every model starts from; None for first weights of its own.
        processes: how many; -1 starts one per core. An accelerator gets one model at a time.
        device: where models are trained, as PyTorch names it.
    """
    from joblib import delayed

    with translate_training_errors():
        data = PoolArrays.prepare(pool, build_network(recipe, jobs[0]))
        sent = pickle_settings(recipe, recipe.network)
        workers = min(processes, len(jobs)) if processes > 0 else processes
        workers = workers if is_cpu(device) else 1
        shared = data if workers == 1 else share_on_disk(pool, data)
        given = None if start is None else as_arrays(start)
        tasks = (
            delayed(_train_in_worker)(
                sent, plan, way, shared, job._replace(start=None), given, device
            )
            for job, plan in zip(jobs, plans, strict=True)
        )
        states = parallel_calls(tasks, workers, batch_size=1, max_nbytes=None)
        for job, trained in zip(jobs, states, strict=True):
            yield restore(build_network(recipe, job).to(device), as_tensors(trained))


def _train_in_worker(
    sent: bytes,
    plan: DPSGDPlan,
    way: ClippingWay,
    data: PoolArrays,
    job: Job,
    start: dict[str, np.ndarray] | None,
    device: str,
) -> dict[str, np.ndarray]:
    """One model, in a process of its own: what training made of its state."""
    recipe: Recipe = pickle.loads(sent)  # noqa: S301 (what this program has just packed)
    keep_freed_memory()
    with torch_threads(1):  # the same bits whatever the number of cores
        started = job if start is None else job._replace(start=as_tensors(start))
        network = train_privately(recipe, plan, way, data, started, device=device)
        return as_arrays(state(network))


def _generator(seed: int, name: str, device: torch.device | str = "cpu") -> torch.Generator:
    return torch.Generator(device).manual_seed(int(stream(seed, name).integers(2**63)))


@check_arguments
def layer_norm(module: nn.Module) -> nn.Module:
    """A copy of the network with layer normalisation in place of batch normalisation.

    Each batch normalisation of C channels becomes ``GroupNorm(1, C)``: layer normalisation over the
    channels and positions of one record, with the same ε and, for each channel, the same scale and
    shift. The running statistics are dropped. The networks are not the same function: convert
    before training, not after.

    Batch normalisation makes a record's answer depend on the others of its batch, so no single
    record's gradient can be bounded, and its running statistics are published without noise.

    References:
        Ba, Kiros and Hinton (2016), Layer normalization, eqs. 3-4; Wu and He (2018), Group
        normalization, section 3.1: layer normalisation is group normalisation with one group.

    Examples:
        >>> norm = layer_norm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))[1]
        >>> type(norm).__name__, norm.num_groups
        ('GroupNorm', 1)
    """
    return _replace_batch_norms(copy.deepcopy(module))


def _replace_batch_norms(module: nn.Module) -> nn.Module:
    if isinstance(module, _BatchNorm):
        return _equivalent_group_norm(module)
    for name, child in module.named_children():
        setattr(module, name, _replace_batch_norms(child))
    return module


def _equivalent_group_norm(norm: _BatchNorm) -> nn.GroupNorm:
    new = nn.GroupNorm(1, norm.num_features, norm.eps, norm.affine)
    if norm.affine:
        new.weight, new.bias = norm.weight, norm.bias
    return new.train(norm.training)
