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

from divulge.training.engine.dense import leaf_layers
from divulge.training.engine.networks import has_hooks
from divulge_fast.blocks import NONE, TRAINED, Block, flattens, padding_of, read_blocks

Vector = Float32[np.ndarray, " numbers"]

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
        layers = [layer for layer in leaf_layers(module) if isinstance(layer, TRAINED)]
        for row, layer in zip([*self.conv, *self.dense], layers, strict=True):
            weights = layer.weight.detach().numpy()
            if layer.bias is not None:
                begun = int(row["bias_at"])
                yield packed[begun : begun + len(weights)], layer.bias.detach().numpy()
            yield _place(packed[int(row["weight_at"]) :], row, weights), weights


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
    flats = [k for k, layer in enumerate(layers) if flattens(layer)]
    if flats:
        before, after = layers[: flats[0]], layers[flats[0] + 1 :]
    elif len(record) == 1:
        before, after = [], layers
    else:
        return None
    conv, dense = read_blocks(before, nn.Conv2d), read_blocks(after, nn.Linear)
    if conv is None or not dense or dense[-1].activation != NONE:
        return None
    if conv and len(record) != 3:
        return None
    return _lay_out(conv, dense, record)


def _lay_out(
    conv: Sequence[Block], dense: Sequence[Block], record: Sequence[int]
) -> NativeLayout | None:
    """None where a layer does not fit what the one before it answers."""
    places = _Places()
    tables = _rows(CONV_TABLE, conv), _rows(DENSE_TABLE, dense)
    shape = _lay_out_convolutions(tables[0], conv, record, places)
    if shape is None or not _lay_out_linear(tables[1], dense, prod(shape), places, first=not conv):
        return None
    return NativeLayout(*tables, places.taken)


def _lay_out_convolutions(
    table: Shaped[np.ndarray, " convolutions"],
    conv: Sequence[Block],
    record: Sequence[int],
    places: "_Places",
) -> tuple[int, ...] | None:
    """Fill the table, and return the shape of what the last one answers; None if one misfits."""
    shape = tuple(record)
    inputs_at = choices_at = 0
    for row, block in zip(table, conv, strict=True):
        layer = block.layer
        assert isinstance(layer, nn.Conv2d)
        channels, height, width = shape
        kernel, padding = layer.kernel_size[0], padding_of(layer)
        assert padding is not None
        across, down = width + 2 * padding, height + 2 * padding - kernel + 1
        pooled = down // block.pool, (across - kernel + 1) // block.pool
        if layer.in_channels != channels or min(down, across - kernel + 1, *pooled) < 1:
            return None
        padded = channels if layer is conv[0].layer else _up(channels, _CHANNELS)
        row["channels"], row["height"], row["width"] = padded, height, width
        row["kernel"], row["padding"], row["row"] = kernel, padding, across
        row["spread"] = _up(down * across, LANES)
        # the last tap reads kernel - 1 rows and columns further: zeros behind the image take that
        row["plane"] = _up((kernel - 1) * (across + 1) + int(row["spread"]), LANES)
        row["taps"] = _up(padded * kernel**2, _CHANNELS)
        row["plane_at"], row["choice_at"] = inputs_at, choices_at
        row["outputs"] = _up(layer.out_channels, _CHANNELS)
        row["real_outputs"] = layer.out_channels
        row["pool"], (row["pooled_height"], row["pooled_width"]) = block.pool, pooled
        row["line"] = _up(pooled[1], 16)
        _place_weights(row, int(row["outputs"]) * int(row["taps"]), block, places)
        shape = (layer.out_channels, *pooled)
        inputs_at += padded * int(row["plane"])
        choices_at += layer.out_channels * pooled[0] * int(row["line"])
    return shape


def _lay_out_linear(
    table: Shaped[np.ndarray, " layers"],
    dense: Sequence[Block],
    inputs: int,
    places: "_Places",
    *,
    first: bool,
) -> bool:
    """Fill the table; False if a layer does not fit. ``first`` is without convolutions before."""
    for k, (row, block) in enumerate(zip(table, dense, strict=True)):
        layer = block.layer
        assert isinstance(layer, nn.Linear)
        if layer.in_features != inputs or not layer.out_features:
            return False
        row["real_inputs"], row["real_outputs"] = inputs, layer.out_features
        row["by_input"] = k == 0 and first  # records may have few entries
        row["inputs"] = _up(inputs, LANES)
        rows_of_outputs = row["by_input"] or k + 1 < len(dense)
        row["outputs"] = _up(layer.out_features, LANES if rows_of_outputs else _CHANNELS)
        _place_weights(row, int(row["inputs"]) * int(row["outputs"]), block, places)
        inputs = layer.out_features
    return True


def _place_weights(row: np.void, weights: int, block: Block, places: "_Places") -> None:
    """Give the weights and biases of a layer their places, and note its activation."""
    row["activation"] = block.activation
    row["weight_at"] = places.take(weights)
    row["biased"] = block.layer.bias is not None
    row["bias_at"] = places.take(int(row["outputs"]))


class _Places:
    """Places in a vector, handed out one after another."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self, numbers: int) -> int:
        """Where the next so many begin."""
        begun = self.taken
        self.taken += _up(numbers, LANES)
        return begun


def _rows(kind: np.dtype[np.void], blocks: Sequence[Block]) -> Shaped[np.ndarray, " layers"]:
    return np.zeros(len(blocks), kind)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
