"""Manipulate pixels so that updates reveal more, where clients extract features themselves."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from divulge._util.arguments import check_arguments
from divulge.errors import SpecError
from divulge.metrics import images as quality
from divulge.targets.features import Extractor, Images

Versions = UInt8[np.ndarray, "images versions channels height width"]
"""Manipulated versions of each image, of which the server draws one for each client."""
Optimiser = Literal["adam", "momentum"]


@check_arguments
@dataclass(frozen=True, slots=True)
class PixelNoise:
    """Moves pixels until a vision model sees Gaussian noise instead of the image's features.

    The squared distance of the features to noise is minimised. Noise below 0 is cut off,
    as features come out of ReLU. It is *partitioned*: each version of an image has noise in one
    part of the features and 0 in the others, which pixels can follow more closely than noise
    everywhere. What comes back is rounded to 8 bits, as a PNG file holds it.

    The published settings are the defaults. ``momentum`` follows the gradient itself, at equal
    length for all images, where Adam goes nearly as far in every pixel: it comes as near to the
    noise in fewer steps, or nearer at the same image quality.

    Args:
        scale: standard deviation of the noise.
        partitions: number of parts of the features, and of versions of each image; 1 is noise
            everywhere.
        steps: number of steps of the optimiser.
        lr: learning rate, in units of the model's input: pixels over their standard deviation.
        optimiser: ``adam``, or ``momentum``: an average of gradients, each divided by its root
            mean square, with a rate that falls to 0 along half a cosine wave.
        similarity: weight of 1 - SSIM to the original in what is minimised; 0 leaves it out.
        budget: largest change of a pixel in levels from 0 to 255, rounded down. Infinity is no
            limit.

    Raises:
        SpecError: a setting makes no sense.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, sections III-C3 and IV-C, appendix B.
    """

    scale: float = 4.0
    partitions: int = 2
    steps: int = 500
    lr: float = 0.01
    optimiser: Optimiser = "adam"
    similarity: float = 0.0
    budget: float = math.inf

    def __post_init__(self) -> None:
        counts, sizes = (self.partitions, self.steps), (self.scale, self.lr, self.budget)
        if min(counts) < 1 or not all(size > 0 for size in sizes):
            raise SpecError(
                "expected partitions and steps from 1, and a scale, lr and budget above 0, "
                f"got {self}"
            )
        if not 0 <= self.similarity < math.inf:
            raise SpecError(f"expected a similarity from 0, got {self.similarity}")

    def __call__(self, images: Images, extractor: Extractor, rng: np.random.Generator) -> Versions:
        """Make all manipulated versions of each image."""
        original = _to_pixels(images)
        with torch.no_grad():
            width = extractor(original[:1]).features.shape[1]
        wanted = torch.from_numpy(self.targets(len(images), width, rng)).to(original.dtype)
        # all versions at once: large batches are quicker
        each = original.repeat_interleave(self.partitions, 0)
        each = each.contiguous(memory_format=torch.channels_last)
        moved = quantise(self._optimise_pixels(each, wanted.flatten(0, 1), extractor))
        return moved.reshape(len(images), self.partitions, *images.shape[1:])

    def targets(
        self, images: int, features: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "images versions features"]:
        """Draw the noise that each version's features are to become.

        Raises:
            SpecError: there are more partitions than features.
        """
        if self.partitions > features:
            raise SpecError(f"expected 1 to {features} partitions, got {self.partitions}")
        # section IV-C: features come out of ReLU, so that nothing below 0 can be reached
        noise = rng.normal(0.0, self.scale, (images, features)).clip(min=0.0)
        # version v has its noise in the part with number partitions - 1 - v: the first has zeros
        # first, as published
        part = np.arange(features) * self.partitions // features
        own = part == np.arange(self.partitions)[::-1, None]
        return np.where(own, noise[:, None, :], 0.0)

    def _optimise_pixels(
        self,
        original: Float[Tensor, "images channels height width"],
        target: Float[Tensor, "images features"],
        extractor: Extractor,
    ) -> Float[Tensor, "images channels height width"]:
        deviation = original.new_tensor(extractor.deviation)[:, None, None]
        reach = float(np.floor(self.budget)) / 255  # whole levels, as rounding must not exceed it
        low, high = (original - reach).clamp(min=0.0), (original + reach).clamp(max=1.0)
        pixels = original.clone().requires_grad_()
        moment, power = torch.zeros_like(original), torch.zeros_like(original)
        for step in range(self.steps):
            apart = (extractor(pixels).features - target).square().mean(1)
            if self.similarity:
                apart = apart + self.similarity * (1 - differentiable_ssim(pixels, original))
            # summed, so that no image's way depends on what else is in the batch
            (slope,) = torch.autograd.grad(apart.sum(), pixels)
            with torch.no_grad():
                change = self._step(slope * deviation, moment, power, step)
                pixels -= self.lr * deviation * change
                pixels.clamp_(low, high)
        return pixels.detach()

    def _step(self, slope: Tensor, moment: Tensor, power: Tensor, step: int) -> Tensor:
        """Direction of a step; the moving averages are updated in place."""
        if self.optimiser == "momentum":
            slope = slope / slope.square().mean((1, 2, 3), keepdim=True).sqrt().clamp(min=1e-30)
        direction = moment.mul_(0.9).add_(slope, alpha=0.1) / (1 - 0.9 ** (step + 1))
        if self.optimiser == "momentum":
            return direction * (1 + math.cos(math.pi * step / self.steps)) / 2
        power.mul_(0.999).addcmul_(slope, slope, value=0.001)  # Kingma and Ba (2015), algorithm 1
        return direction / ((power / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)


@dataclass(frozen=True, slots=True)
class GradientSign:
    """FGSM: each pixel a step up or down, whichever makes the model doubt its answer more.

    A baseline: such images are misclassified, which does not make updates tell more.

    Args:
        size: size of the step, for pixels from 0 to 1.

    Raises:
        SpecError: the size is not above 0.

    References:
        Goodfellow, Shlens and Szegedy (2015), Explaining and harnessing adversarial examples;
        RAIFLE, section V-C.
    """

    size: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.size < math.inf:
            raise SpecError(f"expected a size above 0, got {self.size}")

    def __call__(self, images: Images, extractor: Extractor, rng: np.random.Generator) -> Versions:
        """Make one version of each image."""
        del rng
        pixels = _to_pixels(images).requires_grad_()
        answers = extractor(pixels).answers
        loss = torch.nn.functional.cross_entropy(answers, answers.argmax(1), reduction="sum")
        (slope,) = torch.autograd.grad(loss, pixels)
        return quantise(pixels.detach() + self.size * slope.sign())[:, None]


@dataclass(frozen=True, slots=True)
class NoManipulation:
    """Shows images without manipulation."""

    def __call__(self, images: Images, extractor: Extractor, rng: np.random.Generator) -> Versions:
        """Give each image as its only version."""
        del extractor, rng
        return images[:, None]


def quantise(pixels: Float[Tensor, "images channels height width"]) -> Images:
    """Pixels from 0 to 1 as a PNG file holds them: whole levels from 0 to 255."""
    levels = (pixels.clamp(0.0, 1.0) * 255).round().to(torch.uint8)
    return np.asarray(levels.numpy())


def differentiable_ssim(
    image: Float[Tensor, "images channels height width"],
    other: Float[Tensor, "images channels height width"],
) -> Float[Tensor, " images"]:
    """SSIM of pixels from 0 to 1, differentiable: `metrics.images.ssim` for torch.

    References:
        Wang et al. (2004), Image quality assessment: from error visibility to structural
        similarity, equation 13.
    """
    window = partial(torch.nn.functional.avg_pool2d, kernel_size=quality.WINDOW, stride=1)
    ssim: Tensor = quality.windowed_ssim(window, image, other).mean((1, 2, 3))
    return ssim


def _to_pixels(images: Images) -> Float[Tensor, "images channels height width"]:
    pixels = torch.from_numpy(images).to(torch.float32) / 255
    # depthwise convolutions are twice as fast in this order of memory
    return pixels.contiguous(memory_format=torch.channels_last)
