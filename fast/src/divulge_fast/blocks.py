"""Recognise the layers that native code can train, each with what follows it."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import nn

from divulge.training.engine.dense import flattens_all_features

NONE, RELU, TANH, SIGMOID = range(4)
_ACTIVATIONS = {nn.ReLU: RELU, nn.Tanh: TANH, nn.Sigmoid: SIGMOID}


TRAINED = (nn.Conv2d, nn.Linear)


class Block(NamedTuple):
    """A convolution or a linear layer, with what follows it."""

    layer: nn.Conv2d | nn.Linear
    activation: int = NONE
    pool: int = 1


def flattens(layer: nn.Module) -> bool:
    """Whether a layer flattens each record whole."""
    return type(layer) is nn.Flatten and flattens_all_features(layer)


def read_blocks(
    layers: Sequence[nn.Module], kind: type[nn.Conv2d] | type[nn.Linear]
) -> list[Block] | None:
    """Layers of one kind, each with what follows it; None where something else is among them."""
    blocks: list[Block] = []
    for layer in layers:
        if type(layer) is kind and (kind is nn.Linear or _is_plain(layer)):
            assert isinstance(layer, TRAINED)
            blocks.append(Block(layer))
        elif blocks and type(layer) in _ACTIVATIONS and blocks[-1].activation == NONE:
            blocks[-1] = blocks[-1]._replace(activation=_ACTIVATIONS[type(layer)])
        elif blocks and kind is nn.Conv2d and blocks[-1].pool == 1 and (width := _pool(layer)):
            blocks[-1] = blocks[-1]._replace(pool=width)
        else:
            return None
    return blocks


def _is_plain(layer: nn.Module) -> bool:
    """Whether a convolution has a square kernel, the same zero padding all around, and no more."""
    assert isinstance(layer, nn.Conv2d)
    return (
        layer.stride == layer.dilation == (1, 1)
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and len(set(layer.kernel_size)) == 1
        and padding_of(layer) is not None
    )


def padding_of(layer: nn.Conv2d) -> int | None:
    """Zeros on each side; None where sides differ."""
    if layer.padding == "valid":
        return 0
    if layer.padding == "same":
        return layer.kernel_size[0] // 2 if layer.kernel_size[0] % 2 else None
    sides = {int(width) for width in layer.padding}
    return sides.pop() if len(sides) == 1 else None


def _pool(layer: nn.Module) -> int | None:
    """The width of a max-pooling in square windows side by side; None for anything else."""
    if type(layer) is not nn.MaxPool2d or layer.ceil_mode or layer.return_indices:
        return None
    sizes = {*_pair(layer.kernel_size), *_pair(layer.stride)}
    if len(sizes) > 1 or {*_pair(layer.padding)} != {0} or {*_pair(layer.dilation)} != {1}:
        return None
    return sizes.pop()


def _pair(sizes: int | tuple[int, ...]) -> tuple[int, ...]:
    return sizes if isinstance(sizes, tuple) else (sizes, sizes)
