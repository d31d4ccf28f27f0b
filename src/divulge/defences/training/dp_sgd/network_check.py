"""Check before the training that a network treats each record by itself, and keeps none.

The records of this trial are drawn here; none is from the data. What is decided by a record of the
data would tell something about it, and one odd record could stop a training or change its way.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from divulge.errors import SpecError
from divulge.training.engine.loop import temporary_seed

_RECORDS = 4
"""Records of the trial."""

_SCALES = (1.0, 1.0, 0.3)
"""Scales of the random weights of the trial: a part of the network that starts as zero is seen."""


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
    for _ in trial_weights(network):
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


def trial_weights(network: nn.Module) -> Iterator[None]:
    """The weights as they are, then random ones; those that were there come back at the end."""
    trained = [p for p in network.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in trained]
    draws = torch.Generator().manual_seed(0)
    try:
        yield
        for scale in _SCALES:
            for p in trained:
                inputs = max(1, p[0].numel()) if p.dim() > 1 else 1
                # as PyTorch's defaults scale: larger weights saturate, and hide what mixes records
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


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether all numbers are the same, what is not a number counting as itself."""
    same = first == second
    if first.is_floating_point():
        same |= first.isnan() & second.isnan()
    return bool(same.all())
