"""Try a network before it is trained: may it be trained privately, and how are gradients clipped?

The trial records are drawn here; none is from the data. What is decided by a record of the data
would tell something about it, and one odd record could stop a training or change its way.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm

from divulge.defences.training.dp_sgd.clipping import (
    BatchGradients,
    Clipping,
    RecordGradients,
    UnknownUseError,
    clip_factors,
)
from divulge.defences.training.dp_sgd.one_pass import OnePassGradients
from divulge.defences.training.dp_sgd.per_record import PerRecordGradients
from divulge.errors import SpecError
from divulge.training.engine.loop import temporary_seed

_RECORDS = 4
"""Records of the trial."""

_SCALES = (1.0, 1.0, 0.3)
"""Scales of the random weights of the trial: a part of the network that starts as zero is seen."""

_TOLERANCE = 1e-3
"""Share of a gradient's norm by which it may differ from PyTorch's, in single precision."""

_SPARE = 0.05
"""Share by which a norm may exceed PyTorch's: less than the clipping norm is let through then."""

Way = Literal["one pass", "vectorised", "one by one"]


class ClippingWay(NamedTuple):
    """How the gradients of one kind of network are computed and clipped."""

    way: Way
    reason: str = ""
    """Why it is not the way that was set; empty where it is."""

    @property
    def note(self) -> str:
        """What a user has to know; empty where gradients are clipped as was set."""
        if not self.reason:
            return ""
        what = "per-record clipping"
        if self.way == "one by one":
            what += ", one record at a time"
        return f"{what}, since {self.reason}"

    def gradients(self, module: nn.Module) -> RecordGradients:
        """The way, for a network of this kind."""
        if self.way == "one pass":
            return OnePassGradients(module)
        return PerRecordGradients(module, vectorised=self.way == "vectorised")


class TrialRecords(NamedTuple):
    """A few records that a network takes, and as many others."""

    x: torch.Tensor
    others: torch.Tensor


def draw_trial_records(
    network: nn.Module, shape: tuple[int, ...], dtype: torch.dtype
) -> TrialRecords:
    """Records of this shape and type that the network takes.

    Decimal numbers are normal. Others are 0 or 1, which all vocabularies have.

    Raises:
        Exception: whatever the network raises for all of them.
    """
    with temporary_seed(0, torch.device("cpu")):
        normal = [torch.randn(_RECORDS, *shape) for _ in range(2)]
        coins = normal[0] > 0
        kinds = [(coins, ~coins), (torch.zeros_like(coins), torch.zeros_like(coins))]
        if dtype.is_floating_point:
            kinds.insert(0, (normal[0], normal[1]))
        trials = [TrialRecords(*(some.to(dtype) for some in kind)) for kind in kinds]
        for trial in trials[:-1]:
            try:
                network(torch.cat(trial))
            except Exception:  # noqa: S112 (it may take other numbers only, such as codes)
                continue
            return trial
        network(trials[-1].x)
    return trials[-1]


def check_network(network: nn.Module, trial: TrialRecords) -> None:
    """Refuse a network in which a record's gradient is not its own, or that keeps what it saw.

    Args:
        network: the network, in training mode; its weights are as before at the end.
        trial: records that it takes.

    Raises:
        SpecError: a layer, or the network, lets the records of a batch depend on each other, or
            changes weights or buffers when it is called; or weights have less than single
            precision.
    """
    for name, p in network.named_parameters():
        # the factors, the clipped gradients and their sum would round by more than any margin
        if p.requires_grad and p.dtype not in (torch.float32, torch.float64):
            raise SpecError(
                f"expected trained weights in single or double precision, got {name!r} "
                f"({p.dtype}), whose rounding may let a record move the sum of gradients by more "
                "than the clipping norm: make the network with float()"
            )
    for name, layer in network.named_modules():
        if isinstance(layer, _BatchNorm):
            raise SpecError(
                f"expected no batch normalisation, got layer {name!r} ({type(layer).__name__}), "
                "through which each record depends on its batch: convert the network with "
                "divulge.defences.training.dp_sgd.loop.layer_norm, or with "
                "opacus.validators.ModuleValidator.fix"
            )
    for _ in _trial_weights(network):
        changed = _what_a_call_changes(network, trial)
        if changed:
            raise SpecError(
                "expected a network that keeps nothing of its calls, got one that changes "
                f"{changed} when it is called: no noise covers that, and even the number of calls "
                "tells how many records there were; leave out what does so, such as running "
                "statistics, renormed embeddings or spectral normalisation"
            )
        if _mixes_records(network, trial):
            raise SpecError(
                "expected a network that treats each record by itself, but what it says of one "
                "depends on the others of its batch: no noise bounds what such a network leaks"
            )


def choose_way(network: nn.Module, x: torch.Tensor, clipping: Clipping) -> ClippingWay:
    """The first way whose gradients, norms and clipped sum are those of PyTorch's autograd.

    Args:
        network: the network, in training mode; its weights are as before at the end.
        x: records that it takes.
        clipping: what was set; with ``ghost``, gradients come in one pass where that is right.
    """
    with temporary_seed(0, torch.device("cpu")):
        y = torch.arange(len(x)) % network(x).shape[1]
    ways: list[tuple[Way, Callable[[], RecordGradients]]] = [
        # the same draws for all records, as the comparison gives them to each by itself
        ("vectorised", lambda: PerRecordGradients(network, vectorised=True, same_draws=True))
    ]
    if clipping == "ghost":
        ways.insert(0, ("one pass", lambda: OnePassGradients(network)))
    reasons: list[str] = []
    for way, make in ways:
        reason = _obstacle(way, make, network, x, y)
        if reason is None:
            return ClippingWay(way, "; ".join(reasons))
        reasons.append(reason)
    return ClippingWay("one by one", "; ".join(reasons))


_WORDS: dict[Way, str] = {"one pass": "in one pass", "vectorised": "for many records at once"}


def _obstacle(
    way: Way,
    make: Callable[[], RecordGradients],
    network: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
) -> str | None:
    """Why this way is wrong for the network; None where it is right."""
    compared = 0
    try:
        compute = make()
        for _ in _trial_weights(network):
            truth = _autograd(network, compute, x, y)
            if not all(bool(t.isfinite().all()) for one in truth for t in one):
                continue  # these weights say nothing
            with temporary_seed(1, torch.device("cpu")):
                gradients = compute(x, y)
            wrong = _first_difference(gradients, truth)
            if wrong is not None:
                name = next(n for n, p in network.named_parameters() if p is compute.params[wrong])
                return f"weight {name!r} has another gradient in PyTorch's autograd"
            compared += 1
    except UnknownUseError as error:
        return str(error)
    except Exception as error:  # what PyTorch cannot do this way, it can in another
        line = str(error).strip().partition("\n")[0]
        return (
            f"its gradients cannot be computed {_WORDS[way]} ({type(error).__name__}: {line:.100})"
        )
    return None if compared else "the network's gradients at random weights are not finite"


def _autograd(
    network: nn.Module, compute: RecordGradients, x: torch.Tensor, y: torch.Tensor
) -> list[list[torch.Tensor]]:
    """PyTorch's own gradient of each record by each weight."""

    def differentiate(loss: torch.Tensor) -> list[torch.Tensor]:
        parts: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
            loss, compute.params, retain_graph=True, allow_unused=True
        )
        pairs = zip(parts, compute.params, strict=True)
        return [torch.zeros_like(p) if part is None else part for part, p in pairs]

    if not compute.alone:
        with temporary_seed(1, torch.device("cpu")):
            losses = cross_entropy(network(x), y, reduction="none")
        return [differentiate(loss) for loss in losses]
    truth = []
    for k in range(len(x)):
        with temporary_seed(1, torch.device("cpu")):
            truth.append(differentiate(cross_entropy(network(x[k : k + 1]), y[k : k + 1])))
    return truth


def _first_difference(gradients: BatchGradients, truth: list[list[torch.Tensor]]) -> int | None:
    """The number of the first weight whose gradient, norm or clipped sum is another."""
    norms = torch.stack([torch.stack([t.double().norm() for t in one]).norm() for one in truth])
    wholes = [(chosen, one) for chosen, one in zip(torch.eye(len(truth)), truth, strict=True)]
    cut = float(norms.median())
    factors = clip_factors(gradients, cut) if cut > 0 else torch.ones(len(truth))
    sums = [
        sum(factor * t for factor, t in zip(factors, parts, strict=True))
        for parts in zip(*truth, strict=True)
    ]
    for chosen, right in [*wholes, (factors, sums)]:
        ours = gradients.weigh(chosen.to(gradients.losses.dtype))
        whole = torch.stack([t.double().norm() for t in right]).norm()
        for number, (a, b) in enumerate(zip(ours, right, strict=True)):
            share = max(_TOLERANCE, 10 * torch.finfo(b.dtype).eps)
            margin = share * b.double().norm() + share / 100 * whole
            if not (a.double() - b.double()).norm() <= margin:
                return number
    low, high = (1 - _TOLERANCE) * norms, (1 + _SPARE) * norms + _TOLERANCE * norms.max()
    lengths = gradients.squares.sqrt()
    return None if bool(((lengths >= low) & (lengths <= high)).all()) else 0


def _trial_weights(network: nn.Module) -> Iterator[None]:
    """The weights as they are, then random ones; those that were there come back at the end."""
    trained = [p for p in network.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in trained]
    draws = torch.Generator().manual_seed(0)
    try:
        yield
        for scale in _SCALES:
            for p in trained:
                inputs = max(1, p[0].numel()) if p.dim() > 1 else 1
                drawn = torch.randn(p.shape, generator=draws) * (scale / inputs**0.5)
                p.data.copy_(drawn)
            yield
    finally:
        for p, old in zip(trained, before, strict=True):
            p.data.copy_(old)


def _what_a_call_changes(network: nn.Module, trial: TrialRecords) -> str | None:
    """A weight or buffer that a call changes, or what else depends on the records of a call."""
    before, probes = _state(network), []
    for record in torch.split(torch.cat(trial), 1):
        with temporary_seed(2, torch.device("cpu")):
            network(record)
            probes.append(network(trial.x).detach())
        for name, tensor in (*network.named_parameters(), *network.named_buffers()):
            if not _equal(before[name], tensor):
                return repr(name)
    if all(_equal(probes[0], other) for other in probes[1:]):
        return None
    return "what it answers later"


def _state(network: nn.Module) -> dict[str, torch.Tensor]:
    """Copies of all weights and buffers, those that are not saved too."""
    tensors = (*network.named_parameters(), *network.named_buffers())
    return {name: t.detach().clone() for name, t in tensors}


def _mixes_records(network: nn.Module, trial: TrialRecords) -> bool:
    """Whether other records change what the network says of the first."""
    x, others = trial
    answers = []
    for some in (x, torch.cat([x[:1], others[1:]])):
        with temporary_seed(3, torch.device("cpu")):  # dropout draws
            answers.append(network(some).detach()[0])
    return not _equal(*answers)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether all numbers are the same, what is not a number counting as itself."""
    same = one == other
    if one.is_floating_point():
        same |= one.isnan() & other.isnan()
    return bool(same.all())
