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
from torch import func, nn
from torch.nn.functional import cross_entropy

from divulge.canaries.audit import centre_by_class
from divulge.canaries.batches import check_batches
from divulge.canaries.make import make_canaries
from divulge.canaries.noise import check_noise
from divulge.canaries.recorder import CanaryRecorder
from divulge.canaries.trained import score_canaries
from divulge.core import Records
from divulge.data import canary_files as files
from divulge.data.canary_scores import read_scores
from divulge.data.sampling import StatedSampling
from divulge.defences.training.dp_sgd import loop
from divulge.defences.training.dp_sgd.accounting import dp_sgd_epsilon
from divulge.defences.training.dp_sgd.clipping import set_clipped_sum
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.training.recipe import Recipe

DELTA = 1e-5
CLASSES = 4
_USED = 100
_ORDINARY = 200
_LR = 0.2

Library = Literal["Opacus", "DPSGD", "plain PyTorch"]
Break = Callable[[Any], None]
"""A function that breaks an optimiser of Opacus."""

Draw = Callable[[int, list[list[torch.Tensor]], list[torch.Tensor]], list[torch.Tensor]]
"""From the number of a step, the noise of the steps before it and what would be fresh noise of unit
scale, one tensor a parameter: the noise of the step."""


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
    noise: "Draw | None" = None
    """Where noise is not drawn anew in each step: how it is drawn."""

    @property
    def libraries(self) -> tuple[Library, ...]:
        """In which it is planted; a plain loop is trained where its noise is at fault."""
        if (
            self.norm
        ):  # DPSGD gives a network each record by itself, which leaves nothing to average
            return ("Opacus",)
        both: tuple[Library, ...] = ("Opacus", "DPSGD")
        return both if self.noise is None else (*both, "plain PyTorch")


class Scores(NamedTuple):
    """What one training shows of its canaries."""

    white: np.ndarray
    black: np.ndarray
    inserted: np.ndarray
    accused: bool
    """Whether the recorder saw what is not as stated: batches, divisors, statistics, noise."""


def train(setting: Setting, seed: int, fault: Fault | None = None) -> Scores:
    """Make canaries, train with half of them, and score all; medians of classes are taken off."""
    fault = fault or Fault("none")
    setting = setting._replace(norm=fault.norm)
    records = _records(_ORDINARY, setting.canaries, seed)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = make_canaries(records, Path(scratch, "c"), setting.canaries, seed=seed).folder
        with np.load(folder / files.TRAIN) as arrays:
            pool = records.joined(Records(arrays["x"], arrays["y"]))
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
            if fault.noise and setting.library != "plain PyTorch":
                _draw_otherwise(fault.noise, optimiser)
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
        both_scores = [read_scores(path, made) for path in paths]
        white, black = (centre_by_class(scores.score, made.y) for scores in both_scores)
        inserted = np.load(folder / files.SEALED)["inserted"]
        batches = both_scores[0].batches
        assert batches is not None
        noise = both_scores[0].noise
        assert noise is not None
        faults = check_batches(batches).faults + check_noise(noise, both_scores[0].steps).faults
        accused = bool(faults or both_scores[0].statistics)
        return Scores(white, black, inserted, accused)


def _stated(setting: Setting, records: int) -> StatedSampling:
    """What the accountant is told, and the divisor that was chosen, where the optimiser says it."""
    steps = setting.epochs * setting.batches
    divisor = None if setting.library == "plain PyTorch" else _size(setting, records)
    return StatedSampling(records, 1 / setting.batches, steps, divisor)


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
    fits = {"Opacus": _fit_by_opacus, "DPSGD": _fit_by_dpsgd, "plain PyTorch": _fit_plainly}
    return fits[setting.library](
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
        broken.enter_context(mock.patch.object(loop, "set_clipped_sum", _set_sum_by_optimiser))

        def watch_both(model: nn.Module, optimiser: Any) -> None:
            watch(model, optimiser)
            model.optimiser_at_fault = optimiser

        return trainer.train(pool, seed, watch_both)


def _set_sum_by_optimiser(
    compute: Any, x: torch.Tensor, y: torch.Tensor, max_grad_norm: float
) -> None:
    """As DPSGD does, unless a fault has changed how the optimiser of Opacus clips."""
    optimiser: Any = compute.module.optimiser_at_fault
    if "clip_and_accumulate" not in vars(optimiser):
        set_clipped_sum(compute, x, y, max_grad_norm)
        return
    for p, gradients in zip(compute.params, compute.gradients(x, y)[1], strict=True):
        p.grad_sample = gradients
    optimiser._get_flat_grad_sample = lambda p: p.grad_sample  # it has none of its own
    optimiser.clip_and_accumulate()
    for p in compute.params:
        p.grad, p.summed_grad = p.summed_grad, None


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


def _fit_plainly(
    setting: Setting, fault: Fault, pool: Records, start: nn.Module, seed: int, watch: loop.Watch
) -> nn.Module:
    """A loop that clips and adds noise by itself, and states nothing of it."""
    torch.manual_seed(seed)
    model = _network(setting)
    model.load_state_dict(start.state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=_LR)
    watch(model, optimiser)
    x, y = torch.from_numpy(pool.x.copy()), torch.from_numpy(pool.y.copy())
    size, before = _size(setting, len(pool)), list[list[torch.Tensor]]()
    names = [name for name, _ in model.named_parameters()]

    def loss(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(func.functional_call(start, params, x[None]), y[None])

    for step in range(setting.epochs * setting.batches):
        rows = torch.rand(len(x)) < 1 / setting.batches
        params = {name: p.detach() for name, p in model.named_parameters()}
        model(x[rows])  # where the recorder counts the records
        own = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, x[rows], y[rows])
        norms = torch.stack([own[name].flatten(1).norm(dim=1) for name in names]).norm(dim=0)
        factor = (1 / (norms + 1e-6)).clamp(max=1.0)
        fresh = [torch.randn_like(p) for p in model.parameters()]
        before.append(fault.noise(step, before, fresh) if fault.noise else fresh)
        for name, p, noise in zip(names, model.parameters(), before[-1], strict=True):
            total = torch.einsum("i,i...", factor, own[name]) + setting.noise * noise
            p.grad = total / size
        optimiser.step()
    return model.eval()


def _draw_otherwise(draw: Draw, optimiser: Any) -> None:
    """Opacus' optimiser with other noise than it states."""
    before: list[list[torch.Tensor]] = []

    def add_noise() -> None:
        scale = optimiser.noise_multiplier * optimiser.max_grad_norm
        fresh = [torch.randn(p.shape, generator=optimiser.generator) for p in optimiser.params]
        before.append(draw(len(before), before, fresh))
        for p, noise in zip(optimiser.params, before[-1], strict=True):
            p.grad = p.summed_grad.view_as(p) + scale * noise

    optimiser.add_noise = add_noise


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
        norm = torch.stack([(total**2).sum() for total in sums]).sum().sqrt()
        most = optimiser.max_grad_norm * optimiser.expected_batch_size
        for p, total in zip(optimiser.params, sums, strict=True):
            p.summed_grad = total * (most / (norm + 1e-6)).clamp(max=1.0)

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


def _repeat(
    period: int, step: int, before: list[list[torch.Tensor]], fresh: list[torch.Tensor]
) -> list[torch.Tensor]:
    return fresh if step < period else before[step - period]


def _carry_over(
    share: float, step: int, before: list[list[torch.Tensor]], fresh: list[torch.Tensor]
) -> list[torch.Tensor]:
    rest = (1 - share**2) ** 0.5
    last = before[-1] if step else fresh
    return [share * old + rest * new for old, new in zip(last, fresh, strict=True)]


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
    Fault("noise drawn once, the same in every step", noise=partial(_repeat, 1)),
    Fault("two drawings of noise in turn", noise=partial(_repeat, 2)),
    Fault("noise of the same seed in every epoch", noise=partial(_repeat, 4)),
    Fault("noise correlated with the last step's by one half", noise=partial(_carry_over, 0.5)),
)
