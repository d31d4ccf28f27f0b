"""What DAP's tables are about: images or what a pretrained network sees in them, and who has which.

No defence ever sees another record of the same pool than those that it is given; what the network
sees is cut down to principal components of records that belong to the attacker.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.random import stream
from divulge.core import Records
from divulge.reproduce.batches import kept
from divulge.reproduce.data import images

Data = Literal["cifar10", "cifar100", "fashion_mnist"]

SIDES: Mapping[Data, int] = {"cifar10": 32, "cifar100": 32, "fashion_mnist": 28}
"""Pixels of a side as published."""


class Sizes(NamedTuple):
    """How many records of a set are used, and how they are seen."""

    images: int
    """Of the set, the same for every seed, which draws from them; 0 is all."""
    records: int
    """Of one model, those held out included; the pool has twice as many."""
    components: int
    """Of what a pretrained network sees; 0 takes the pixels."""


class World(NamedTuple):
    """The same records for all rows."""

    pool: Records
    """Each model gets a half of it; the other half tests it."""
    others: Records
    """As many as a half: what DAP_t may learn from without spoiling the test."""
    reference: Records
    """The attacker's own."""


@functools.lru_cache(maxsize=4)
def world(seed: int, data: Data, sizes: Sizes, folder: Path) -> World:
    """The records of one seed."""
    records = _records(data, sizes, folder)
    n = sizes.records
    drawn = stream(seed, "parts").permutation(len(records))[: 7 * n // 2]
    parts = [records.take(part) for part in np.split(drawn, [2 * n, 3 * n])]
    if sizes.components:
        parts = _reduced(parts, parts[2].x, sizes.components)
    return World(*parts)


def halves(seed: int, models: int, total: int) -> Bool[np.ndarray, "models records"]:
    """Pairs of a half of the pool and the other one: each record is in half of the models."""
    drawn = stream(seed, "halves of the pool")
    some = [drawn.permutation(total) < total // 2 for _ in range(models // 2)]
    return np.stack([half for one in some for half in (one, ~one)])


@functools.lru_cache(maxsize=3)
def _records(data: Data, sizes: Sizes, folder: Path) -> Records:
    if not sizes.components:
        return images(data)
    found = images(data)
    some = found.take(stream(0, "images").permutation(len(found))[: sizes.images or None])
    return Records(_seen(data, some.x, folder), some.y)


def _seen(
    data: Data, pixels: Float[np.ndarray, "images channels side side"], folder: Path
) -> Float[np.ndarray, "images features"]:
    """What EfficientNet-Lite0 sees in images, each pixel doubled; in colour if there is one."""
    from divulge.reproduce.vision import efficientnet_lite

    levels = np.rint(pixels * 255).astype(np.uint8)
    large = levels.repeat(2, axis=2).repeat(2, axis=3)
    if large.shape[1] == 1:
        large = large.repeat(3, axis=1)
    extractor = efficientnet_lite()
    about = f"EfficientNet-Lite0, {data}"
    return kept(folder / "images", about, large, 500, lambda some, _: extractor.features(some, 32))


def _reduced(parts: list[Records], public: np.ndarray, components: int) -> list[Records]:
    """The first principal components of public records, of which the first has deviation 1."""
    mean = public.mean(axis=0)
    _, values, axes = np.linalg.svd(public - mean, full_matrices=False)
    turned = axes[:components].T * (np.sqrt(len(public)) / values[0])
    return [Records(((p.x - mean) @ turned).astype(np.float32), p.y) for p in parts]
