"""Load and split the records of DAP's tables: images, or a pretrained network's features of them.

A defence sees only the records of the pool that it is given. Features are reduced to the principal
components of records that belong to the attacker.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.random import stream
from divulge.core import Records
from divulge_papers.batches import map_batches
from divulge_papers.data import load_images

Data = Literal["cifar10", "cifar100", "fashion_mnist"]

SIDES: Mapping[Data, int] = {"cifar10": 32, "cifar100": 32, "fashion_mnist": 28}
"""Number of pixels of a side of the published images."""


class DataSizes(NamedTuple):
    """Numbers of records of a data set, and of the features of a record."""

    images: int
    """Number of images of the set that every seed draws from; 0 is all."""
    records: int
    """Number of records of one model, held-out ones included; the pool has twice as many."""
    components: int
    """Number of principal components of a pretrained network's features; 0 takes the pixels."""


class RecordSplit(NamedTuple):
    """Records of one seed by role, the same for all rows."""

    pool: Records
    """Pool of which each model gets a half; the other half tests it."""
    others: Records
    """Records for DAP_t to learn from without spoiling the test, half as many as the pool."""
    reference: Records
    """Records of the attacker's own."""


@functools.lru_cache(maxsize=4)
def split_records(seed: int, data: Data, sizes: DataSizes, folder: Path) -> RecordSplit:
    """Load the records of one seed, and split them by role."""
    records = _load_records(data, sizes, folder)
    n = sizes.records
    drawn = stream(seed, "parts").permutation(len(records))[: 7 * n // 2]
    parts = [records.take(part) for part in np.split(drawn, [2 * n, 3 * n])]
    if sizes.components:
        parts = _reduce_dimensions(parts, parts[-1].x, sizes.components)
    return RecordSplit(*parts)


def draw_halves(seed: int, models: int, total: int) -> Bool[np.ndarray, "models records"]:
    """Draw halves of the pool, each followed by its complement: ``models`` is even."""
    drawn = stream(seed, "halves of the pool")
    some = [drawn.permutation(total) < total // 2 for _ in range(models // 2)]
    return np.stack([half for drawn_half in some for half in (drawn_half, ~drawn_half)])


@functools.lru_cache(maxsize=3)
def _load_records(data: Data, sizes: DataSizes, folder: Path) -> Records:
    if not sizes.components:
        return load_images(data)
    images = load_images(data)
    some = images.take(stream(0, "images").permutation(len(images))[: sizes.images or None])
    return Records(_extract_features(data, some.x, folder), some.y)


def _extract_features(
    data: Data, pixels: Float[np.ndarray, "load_images channels side side"], folder: Path
) -> Float[np.ndarray, "load_images features"]:
    """Extract features by EfficientNet-Lite0 from images at twice their size."""
    from divulge_papers.vision import load_efficientnet_lite

    levels = np.rint(pixels * 255).astype(np.uint8)
    large = levels.repeat(2, axis=2).repeat(2, axis=3)
    if large.shape[1] == 1:
        large = large.repeat(3, axis=1)
    extractor = load_efficientnet_lite()
    about = f"EfficientNet-Lite0, {data}"
    return map_batches(
        folder / "images", about, large, 500, lambda some, _: extractor.features(some, 32)
    )


def _reduce_dimensions(parts: list[Records], public: np.ndarray, components: int) -> list[Records]:
    """Project on principal components of public records; the first has standard deviation 1."""
    mean = public.mean(axis=0)
    _, values, axes = np.linalg.svd(public - mean, full_matrices=False)
    turned = axes[:components].T * (np.sqrt(len(public)) / values[0])
    return [Records(((p.x - mean) @ turned).astype(np.float32), p.y) for p in parts]
