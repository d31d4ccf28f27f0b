"""Load real data sets for experiments from the folder in ``DIVULGE_DATA``."""

import lzma
import os
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Shaped

from divulge._util.extras import name_missing_extra
from divulge.core import Records
from divulge.errors import DataError

ImageSetName = Literal["mnist", "fashion_mnist", "cifar10", "cifar100", "fer2013", "ham10000"]

_STRIPS = {
    "cifar10": ("x_strip.png", 32),
    "cifar100": ("x_strip.png", 32),
    "fer2013": ("x_strip.png", 48),
}


def load_images(name: ImageSetName, side: int | None = None) -> Records:
    """Load all images of a set, with pixels from 0 to 1 and channels first.

    Args:
        name: name of the set's folder.
        side: number of pixels of a side, reached by averaging squares of pixels; unless given,
            images stay as they are.

    Raises:
        DataError: they are not there, or cannot be made that small.
    """
    if name in ("mnist", "fashion_mnist"):
        with lzma.open(data_file(f"{name}/x.npy.xz")) as unpacked:
            x = np.load(unpacked, allow_pickle=False)[:, None]
        y = np.load(data_file(f"{name}/y.npy"), allow_pickle=False)
    else:
        strip, pixels = _STRIPS.get(name, ("x28_strip.png", 28))
        x = _read_strip(data_file(f"{name}/{strip}"), pixels)
        with np.load(data_file(f"{name}/meta.npz"), allow_pickle=False) as arrays:
            y = arrays["y"]
    small = _average_pool(x, side or x.shape[-1])
    small /= np.float32(255)
    return Records(small, y.astype(np.int64))


def load_location_30() -> Records:
    """Load Location-30: 5,010 users, 446 binary features, 30 classes (Shokri et al. 2017).

    Raises:
        DataError: they are not there.
    """
    with np.load(data_file("location30/location30.npz"), allow_pickle=False) as arrays:
        bits = np.unpackbits(arrays["x_bits"], axis=1)[:, :446]
        return Records(bits.astype(np.float32), arrays["y"].astype(np.int64))


def load_retail_100() -> Records:
    """Load Retail-100: 52,306 baskets, 600 products bought or not, 100 classes by k-means.

    Raises:
        DataError: they are not there.
    """
    with np.load(data_file("retail-baskets/retail100.npz"), allow_pickle=False) as arrays:
        bits = np.unpackbits(arrays["x_bits"], axis=1)[:, :600]
        return Records(bits.astype(np.float32), arrays["y"].astype(np.int64))


def _read_strip(path: Path, side: int) -> Shaped[np.ndarray, "load_images channels side side"]:
    with name_missing_extra():
        from PIL import Image
    with Image.open(path) as strip:
        flat = np.asarray(strip)
    return np.moveaxis(flat.reshape(-1, side, side, flat.shape[2] if flat.ndim == 3 else 1), -1, 1)


def _average_pool(
    x: Shaped[np.ndarray, "load_images channels from from"], side: int
) -> Shaped[np.ndarray, "load_images channels to to"]:
    count, channels, pixels, _ = x.shape
    if pixels % side:
        raise DataError(f"expected a side that divides {pixels} pixels, got {side}: choose another")
    part = pixels // side
    if part == 1:
        return x.astype(np.float32)
    split = x.reshape(count, channels, side, part, side, part)
    pooled: np.ndarray = split.mean(axis=(3, 5), dtype=np.float32)
    return pooled


def data_file(name: str) -> Path:
    """Path of a file of the data folder.

    Raises:
        DataError: it is not there.
    """
    folder = os.environ.get("DIVULGE_DATA")
    path = Path(folder or "", name)
    if folder is None or not path.is_file():
        raise DataError(
            f"expected a data set at {path}, got none: set DIVULGE_DATA to the folder with them; "
            "`divulge data` says where to get them"
        )
    return path
