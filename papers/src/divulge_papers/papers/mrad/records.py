"""Load the records of MRAD's tables."""

import functools
from collections.abc import Mapping
from typing import Literal

import numpy as np

from divulge.core import Records
from divulge_papers.data import load_images, load_location_30, load_retail_100
from divulge_papers.table import Size

Data = Literal["fashion_mnist", "location30", "retail100", "cifar10"]

GRIDS: Mapping[tuple[Data, Size], tuple[int, ...]] = {
    ("fashion_mnist", "small"): (1, 14, 14),
    ("fashion_mnist", "paper"): (1, 28, 28),
}
"""Shapes of images that perceptrons get as flat records."""


@functools.lru_cache(maxsize=2)
def load_records(data: Data, size: Size, standardised: bool) -> Records:  # noqa: FBT001 (kept by place)
    """Load a data set at the size of an experiment.

    Args:
        data: name of the data set.
        size: size of the experiment; at ``small``, images are averaged to fewer pixels.
        standardised: whether to `standardise` the features, which else are from 0 to 1.
    """
    if data == "location30":
        records = load_location_30()
    elif data == "retail100":
        records = load_retail_100()
    else:
        records = load_images(data, None if size == "paper" else _SIDES[data])
    if data == "fashion_mnist":
        low, high = records.x.min(), records.x.max()
        records = Records((records.x - low) / (high - low), records.y)
    x = standardise(records.x) if standardised else records.x
    return Records(x.reshape(len(x), -1) if data == "fashion_mnist" else x, records.y)


_SIDES = {"cifar10": 16, "fashion_mnist": 14}
"""Pixels of a side of images at size small; at size paper they stay as they are."""


def standardise(x: np.ndarray) -> np.ndarray:
    """Mean 0 and deviation 1, by channel of images or by feature."""
    axes = (0, 2, 3) if x.ndim == 4 else (0,)
    deviation = x.std(axis=axes, keepdims=True)
    deviation[deviation == 0] = 1
    standardised: np.ndarray = (x - x.mean(axis=axes, keepdims=True)) / deviation
    return standardised
