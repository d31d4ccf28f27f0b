"""A network's linear layers, and what they see of records."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from divulge.core import Records
from divulge.errors import NotApplicable
from divulge.targets.torch import evaluation_mode

if TYPE_CHECKING:
    import torch

_AT_ONCE = 4096
"""Records that are asked about at a time."""


def linear_layer(module: "torch.nn.Module", wanted: str | None = None) -> str:
    """The name of a linear layer.

    An update can name no more records than the layer has outputs, and none where their inputs fill
    the whole space. So without a name it is the layer with the most outputs, counted up to half its
    inputs; of several the first, whose inputs no local step changes.

    Args:
        module: the network.
        wanted: the name; None chooses.

    Raises:
        NotApplicable: there is no linear layer, or none of this name.
    """
    import torch

    layers: dict[str, int] = {
        name: min(part.out_features, part.in_features // 2)
        for name, part in module.named_modules()
        if isinstance(part, torch.nn.Linear)
    }
    if wanted is None and layers:
        return max(layers, key=lambda name: layers[name])
    if wanted is None or wanted not in layers:
        raise NotApplicable(
            f"expected a linear layer{'' if wanted is None else f' called {wanted!r}'}, got "
            f"{', '.join(layers) or 'none in the network'}: only their updates are sums of inputs"
        )
    return wanted


def weight_name(layer: str) -> str:
    """The name of a layer's weights among those of its network, which may be that layer alone.

    Examples:
        >>> weight_name("0"), weight_name("")
        ('0.weight', 'weight')
    """
    return f"{layer}.weight" if layer else "weight"


def layer_inputs(
    module: "torch.nn.Module", name: str, records: Records
) -> Float[np.ndarray, "records *places features"]:
    """What a linear layer gets to see of each record, in evaluation mode.

    Args:
        module: the network.
        name: of the layer.
        records: the records.
    """
    import torch

    batches: list[np.ndarray] = []

    def keep(_: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        batches.append(given[0].detach().double().cpu().numpy())

    like = next(module.parameters()).dtype
    hook = dict(module.named_modules())[name].register_forward_pre_hook(keep)
    try:
        with evaluation_mode(module), torch.no_grad():
            for start in range(0, len(records), _AT_ONCE):
                x = torch.tensor(records.x[start : start + _AT_ONCE])
                module(x.to(like) if x.is_floating_point() else x)
    finally:
        hook.remove()
    return np.concatenate(batches)
