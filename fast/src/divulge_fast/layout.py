"""Which networks can be trained in native code, and how their weights lie in one vector.

Widths are padded to multiples of 32 and numbers of channels to multiples of 8. What is added is
zero and stays zero, so it changes nothing; and every row begins where a cache line begins.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Shaped
from torch import nn

from divulge.training.engine.dense import flattens_all_features, leaf_layers
from divulge.training.engine.networks import has_hooks

Vector = Float32[np.ndarray, " numbers"]

NONE, RELU, TANH, SIGMOID = range(4)
_ACTIVATIONS = {nn.ReLU: RELU, nn.Tanh: TANH, nn.Sigmoid: SIGMOID}

LANES = 32
"""Numbers to whose multiples rows are padded."""

_CHANNELS = 8
"""The same for numbers of rows."""


def _table(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.uint64) for name in names])


DENSE_TABLE = _table(
    "inputs",  # width of a row of inputs, padded
    "real_inputs",
    "outputs",  # width of a row of outputs, padded
    "real_outputs",
    "activation",  # that follows it
    "by_input",  # whether its weights are stored by input, not by output
    "weight_at",  # where they begin in the vector of all
    "biased",  # whether it has biases
    "bias_at",
)
"""One row a linear layer."""

CONV_TABLE = _table(
    "channels",  # of its input; padded but for the first layer's
    "height",
    "width",  # of its input
    "padding",
    "kernel",  # width of the square kernel
    "row",  # width of a row of its input with padding
    "plane",  # numbers in one channel of its input, with padding around and zeros behind
    "plane_at",  # where its input begins among all that is kept of one image
    "outputs",  # channels of its output, padded
    "real_outputs",
    "spread",  # numbers in one channel of its output, whose rows are as wide as the input's
    "taps",  # weights of one output channel, padded
    "pool",  # width of the square window of the max-pooling that follows it; 1 for none
    "pooled_height",
    "pooled_width",
    "line",  # the latter, padded
    "choice_at",  # where the winners of its pooling begin among all of one image
    "activation",  # that follows it
    "weight_at",
    "biased",
    "bias_at",
)
"""One row a convolution."""


class NativeLayout(NamedTuple):
    """A network as the loops of `kernels` read it."""

    conv: Shaped[np.ndarray, " convolutions"]
    """Rows of `CONV_TABLE`."""
    dense: Shaped[np.ndarray, " layers"]
    """Rows of `DENSE_TABLE`."""
    size: int
    """Numbers in the vector of all weights."""

    def pack(self, module: nn.Module) -> Vector:
        """The weights of a module as one vector."""
        packed = aligned_zeros(self.size)
        for place, weights in self._places(packed, module):
            place[...] = weights
        return packed

    def unpack(self, packed: Vector, module: nn.Module) -> None:
        """Overwrite the weights of a module."""
        for place, weights in self._places(packed, module):
            weights[...] = place

    def _places(self, packed: Vector, module: nn.Module) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each parameter's numbers in the vector, and in the module."""
        layers = [layer for layer in leaf_layers(module) if isinstance(layer, _TRAINED)]
        for row, layer in zip([*self.conv, *self.dense], layers, strict=True):
            weights = layer.weight.detach().numpy()
            if layer.bias is not None:
                begun = int(row["bias_at"])
                yield packed[begun : begun + len(weights)], layer.bias.detach().numpy()
            yield _place(packed[int(row["weight_at"]) :], row, weights), weights


_TRAINED = (nn.Conv2d, nn.Linear)


def _place(packed: Vector, row: np.void, weights: np.ndarray) -> np.ndarray:
    """The numbers of a layer's weights, in the shape of these, at the beginning of a vector."""
    many, outputs = len(weights), int(row["outputs"])
    if weights.ndim == 4:
        kernel = weights.shape[2:]
        whole = packed[: outputs * int(row["taps"])].reshape(outputs, -1)
        whole = whole[:many, : int(row["channels"]) * prod(kernel)].reshape(many, -1, *kernel)
        return whole[:, : weights.shape[1]]
    whole = packed[: outputs * int(row["inputs"])]
    if row["by_input"]:
        return whole.reshape(-1, outputs)[: weights.shape[1], :many].T
    return whole.reshape(outputs, -1)[:many, : weights.shape[1]]


def aligned_zeros(size: int) -> Vector:
    """Zeros that begin where a cache line does, which makes reading them a fifth faster."""
    whole = np.zeros(size + LANES, np.float32)
    begun = -whole.ctypes.data % 64 // whole.itemsize
    return whole[begun : begun + size]


class _Block(NamedTuple):
    """A convolution or a linear layer, with what follows it."""

    layer: nn.Conv2d | nn.Linear
    activation: int = NONE
    pool: int = 1


def native_layout(module: nn.Module, record: Sequence[int]) -> NativeLayout | None:
    """The layout of a network; None where it cannot be trained in native code.

    It can where it is an `nn.Sequential`, nested or not, of linear layers; or of convolutions, a
    `Flatten` and linear layers. Each may be followed by a ReLU, tanh or sigmoid, and a convolution
    by a max-pooling, in either order. Convolutions have square kernels and no stride. Hooks,
    subclasses, frozen or shared weights and other precisions are not for it.

    Args:
        module: the network.
        record: the shape of one record.
    """
    layers = list(leaf_layers(module))
    params = [p for layer in layers for p in layer.parameters()]
    if (
        any(has_hooks(layer) for layer in module.modules())
        or not all(p.requires_grad and p.dtype == torch.float32 for p in params)
        or len({id(p) for p in params}) < len(params)
    ):
        return None
    flats = [k for k, layer in enumerate(layers) if _flattens(layer)]
    if flats:
        before, after = layers[: flats[0]], layers[flats[0] + 1 :]
    elif len(record) == 1:
        before, after = [], layers
    else:
        return None
    conv, dense = _blocks(before, nn.Conv2d), _blocks(after, nn.Linear)
    if conv is None or not dense or dense[-1].activation != NONE:
        return None
    if conv and len(record) != 3:
        return None
    return _lay_out(conv, dense, record)


def _flattens(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and flattens_all_features(layer)


def _blocks(
    layers: Sequence[nn.Module], kind: type[nn.Conv2d] | type[nn.Linear]
) -> list[_Block] | None:
    """Layers of one kind, each with what follows it; None where something else is among them."""
    blocks: list[_Block] = []
    for layer in layers:
        if type(layer) is kind and (kind is nn.Linear or _is_plain(layer)):
            assert isinstance(layer, _TRAINED)
            blocks.append(_Block(layer))
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
        and _padding(layer) is not None
    )


def _padding(layer: nn.Conv2d) -> int | None:
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


def _lay_out(
    conv: Sequence[_Block], dense: Sequence[_Block], record: Sequence[int]
) -> NativeLayout | None:
    """None where a layer does not fit what the one before it answers."""
    where = _Places()
    shape, tables = tuple(record), (_rows(CONV_TABLE, conv), _rows(DENSE_TABLE, dense))
    kept = chosen = 0
    for row, block in zip(tables[0], conv, strict=True):
        layer = block.layer
        assert isinstance(layer, nn.Conv2d)
        channels, height, width = shape
        kernel, padding = layer.kernel_size[0], _padding(layer)
        assert padding is not None
        across, down = width + 2 * padding, height + 2 * padding - kernel + 1
        pooled = down // block.pool, (across - kernel + 1) // block.pool
        if layer.in_channels != channels or min(down, across - kernel + 1, *pooled) < 1:
            return None
        padded = channels if layer is conv[0].layer else _up(channels, _CHANNELS)
        row["channels"], row["height"], row["width"] = padded, height, width
        row["kernel"], row["padding"], row["row"] = kernel, padding, across
        row["spread"] = _up(down * across, LANES)
        row["plane"] = _up((kernel - 1) * (across + 1) + int(row["spread"]), LANES)
        row["taps"] = _up(padded * kernel**2, _CHANNELS)
        row["plane_at"], row["choice_at"] = kept, chosen
        row["outputs"] = _up(layer.out_channels, _CHANNELS)
        row["real_outputs"] = layer.out_channels
        row["pool"], (row["pooled_height"], row["pooled_width"]) = block.pool, pooled
        row["line"] = _up(pooled[1], 16)
        row["activation"] = block.activation
        row["weight_at"] = where.take(int(row["outputs"]) * int(row["taps"]))
        row["biased"] = layer.bias is not None
        row["bias_at"] = where.take(int(row["outputs"]))
        shape = (layer.out_channels, *pooled)
        kept += padded * int(row["plane"])
        chosen += layer.out_channels * pooled[0] * int(row["line"])
    inputs = prod(shape)
    for k, (row, block) in enumerate(zip(tables[1], dense, strict=True)):
        layer = block.layer
        assert isinstance(layer, nn.Linear)
        if layer.in_features != inputs or not layer.out_features:
            return None
        row["real_inputs"], row["real_outputs"] = inputs, layer.out_features
        row["by_input"] = k == 0 and not conv  # records may have few entries
        row["inputs"] = _up(inputs, LANES)
        rows_of_outputs = row["by_input"] or k + 1 < len(dense)
        row["outputs"] = _up(layer.out_features, LANES if rows_of_outputs else _CHANNELS)
        row["activation"] = block.activation
        row["weight_at"] = where.take(int(row["inputs"]) * int(row["outputs"]))
        row["biased"] = layer.bias is not None
        row["bias_at"] = where.take(int(row["outputs"]))
        inputs = layer.out_features
    return NativeLayout(*tables, where.taken)


class _Places:
    """Places in a vector, handed out one after another."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self, numbers: int) -> int:
        """Where the next so many begin."""
        begun = self.taken
        self.taken += _up(numbers, LANES)
        return begun


def _rows(kind: np.dtype[np.void], blocks: Sequence[_Block]) -> Shaped[np.ndarray, " layers"]:
    return np.zeros(len(blocks), kind)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
