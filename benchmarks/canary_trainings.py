"""Private trainings on SYNTHETIC records and canaries, kept as stated or with one planted fault."""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.audits.canaries.audit import centre_by_class
from divulge.audits.canaries.batches import check_batches
from divulge.audits.canaries.make import make_canaries
from divulge.audits.canaries.recorder import CanaryRecorder
from divulge.audits.canaries.trained import score_canaries
from divulge.core import Records
from divulge.data import canary_files as files
from divulge.data.canary_scores import read_scores
from divulge.data.sampling import StatedSampling
from divulge.defences.training.dp_sgd import loop
from divulge.defences.training.dp_sgd.accounting import dp_sgd_epsilon
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.training.recipe import Recipe

DELTA = 1e-5
CLASSES = 4
_USED = 100
_ORDINARY = 200
_LR = 0.2

Library = Literal["Opacus", "DPSGD"]
Break = Callable[[Any], None]
"""A function that breaks an optimiser of Opacus."""


class Setting(NamedTuple):
    """One kind of training."""

    library: Library
    hidden: int
    """Units of the hidden layer; 0 for a linear model."""
    canaries: int
    batches: int
    """Batches an epoch; 1 for full batches."""
    epochs: int
    noise: float
    """Noise multiplier."""
    norm: bool = False
    """Whether the hidden layer is normalised over each batch."""

    @property
    def stated(self) -> float:
        """The ε that the accountant gives."""
        steps = self.batches * self.epochs
        return dp_sgd_epsilon(self.noise, 1 / self.batches, steps, DELTA)


class Fault(NamedTuple):
    """What is done otherwise than stated."""

    name: str
    spoil: Break | None = None
    epochs: int = 1
    """How many times as many epochs are trained."""
    shuffled: bool = False
    paired: bool = False
    """Whether a second training with the same noise is the reference."""
    hidden: int = 0
    """Units of the hidden layer; 0 for a linear model."""
    canaries: int = 500
    norm: bool = False
    """Whether the hidden layer is normalised over each batch, and its statistics are kept."""
    rounded: bool = False
    """Whether the divisor follows from the number of records, and is rounded down."""


class Scores(NamedTuple):
    """What one training shows of its canaries."""

    white: np.ndarray
    black: np.ndarray
    inserted: np.ndarray
    accused: bool
    """Whether the recorder saw what is not as stated: batches, divisors, statistics."""


def train(setting: Setting, seed: int, fault: Fault | None = None) -> Scores:
    """Make canaries, train with half of them, and score all; medians of classes are taken off."""
    fault = fault or Fault("none")
    setting = setting._replace(norm=fault.norm)
    records = _records(_ORDINARY, setting.canaries, seed)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = make_canaries(records, Path(scratch, "c"), setting.canaries, seed=seed).folder
        with np.load(folder / files.TRAIN) as held:
            pool = records.joined(Records(held["x"], held["y"]))
        # batches of whole records, or one record more than that, so that there is a rest to round
        spare = (len(pool) - fault.rounded) % setting.batches
        pool = pool.take(np.arange(spare, len(pool)))
        torch.manual_seed(seed)
        start = _network(setting)
        recorder = CanaryRecorder(
            folder, start, Path(scratch, "white.npz"), sampling=_stated(setting, len(pool))
        )

        def watch(module: nn.Module, optimiser: Any) -> None:
            if fault.spoil:
                fault.spoil(optimiser)
            if fault.rounded:  # as Opacus' engine has it already
                optimiser.expected_batch_size = len(pool) // setting.batches
            recorder.watch(module, optimiser)

        model = _fit(setting, fault, pool, start, seed, watch)
        reference = start
        if fault.paired:
            others = _records(len(pool), setting.canaries, seed + 10**6)
            reference = _fit(setting, fault, others, start, seed, lambda *_: None)
        paths = [
            recorder.save(),
            score_canaries(
                folder, model, Path(scratch, "b.npz"), output="logits", reference=reference
            ),
        ]
        made = files.read_candidates(folder)
        found = [read_scores(path, made) for path in paths]
        white, black = (centre_by_class(one.score, made.y) for one in found)
        inserted = np.load(folder / files.SEALED)["inserted"]
        batches = found[0].batches
        assert batches is not None
        accused = bool(check_batches(batches).faults or found[0].statistics)
        return Scores(white, black, inserted, accused)


def _stated(setting: Setting, records: int) -> StatedSampling:
    """What the accountant is told, and the divisor that was chosen."""
    steps = setting.epochs * setting.batches
    return StatedSampling(records, 1 / setting.batches, steps, _size(setting, records))


def _size(setting: Setting, records: int) -> int:
    """The size of a batch, rounded up: else an epoch has a step more than is accounted for."""
    return -(-records // setting.batches)


def _records(count: int, canaries: int, seed: int) -> Records:
    """SYNTHETIC: four classes in the first hundred features; the others are 0."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=count)
    centres = np.random.default_rng(0).normal(size=(CLASSES, _USED))
    x = np.zeros((count, _USED + canaries + 20), np.float32)
    x[:, :_USED] = 0.3 * centres[y] + rng.normal(size=(count, _USED))
    return Records(x, y)


def _network(setting: Setting) -> nn.Module:
    features = _USED + setting.canaries + 20
    if not setting.hidden:
        return nn.Linear(features, CLASSES)
    layers = [nn.Linear(features, setting.hidden), nn.ReLU(), nn.Linear(setting.hidden, CLASSES)]
    if setting.norm:
        layers.insert(1, nn.BatchNorm1d(setting.hidden, affine=False))  # as Opacus lets it through
    return nn.Sequential(*layers)


def _fit(
    setting: Setting, fault: Fault, pool: Records, start: nn.Module, seed: int, watch: loop.Watch
) -> nn.Module:
    fit = _fit_by_opacus if setting.library == "Opacus" else _fit_by_dpsgd
    return fit(
        setting._replace(epochs=setting.epochs * fault.epochs), fault, pool, start, seed, watch
    )


def _fit_by_dpsgd(
    setting: Setting, fault: Fault, pool: Records, start: nn.Module, seed: int, watch: loop.Watch
) -> nn.Module:
    def network() -> nn.Module:
        made = _network(setting)
        made.load_state_dict(start.state_dict())
        return made

    size = _size(setting, len(pool))
    recipe = Recipe(network, lr=_LR, epochs=setting.epochs, batch_size=size)
    trainer = DPSGD(recipe, DELTA, noise_multiplier=setting.noise, clipping="per-record", jobs=1)
    with ExitStack() as broken:
        if fault.shuffled:
            broken.enter_context(_shuffled())
        if fault.norm:  # which the trainer refuses
            broken.enter_context(mock.patch.object(DPSGD, "check"))
        return trainer.train(pool, seed, watch)


def _fit_by_opacus(
    setting: Setting, fault: Fault, pool: Records, start: nn.Module, seed: int, watch: loop.Watch
) -> nn.Module:
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    model = _network(setting)
    model.load_state_dict(start.state_dict())
    x, y = torch.from_numpy(pool.x.copy()), torch.from_numpy(pool.y.copy())
    size = _size(setting, len(pool))
    batches = DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True)
    wrapped, optimiser, batches = PrivacyEngine(accountant="rdp").make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=_LR),
        data_loader=batches,
        noise_multiplier=setting.noise,
        max_grad_norm=1.0,
        poisson_sampling=not fault.shuffled,
        noise_generator=torch.Generator().manual_seed(seed),
    )
    if not fault.rounded:
        optimiser.expected_batch_size = size  # chosen, not from the number of records
    watch(wrapped, optimiser)
    for _ in range(setting.epochs):
        for records, labels in batches:
            optimiser.zero_grad()
            torch.autograd.backward(cross_entropy(wrapped(records), labels))
            optimiser.step()
    return model.eval()


@contextmanager
def _shuffled() -> Iterator[None]:
    """DPSGD with batches of one size, each record once an epoch."""
    usual = loop._batches

    def draw(plan: loop.DPSGDPlan, records: int, seed: int) -> Callable[[], torch.Tensor]:
        def endless() -> Iterator[torch.Tensor]:
            rng = np.random.default_rng(seed)
            while True:
                order = rng.permutation(records)
                for first in range(0, records - plan.size + 1, plan.size):
                    yield torch.from_numpy(order[first : first + plan.size].copy())

        steps = endless()
        return lambda: next(steps)

    loop._batches = draw
    try:
        yield
    finally:
        loop._batches = usual


def _silence(optimiser: Any) -> None:
    optimiser.noise_multiplier = 0.0


def _quarter(optimiser: Any) -> None:
    optimiser.noise_multiplier /= 4


def _clip_nothing(optimiser: Any) -> None:
    optimiser.noise_multiplier /= 1e6
    optimiser.max_grad_norm *= 1e6


def _clip_batches(optimiser: Any) -> None:
    """The mean of a batch is clipped, and not each record."""

    def clip() -> None:
        sums = [g.sum(dim=0) for g in optimiser.grad_samples]
        norm = torch.stack([(one**2).sum() for one in sums]).sum().sqrt()
        most = optimiser.max_grad_norm * optimiser.expected_batch_size
        for p, one in zip(optimiser.params, sums, strict=True):
            p.summed_grad = one * (most / (norm + 1e-6)).clamp(max=1.0)

    optimiser.clip_and_accumulate = clip


def _leave_out(first: int, last: int, optimiser: Any) -> None:
    """Some parameters are neither measured nor clipped."""

    def clip() -> None:
        grads = optimiser.grad_samples
        clipped = [at for at in range(len(grads)) if not first <= at < last]
        norms = torch.stack([grads[at].flatten(1).norm(dim=1) for at in clipped]).norm(dim=0)
        factor = (optimiser.max_grad_norm / (norms + 1e-6)).clamp(max=1.0)
        for at, (p, grad) in enumerate(zip(optimiser.params, grads, strict=True)):
            own = factor if at in clipped else torch.ones_like(factor)
            p.summed_grad = torch.einsum("i,i...", own, grad)

    optimiser.clip_and_accumulate = clip


FAULTS = (
    Fault("noise off", _silence),
    Fault("noise for a quarter of the sensitivity", _quarter),
    Fault("clipping off", _clip_nothing),
    Fault("clipping per batch", _clip_batches),
    Fault("noise of a repeated seed (paired with a second training)", paired=True),
    Fault("four times as many steps as accounted", epochs=4),
    Fault("first of two layers left out of clipping", partial(_leave_out, 0, 2), hidden=16),
    Fault("last of two layers left out of clipping", partial(_leave_out, 2, 4), hidden=16),
    Fault(
        "last of two layers left out of clipping, 256 hidden units, 200 canaries",
        partial(_leave_out, 2, 4),
        hidden=256,
        canaries=200,
    ),
    Fault("shuffling accounted as Poisson sampling", shuffled=True),
    Fault("statistics of batch normalisation", hidden=16, norm=True),
    Fault("divisor from the number of records, rounded down", rounded=True),
)
