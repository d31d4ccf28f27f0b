"""Measure RAIFLE on users who upvote images, with and without manipulation by the server."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float

from divulge._util.json import Settings
from divulge._util.random import stream
from divulge.core import Entry, Game, Interactions, UpdateDefence, UpdateView
from divulge.federation.manipulation.pixels import (
    GradientSign,
    NoManipulation,
    PixelNoise,
    Versions,
)
from divulge.federation.search import images, models
from divulge.metrics import images as quality
from divulge.targets.features import Extractor, Images
from divulge_papers import vision
from divulge_papers.attempts import RowResult
from divulge_papers.batches import map_batches
from divulge_papers.papers.raifle.extractors import NETWORKS
from divulge_papers.papers.raifle.study import AUTO, attack_users, build_attack, local_noise
from divulge_papers.papers.raifle.study import MATCH as MATCH_BY_LBFGS
from divulge_papers.table import Size

Model = Literal["resnet", "regnet", "densenet", "mnasnet", "efficientnet-lite0"]
Manipulation = Literal["none", "fgsm", "raifle"]

MODELS: tuple[Model, ...] = get_args(Model)
MANIPULATIONS: tuple[Manipulation, ...] = get_args(Manipulation)
RANKERS = {0: "linear", 2: "2 units", 4: "4 units", 8: "8 units"}
RATIOS = (1, 2, 4)
IMAGE_COLUMNS = tuple(f"{name} {ratio}x" for name in RANKERS.values() for ratio in RATIOS)
SENSITIVITY = 0.05
IMAGE_UNITS = "users, each with a ranker and images of its own"

_PIXEL_NOISE: dict[Size, PixelNoise] = {
    "small": PixelNoise(steps=60, lr=0.02, optimiser="momentum"),
    "paper": PixelNoise(),
}


MATCH: Settings = MATCH_BY_LBFGS | {"optimiser": "adam", "steps": 300}
"""The published optimisation of images: 300 steps of Adam."""
METHODS: Mapping[str, Settings] = {"match": MATCH, "auto": AUTO}


_SMALL_MODELS = ("resnet", "efficientnet-lite0")
_SMALL_EPSILONS = (None, 500.0)
"""What size small measures; the other rows are measured at size paper alone."""


class ImageScale(NamedTuple):
    """Size of an experiment."""

    features: int
    """Number of a model's features that are used; there are at most four times as many images."""
    side: int
    """Number of pixels of a side of photographs."""
    repeats: int
    """Number of users for each ranker and number of images."""
    matched: int
    """Number of these users who are attacked by the published optimisation."""


SCALES: dict[Size, ImageScale] = {
    "small": ImageScale(32, 56, 6, 2),
    "paper": ImageScale(100, 224, 200, 200),
}
_SMALL = SCALES["small"]
_FEWER: dict[Size, str] = {
    "small": f" {_SMALL.repeats} repeats a cell instead of 200, `match` on the first "
    f"{_SMALL.matched}. The other models, and noise of smaller ε: at size paper.",
    "paper": "",
}
DIFFERS: dict[Size, str] = {
    size: (
        f"Networks of the paper's four kinds with 100 features, small, trained on 10,000 images of "
        f"CIFAR-10, whose other images they rank at 32 pixels, instead of the paper's with "
        f"ImageNet at 224; the first {scale.features} features are used. EfficientNet-Lite0 has "
        f"ImageNet's weights, and photographs of {scale.side} pixels a side. Manipulated by "
        f"{_PIXEL_NOISE[size]}. Rankers have no biases.{_FEWER[size]}"
    )
    for size, scale in SCALES.items()
}


def measure_reconstruction(
    seed: int,
    size: Size,
    folder: Path,
    *,
    model: Model,
    manipulation: Manipulation,
    attack: Settings,
    epsilon: float | None = None,
) -> RowResult:
    """Measure the AUC of each ranker and number of images, one value a user."""
    if size == "small" and (model not in _SMALL_MODELS or epsilon not in _SMALL_EPSILONS):
        return RowResult({})
    scale = SCALES[size]
    users = scale.matched if attack == MATCH else scale.repeats
    features = extract_features(model, manipulation, size, folder)
    defence = local_noise(epsilon, SENSITIVITY)
    values: dict[str, Sequence[float]] = {}
    entries: list[Entry] = []
    for hidden, name in RANKERS.items():
        for ratio in RATIOS:
            games = upvote_challenges(features, hidden, ratio, users, defence, seed)
            result = attack_users(build_attack(attack), games, seed)
            values[f"{name} {ratio}x"] = result.values["AUC"]
            entries += result.entries
    return RowResult(values, entries)


def measure_image_quality(
    seed: int, size: Size, folder: Path, *, model: Model, manipulation: Manipulation
) -> RowResult:
    """Measure SSIM and PSNR of each image, means over its manipulated versions."""
    del seed
    if size == "small" and model not in _SMALL_MODELS:
        return RowResult({})
    original = load_pictures(model, size)
    versions = manipulate_images(model, manipulation, size, folder).swapaxes(0, 1)
    return RowResult({
        "SSIM": np.mean([quality.ssim(original, version) for version in versions], axis=0).tolist(),
        "PSNR": np.mean([quality.psnr(original, version) for version in versions], axis=0).tolist(),
    })  # fmt: skip


def upvote_challenges(
    features: Float[np.ndarray, "images versions features"],
    hidden: int,
    ratio: int,
    count: int,
    defence: UpdateDefence,
    seed: int,
) -> Iterator[Game[UpdateView, Interactions]]:
    """Simulate users with ``ratio`` images a feature, each with a ranker of its own."""
    width = features.shape[2]
    for user in range(count):
        # the same rankers and images whatever was done to the images; where these have several
        # versions, other upvotes and noise, which are drawn after the versions
        rng = stream(seed, "upvoting", hidden, ratio, user)
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        weights = models.ranker(width, hidden, generator)
        yield images.upvote_challenge(
            weights, images.draw_features(features, ratio * width, rng), defence, rng
        )


@functools.cache
def extract_features(
    model: Model, manipulation: Manipulation, size: Size, folder: Path
) -> Float[np.ndarray, "images versions features"]:
    """Extract the features of all versions of all images, as a client does."""
    versions = manipulate_images(model, manipulation, size, folder)
    extractor = load_extractor(model, size, folder)
    each = [extractor.features(np.ascontiguousarray(v)) for v in versions.swapaxes(0, 1)]
    return np.stack(each, axis=1)


def manipulate_images(
    model: Model, manipulation: Manipulation, size: Size, folder: Path
) -> Versions:
    """Manipulate the images that the server shows; finished batches are stored in the folder."""
    how = choose_manipulation(manipulation, size)
    extractor = load_extractor(model, size, folder)

    def work(batch: Images, start: int) -> Versions:
        return how(batch, extractor, stream(0, "pixels", start))

    about = f"{model} {size} {how}"
    return map_batches(folder / "images", about, load_pictures(model, size), 16, work)


def choose_manipulation(
    manipulation: Manipulation, size: Size
) -> NoManipulation | GradientSign | PixelNoise:
    """Choose the manipulation of images by its name."""
    if manipulation == "raifle":
        return _PIXEL_NOISE[size]
    return GradientSign() if manipulation == "fgsm" else NoManipulation()


@functools.cache
def load_pictures(model: Model, size: Size) -> Images:
    """Load the images that are ranked, four times as many as features."""
    count = max(RATIOS) * SCALES[size].features
    if model == "efficientnet-lite0":
        return vision.load_photographs(count, SCALES[size].side)
    return vision.load_cifar_images(count)


@functools.cache
def load_extractor(model: Model, size: Size, folder: Path) -> Extractor:
    """Load the vision model that all clients have."""
    if model == "efficientnet-lite0":
        return vision.load_efficientnet_lite(SCALES[size].features)
    return vision.load_cifar_network(model, NETWORKS[model], folder, SCALES[size].features)
