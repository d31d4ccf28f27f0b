"""Measure RAIFLE on users who upvote images, with and without manipulation by the server."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from divulge._util.random import stream
from divulge.attacks.interactions.raifle.attack import RAIFLE
from divulge.core import Challenge, Interactions, UpdateDefence, UpdateView
from divulge.federation.manipulation.pixels import AsTheyAre, GradientSign, PixelNoise, Versions
from divulge.federation.search import images, models
from divulge.metrics import images as quality
from divulge.metrics import interactions as metrics
from divulge.reproduce import vision
from divulge.reproduce.batches import kept
from divulge.reproduce.papers.raifle.study import Values, noise
from divulge.reproduce.table import Size
from divulge.targets.features import Extractor, Images

Model = Literal["cifar-network", "efficientnet-lite0"]
Manipulation = Literal["none", "fgsm", "raifle"]

MODELS: tuple[Model, ...] = ("cifar-network", "efficientnet-lite0")
MANIPULATIONS: tuple[Manipulation, ...] = ("none", "fgsm", "raifle")
RANKERS = {0: "linear", 2: "2 units", 4: "4 units", 8: "8 units"}
RATIOS = (1, 2, 4)
IMAGE_COLUMNS = tuple(f"{name} {ratio}x" for name in RANKERS.values() for ratio in RATIOS)
SENSITIVITY = 0.05
IMAGE_UNITS = "users, each with a ranker and images of its own"

_HOW: dict[Size, PixelNoise] = {
    "small": PixelNoise(steps=60, lr=0.02, optimiser="momentum"),
    "medium": PixelNoise(steps=150, lr=0.02, optimiser="momentum"),
    "full": PixelNoise(),
}


class Scale(NamedTuple):
    """Size of an experiment."""

    features: int
    """Number of a model's features that are used; there are at most four times as many images."""
    side: int
    """Number of pixels of a side of photographs."""
    repeats: int
    """Number of users for each ranker and number of images."""


SCALES: dict[Size, Scale] = {
    "small": Scale(32, 56, 50),
    "medium": Scale(64, 112, 100),
    "full": Scale(100, 224, 200),
}
DIFFERS: dict[Size, str] = {
    size: (
        f"A small network trained on CIFAR-10, whose images it ranks, and EfficientNet-Lite0 with "
        f"photographs of {scale.side} pixels a side, instead of the paper's four models with "
        f"ImageNet at 224; of their 100 and 1,280 features the first {scale.features} are used, so "
        f"that there are images for 4x. {scale.repeats} repeats a cell instead of 200. Manipulated "
        f"by {_HOW[size]}. Rankers have no biases. The linear structure instead of Adam."
    )
    for size, scale in SCALES.items()
}  # fmt: skip


def reconstructed(
    seed: int,
    size: Size,
    folder: Path,
    *,
    model: Model,
    manipulation: Manipulation,
    epsilon: float | None = None,
) -> Values:
    """Measure the AUC of each ranker and number of images, one value a user."""
    seen = features(model, manipulation, size, folder)
    defence = noise(epsilon, SENSITIVITY)
    values: Values = {}
    for hidden, name in RANKERS.items():
        for ratio in RATIOS:
            games = users(seen, hidden, ratio, SCALES[size].repeats, defence, seed)
            values[f"{name} {ratio}x"] = [
                metrics.of_user(RAIFLE()(game.view, stream(seed, "attack", i)), game.truth).auc
                for i, game in enumerate(games)
            ]
    return values


def looked_at(
    seed: int, size: Size, folder: Path, *, model: Model, manipulation: Manipulation
) -> Values:
    """Measure SSIM and PSNR of each image, means over its manipulated versions."""
    del seed
    original = pictures(model, size)
    versions = manipulated(model, manipulation, size, folder).swapaxes(0, 1)
    return {
        "SSIM": np.mean([quality.ssim(original, one) for one in versions], axis=0).tolist(),
        "PSNR": np.mean([quality.psnr(original, one) for one in versions], axis=0).tolist(),
    }


def users(
    seen: Float[np.ndarray, "images versions features"],
    hidden: int,
    ratio: int,
    count: int,
    defence: UpdateDefence,
    seed: int,
) -> Iterator[Challenge[UpdateView, Interactions]]:
    """Simulate users with ``ratio`` images a feature, each with a ranker of its own."""
    width = seen.shape[2]
    for user in range(count):
        # the same rankers, images and upvotes whatever was done to the images
        rng = stream(seed, "upvoting", hidden, ratio, user)
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        weights = models.ranker(width, hidden, generator)
        yield images.challenge(weights, images.shown(seen, ratio * width, rng), defence, rng)


@functools.cache
def features(
    model: Model, manipulation: Manipulation, size: Size, folder: Path
) -> Float[np.ndarray, "images versions features"]:
    """Extract the features of all versions of all images, as a client does."""
    versions = manipulated(model, manipulation, size, folder)
    extractor = extractor_of(model, size, folder)
    each = [extractor.features(np.ascontiguousarray(v)) for v in versions.swapaxes(0, 1)]
    return np.stack(each, axis=1)


def manipulated(model: Model, manipulation: Manipulation, size: Size, folder: Path) -> Versions:
    """Manipulate the images that the server shows; finished batches are stored in the folder."""
    how = manner(manipulation, size)
    extractor = extractor_of(model, size, folder)

    def work(batch: Images, start: int) -> Versions:
        return how(batch, extractor, stream(0, "pixels", start))

    about = f"{model} {size} {how}"
    return kept(folder / "images", about, pictures(model, size), 16, work)


def manner(manipulation: Manipulation, size: Size) -> AsTheyAre | GradientSign | PixelNoise:
    """Choose the manipulation of images by its name."""
    if manipulation == "raifle":
        return _HOW[size]
    return GradientSign() if manipulation == "fgsm" else AsTheyAre()


@functools.cache
def pictures(model: Model, size: Size) -> Images:
    """Load the images that are ranked, four times as many as features."""
    count = max(RATIOS) * SCALES[size].features
    if model == "cifar-network":
        return vision.cifar_images(count)
    return vision.photographs(count, SCALES[size].side)


@functools.cache
def extractor_of(model: Model, size: Size, folder: Path) -> Extractor:
    """Load the vision model that all clients have."""
    if model == "cifar-network":
        return vision.cifar_network(folder, SCALES[size].features)
    return vision.efficientnet_lite(SCALES[size].features)
