"""Vision models cut before their classifier."""

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from divulge.errors import MissingExtra, SpecError, TargetError
from divulge.federation.manipulation.pixels import PixelNoise
from divulge.targets.features import PRETRAINED_MODELS, Extractor, load_pretrained

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8)).astype(np.uint8)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.5), nn.Linear(6, 4), nn.LogSoftmax(1),
    )  # fmt: skip


def test_features_are_what_enters_the_classifier() -> None:
    module = network()
    extractor = Extractor(module, mean=(0.5, 0.4, 0.3), deviation=(0.2, 0.1, 0.4))
    pixels = torch.from_numpy(IMAGES).float() / 255
    mean, deviation = torch.tensor([[0.5], [0.4], [0.3]]), torch.tensor([[0.2], [0.1], [0.4]])
    scaled = (pixels - mean[:, :, None]) / deviation[:, :, None]
    wanted = module[:4](scaled)  # type: ignore[index]
    np.testing.assert_allclose(extractor.features(IMAGES, 2), wanted.detach(), rtol=1e-5)
    seen = extractor(pixels)
    torch.testing.assert_close(seen.answers, module.eval()(scaled))
    assert Extractor(module, kept=2).features(IMAGES).shape == (5, 2)


def test_features_can_be_differentiated_and_the_module_is_left_as_it_was() -> None:
    module = network().train()
    pixels = (torch.from_numpy(IMAGES).float() / 255).requires_grad_()
    features = Extractor(module)(pixels).features
    (slope,) = torch.autograd.grad(features.sum(), pixels)
    assert slope.abs().sum() > 0
    assert module.training
    assert not any(part._forward_pre_hooks for part in module.modules())
    assert all(weight.grad is None for weight in module.parameters())


def test_a_classifier_that_is_not_linear_is_named() -> None:
    module = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 2, 6), nn.Flatten())
    with pytest.raises(TargetError, match="name its classifier"):
        Extractor(module)
    assert Extractor(module, layer="2").features(IMAGES).shape == (5, 5 * 36)
    with pytest.raises(TargetError, match="got '7'"):
        Extractor(module, layer="7")


def test_a_classifier_that_is_not_asked_is_an_error() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean((2, 3))

    with pytest.raises(TargetError, match="ask its classifier"):
        Extractor(Lazy()).features(IMAGES)
    with pytest.raises(TargetError, match="check their size"):
        Extractor(network()).features(IMAGES[:, :2])


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SpecError, match="above 0"):
        Extractor(network(), deviation=(0.0,))
    with pytest.raises(SpecError, match="above 0"):
        Extractor(network(), kept=0)


class StandIn(nn.Module):
    """Laid out as torchvision's are: functions in between, the classifier perhaps in a sequence."""

    def __init__(self, *, nested: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))
        last = nn.Linear(5, 7)
        self.classifier = nn.Sequential(nn.Dropout(0.2), last) if nested else last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.classifier(self.layers(x).relu().mean((2, 3)))
        return answers


@pytest.mark.parametrize("name", PRETRAINED_MODELS)
def test_a_published_model_is_torchvisions_cut_before_its_classifier(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    module = StandIn(nested=name == "mnasnet1_3").train()

    def get_model(name: str, weights: str) -> nn.Module:
        asked.append((name, weights))
        return module

    stand_in = types.ModuleType("torchvision")
    stand_in.models = types.SimpleNamespace(get_model=get_model)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", stand_in)
    extractor = load_pretrained(name)
    assert asked == [(name, "IMAGENET1K_V1")]
    found = extractor.features(IMAGES)
    assert module.training  # left as it was
    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet
    scaled = (IMAGES / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(deviation, (3, 1, 1))
    with torch.no_grad():
        seen = module.eval().layers(torch.from_numpy(scaled).float()).relu().mean((2, 3))
    np.testing.assert_allclose(found, seen.numpy(), atol=1e-5)
    moved = PixelNoise(steps=2)(IMAGES, extractor, np.random.default_rng(0))
    assert moved.shape == (5, 2, 3, 8, 8)


def test_a_published_model_needs_torchvision() -> None:
    with pytest.raises(SpecError, match="resnet18"):
        load_pretrained("resnet-18")
    try:
        import torchvision  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtra, match=r"pip install '\.\[images\]'"):
            load_pretrained("resnet18")
