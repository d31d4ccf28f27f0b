"""Cut vision models before their classifier, to map images to differentiable features."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from divulge._util.arguments import check_arguments
from divulge._util.extras import name_missing_extra
from divulge.errors import SpecError, TargetError, did_you_mean
from divulge.targets.batching import query_in_batches, translate_model_errors
from divulge.targets.torch import evaluation_mode

Images = UInt8[np.ndarray, "images channels height width"]
"""Pixels from 0 to 255, as a PNG file holds them, channels first."""

PRETRAINED_MODELS = ("resnet18", "regnet_y_800mf", "densenet121", "mnasnet1_3")
"""The models of RAIFLE's table IV, as torchvision names them."""


class ExtractorOutput(NamedTuple):
    """The features and the answers of a model for a batch of images."""

    features: Float[Tensor, "images features"]
    answers: Float[Tensor, "images classes"]


@check_arguments
@dataclass(frozen=True, slots=True)
class Extractor:
    """A module whose classifier's input is taken as the features of an image.

    Args:
        module: maps images, channels first, to one row of answers each.
        mean: the mean of each channel, of pixels from 0 to 1; it is subtracted before the module
            sees the pixels. One number is for all channels.
        deviation: the standard deviation of each channel, by which pixels are then divided.
        layer: the name of the classifier in the module; its last linear layer, unless given.
        kept: how many features are used, the first ones; all of them, unless given.

    Raises:
        SpecError: a deviation or ``kept`` is not above 0.
        TargetError: the module has no such layer.
    """

    module: nn.Module
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    layer: str | None = None
    kept: int | None = None

    def __post_init__(self) -> None:
        if min(self.deviation, default=0) <= 0 or (self.kept is not None and self.kept < 1):
            raise SpecError(
                f"expected deviations and kept features above 0, got {self.deviation} and "
                f"{self.kept}: a model sees (pixel - mean) / deviation"
            )
        self._classifier()

    def __call__(self, pixels: Float[Tensor, "images channels height width"]) -> ExtractorOutput:
        """Features and answers of pixels from 0 to 1, differentiable in the pixels.

        Raises:
            TargetError: the module failed, or its classifier was not asked.
        """
        inputs: list[Tensor] = []

        def keep(_: nn.Module, given: tuple[Any, ...]) -> None:
            inputs.append(given[0])

        handle = self._classifier().register_forward_pre_hook(keep)
        try:
            with (
                translate_model_errors("the model to see the images", "check their size"),
                evaluation_mode(self.module),
            ):
                answers = self.module(self._normalise(pixels))
        finally:
            handle.remove()
        if not inputs:
            raise TargetError("expected the model to ask its classifier, it did not: name a layer")
        return ExtractorOutput(inputs[-1].flatten(1)[:, : self.kept], answers)

    def features(
        self, images: Images, batch_size: int = 64
    ) -> Float[np.ndarray, "images features"]:
        """The features of images as a client gets them, in float64.

        Raises:
            TargetError: there is no image, or the module failed.
        """

        def ask(batch: Images) -> Float[np.ndarray, "batch features"]:
            with torch.no_grad():
                layers = self(torch.from_numpy(batch).to(torch.float32) / 255).features
            return np.asarray(layers.double().numpy())

        return query_in_batches(ask, images, batch_size)

    def _normalise(
        self, pixels: Float[Tensor, "images channels height width"]
    ) -> Float[Tensor, "images channels height width"]:
        mean, deviation = (pixels.new_tensor(v)[:, None, None] for v in (self.mean, self.deviation))
        return (pixels - mean) / deviation

    def _classifier(self) -> nn.Module:
        if self.layer is not None:
            parts = dict(self.module.named_modules())
            if self.layer not in parts:
                hint = did_you_mean(self.layer, parts)
                raise TargetError(f"expected a layer of the module, got {self.layer!r}: {hint}")
            classifier: nn.Module = parts[self.layer]
            return classifier
        linear = [part for part in self.module.modules() if isinstance(part, nn.Linear)]
        if not linear:
            raise TargetError(
                f"expected a module with a linear layer, got {type(self.module).__name__}: name "
                "its classifier with layer="
            )
        return linear[-1]


def load_pretrained(name: str) -> Extractor:
    """A model of torchvision with its published ImageNet weights, for images of 224 pixels a side.

    torchvision fetches weights that are not on this computer yet.

    Raises:
        SpecError: it is none of `PRETRAINED_MODELS`.
        MissingExtra: torchvision is not installed.
    """
    if name not in PRETRAINED_MODELS:
        raise SpecError(
            f"expected a vision model, got {name!r}: {did_you_mean(name, PRETRAINED_MODELS)}"
        )
    with name_missing_extra():
        from torchvision import models
    module = models.get_model(name, weights="IMAGENET1K_V1")
    return Extractor(module, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
