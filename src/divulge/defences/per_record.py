"""Networks that treat each record by itself, as bounding its part in training demands."""

import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from divulge.errors import MissingExtra, SpecError


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
    return _converted(copy.deepcopy(module))


def check_network(network: nn.Module, x: torch.Tensor) -> None:
    """Refuse a network in which a record's gradient is not its own.

    Args:
        network: untrained.
        x: a few records. Where they are whole numbers, as words are, only layers are looked at.

    Raises:
        SpecError: a layer, or the network, lets the records of a batch depend on each other.
        MissingExtra: Opacus is not installed.
    """
    try:
        from opacus.validators import ModuleValidator
    except ImportError as error:
        raise MissingExtra("opacus", "dp") from error
    for name, layer in network.named_modules():
        if isinstance(layer, _BatchNorm):
            raise SpecError(
                f"expected no batch normalisation, got layer {name!r} ({type(layer).__name__}), "
                "through which each record depends on its batch: convert the network with "
                "divulge.defences.per_record.layer_norm, or with "
                "opacus.validators.ModuleValidator.fix"
            )
    errors = ModuleValidator.validate(network.train(), strict=False)
    if errors:
        raise SpecError(
            f"expected layers that Opacus can train, got: {errors[0]}: see "
            "opacus.validators.ModuleValidator.fix"
        )
    if x.is_floating_point() and _mixes(network, x):
        raise SpecError(
            "expected a network that treats each record by itself, but what it says of one depends "
            "on the others of its batch: no noise bounds what such a network gives away"
        )


def _mixes(network: nn.Module, x: torch.Tensor) -> bool:
    """Whether another record reaches the logits of the first."""
    x = x.clone().requires_grad_()
    with torch.random.fork_rng([]):  # dropout draws
        logits = network(x)[0]
    uneven = torch.linspace(1, 2, logits.numel(), dtype=logits.dtype)  # a softmax's sum is constant
    (reach,) = torch.autograd.grad((uneven * logits.flatten()).sum(), x)
    return bool(reach[1:].any())


def _converted(module: nn.Module) -> nn.Module:
    if isinstance(module, _BatchNorm):
        return _alike(module)
    for name, child in module.named_children():
        setattr(module, name, _converted(child))
    return module


def _alike(norm: _BatchNorm) -> nn.GroupNorm:
    new = nn.GroupNorm(1, norm.num_features, norm.eps, norm.affine)
    if norm.affine:
        new.weight, new.bias = norm.weight, norm.bias
    return new.train(norm.training)
