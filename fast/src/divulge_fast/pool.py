"""Hold a pool of records as native code reads it."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int32, Int64, UInt32

from divulge.training.recipe import Precision
from divulge.training.tensors import PoolArrays
from divulge_fast.layout import NativeLayout

_FEW = 0.25
"""Share of entries that are not zero up to which products skip the zeros. With an eighth, that
takes a third of the time where registers hold sixteen numbers, and less where they hold fewer."""

_BLOCK = 4096
"""Records in which zeros are looked for at a time."""


class NativePool(NamedTuple):
    """A pool of records as native code reads it."""

    x: Float32[np.ndarray, "records features"]
    y: Int64[np.ndarray, " records"]
    begins: Int64[np.ndarray, " edges"]
    """Where each record's entries begin in the next two; empty where there are many."""
    columns: Int32[np.ndarray, " entries"]
    entries: Float32[np.ndarray, " entries"]
    halves: UInt32[np.ndarray, "_ pairs"]
    """Pairs of features in bfloat16, padded; empty where the first layer multiplies in float32."""


def record_shape(data: PoolArrays) -> tuple[int, ...]:
    """The shape of one record, channels first."""
    shape = data.x.shape[1:]
    return (shape[-1], *shape[:-1]) if data.channels_last else shape


def has_few_entries(x: Float32[np.ndarray, "records *shape"]) -> bool:
    """Whether so many entries are zero that skipping them is faster."""
    return bool(np.count_nonzero(x) <= _FEW * x.size)


def _pair_features(
    x: Float32[np.ndarray, "records features"], width: int
) -> UInt32[np.ndarray, "records pairs"]:
    """Features padded with zeros and rounded to bfloat16, two in each number."""
    padded = np.zeros((len(x), width), np.float32)
    padded[:, : x.shape[1]] = x
    # AVX512-BF16 multiplies two neighbours at a time and adds them in float32
    return torch.from_numpy(padded).bfloat16().view(torch.int32).numpy().view(np.uint32)


def prepare_pool(data: PoolArrays, layout: NativeLayout, precision: Precision) -> NativePool:
    """The pool, with the entries of its records listed where these are few."""
    x = np.moveaxis(data.x, -1, 1) if data.channels_last else data.x
    flat = np.ascontiguousarray(x).reshape(len(x), -1)
    halves = np.empty((0, 0), np.uint32)
    if precision == "bfloat16" or layout.conv.size or not has_few_entries(flat):
        if precision == "bfloat16":
            halves = _pair_features(flat, int(layout.dense[0]["inputs"]))
        none = np.empty(0)
        return NativePool(
            flat,
            data.y,
            none.astype(np.int64),
            none.astype(np.int32),
            none.astype(np.float32),
            halves,
        )
    blocks = [flat[begun : begun + _BLOCK] for begun in range(0, len(flat), _BLOCK)]
    nonzero = [np.nonzero(block) for block in blocks]
    counts = np.concatenate([np.count_nonzero(block, axis=1) for block in blocks])
    return NativePool(
        flat,
        data.y,
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([columns.astype(np.int32) for _, columns in nonzero]),
        np.concatenate([block[place] for block, place in zip(blocks, nonzero, strict=True)]),
        halves,
    )
