"""Real data for benchmarks, from the folder in ``DIVULGE_DATA``."""

import lzma
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np

from benchmarks.timing import MissingData
from divulge.core import Records


def location_30() -> Records:
    """5,010 users of a check-in service, 446 binary features, 30 classes (Shokri et al. 2017)."""
    with np.load(file("location30/location30.npz"), allow_pickle=False) as arrays:
        return _bits(arrays["x_bits"], 446, arrays["y"])


def retail_100() -> Records:
    """52,306 baskets of a Belgian supermarket, 600 products, 100 classes by k-means."""
    with np.load(file("retail-baskets/retail100.npz"), allow_pickle=False) as arrays:
        return _bits(arrays["x_bits"], 600, arrays["y"])


def mnist() -> Records:
    """Images of digits, of shape (1, 28, 28), from 0 to 1."""
    with lzma.open(file("mnist/x.npy.xz")) as stream:
        images = np.lib.format.read_array(stream, allow_pickle=False)[:, None]
    y = np.load(file("mnist/y.npy"), allow_pickle=False)
    return Records((images / 255).astype(np.float32), y.astype(np.int64))


def fashion_mnist() -> Records:
    """70,000 grey images of clothes, standardised."""
    with lzma.open(file("fashion_mnist/x.npy.xz")) as unpacked:
        images = np.load(unpacked, allow_pickle=False)
    x = (images[:, None].astype(np.float32) / 255 - 0.286) / 0.353
    y = np.load(file("fashion_mnist/y.npy"), allow_pickle=False)
    return Records(x, y.astype(np.int64))


def cifar_10() -> Records:
    """20,000 of CIFAR-10's 60,000 colour images, 2,000 a class, standardised."""
    return _colour_strip("cifar10")


def cifar_100() -> Records:
    """6,000 of CIFAR-100's 60,000 colour images, 60 a class, standardised as CIFAR-10's."""
    return _colour_strip("cifar100")


def _colour_strip(folder: str) -> Records:
    from PIL import Image

    with Image.open(file(f"{folder}/x_strip.png")) as strip:
        images = np.asarray(strip).reshape(-1, 32, 32, 3)
    with np.load(file(f"{folder}/meta.npz"), allow_pickle=False) as arrays:
        y = arrays["y"].astype(np.int64)
    mean = np.array([0.491, 0.482, 0.447], np.float32)
    deviation = np.array([0.247, 0.243, 0.262], np.float32)
    x = (images.astype(np.float32) / 255 - mean) / deviation
    return Records(np.ascontiguousarray(np.moveaxis(x, -1, 1)), y)


def soynam_heights() -> Records:
    """All soybean lines of SoyNAM whose height is known: their SNPs, and that height."""
    arrays = _soynam()
    height = arrays["traits"][:, arrays["trait_names"].tolist().index("height")].astype(np.float64)
    there = np.isfinite(height)
    return Records(_genotypes(arrays)[there].astype(np.float32) - 1, height[there])


def _soynam() -> Mapping[str, np.ndarray]:
    with np.load(BytesIO(lzma.decompress(file("soynam/soynam.npz.xz").read_bytes()))) as arrays:
        return dict(arrays)


def _genotypes(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Copies of one allele, 0 to 2, one row a line."""
    packed = arrays["packed"]
    codes = np.stack([packed >> 2 * k & 3 for k in range(4)], axis=-1).reshape(len(packed), -1)
    return codes[:, : int(arrays["n_snps"])]


def _bits(packed: np.ndarray, features: int, y: np.ndarray) -> Records:
    x = np.unpackbits(packed, axis=1)[:, :features]
    return Records(x.astype(np.float32), y.astype(np.int64))


def file(name: str) -> Path:
    """A file of the folder.

    Raises:
        MissingData: it is not there.
    """
    folder = os.environ.get("DIVULGE_DATA")
    path = Path(folder or "", name)
    if folder is None or not path.is_file():
        raise MissingData(path)
    return path
