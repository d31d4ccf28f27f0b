"""Upvotes of images, measured on a small synthetic case, and on the photographs where they are."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from divulge.federation.manipulation.pixels import PixelNoise
from divulge.targets.features import Extractor
from divulge_papers import vision
from divulge_papers.papers.raifle import images as experiment
from divulge_papers.papers.raifle.extractors import NETWORKS
from divulge_papers.papers.raifle.images import ImageScale, Manipulation
from divulge_papers.papers.raifle.study import AUTO

DATA = os.environ.get("DIVULGE_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="needs DIVULGE_DATA, a folder with data sets")


def extractor(name: str, make: object, folder: Path, kept: int | None = None) -> Extractor:
    torch.manual_seed(0)
    body = (nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Extractor(nn.Sequential(*body, nn.Linear(6, 2)), kept=kept)


def images(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 3, 8, 8)).astype(np.uint8)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for cached in (
        experiment.extract_features,
        experiment.load_pictures,
        experiment.load_extractor,
    ):
        cached.cache_clear()
    monkeypatch.setattr(vision, "load_cifar_network", extractor)
    monkeypatch.setattr(vision, "load_cifar_images", images)
    monkeypatch.setitem(
        experiment.SCALES, "small", ImageScale(features=4, side=56, repeats=3, matched=2)
    )
    quick = PixelNoise(steps=3, optimiser="momentum")
    monkeypatch.setitem(experiment._PIXEL_NOISE, "small", quick)


@pytest.mark.parametrize("name", NETWORKS)
def test_each_kind_of_network_has_100_features_after_a_relu(name: str) -> None:
    torch.manual_seed(0)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32)).astype(np.uint8)
    found = Extractor(NETWORKS[name]()).features(pixels)
    assert found.shape == (2, 100)
    assert found.min() >= 0
    assert not np.allclose(found[0], found[1])


def test_each_cell_has_its_repeats_and_all_manipulations_the_same_users(tmp_path: Path) -> None:
    asked: list[tuple[Manipulation, float | None]]
    asked = [("none", None), ("fgsm", None), ("raifle", 500.0)]
    found = {
        how: experiment.measure_reconstruction(
            0, "small", tmp_path, model="resnet", manipulation=how, attack=AUTO, epsilon=epsilon
        ).values
        for how, epsilon in asked
    }
    for values in found.values():
        assert set(values) == set(experiment.IMAGE_COLUMNS)
        assert all(len(each) == 3 for each in values.values())
        assert all(0 <= auc <= 1 for each in values.values() for auc in each)
    assert np.mean(found["none"]["linear 1x"]) > np.mean(found["raifle"]["linear 1x"])  # noise


def test_an_image_counts_once_however_many_versions_it_has(tmp_path: Path) -> None:
    for how in ("fgsm", "raifle"):
        found = experiment.measure_image_quality(
            0, "small", tmp_path, model="resnet", manipulation=how
        ).values
        assert len(found["SSIM"]) == len(found["PSNR"]) == 16
        assert max(found["SSIM"]) < 1


@needs_data
def test_photographs_are_told_apart_by_a_pretrained_network() -> None:
    seen = vision.load_efficientnet_lite()
    photographs = vision.load_photographs(4)
    with torch.no_grad():
        answers = seen(torch.from_numpy(photographs).float() / 255).answers
    with np.load(Path(str(DATA)) / "vision-extractor/images224.npz", allow_pickle=False) as arrays:
        truth = arrays["imagenet_class"][:4]
    assert (answers.argmax(1).numpy() == truth).sum() >= 3
    assert seen.features(photographs).shape == (4, 1280)
    assert vision.load_photographs(2, 56).shape == (2, 3, 56, 56)
