"""Defend by augmentation: no epoch shows a record as the one before did."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge._util.arguments import check_arguments
from divulge.core import Range, Records, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import SpecError
from divulge.training.losses import BatchLoss
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolTensors


@check_arguments
@dataclass(frozen=True, slots=True)
class Augmentation(TrainingDefence):
    """Add noise to the features of each batch, then mix its records in pairs.

    For numeric features of any kind. Normal noise is drawn anew in each epoch, in standard
    deviations of each feature within the batch. A pair is mixed as λ times the one and 1 - λ times
    the other, and so are their losses, with one λ per batch from Beta(mixup, mixup).

    Args:
        mixup: alpha of the distribution of λ; 0 mixes nothing, 1 draws λ evenly from 0 to 1.
        noise: the standard deviation of the noise, in those of the feature; 0 adds none.

    References:
        Zhang, Cissé, Dauphin and Lopez-Paz (2018), mixup: beyond empirical risk minimization, eq. 2
        and figure 1; Kaya and Dumitras (2021), When does data augmentation help with membership
        inference attacks?, for both as defences. Departure: there noise is in units of pixels.

    Raises:
        SpecError: a number is below 0, both are 0, or features are no floating-point numbers.
    """

    mixup: float = 1.0
    noise: float = 0.0

    name: ClassVar[str] = "augmentation"
    paper: ClassVar[str] = "Kaya and Dumitras 2021"
    search: ClassVar[SearchSpace] = {
        "mixup": Range(0.01, 4.0, log=True),
        "noise": (0.0, 0.1, 0.3, 1.0),
    }

    def __post_init__(self) -> None:
        if self.mixup < 0 or self.noise < 0:
            raise SpecError(
                f"expected mixup and noise from 0, got mixup={self.mixup} and noise={self.noise}"
            )
        if not (self.mixup or self.noise):
            raise SpecError("expected mixup or noise above 0, got 0 for both: nothing is augmented")

    def defended_recipe(self) -> Recipe:
        """The same recipe with records that are changed in each step."""
        return replace(self.recipe, loss=_MixedCrossEntropy(self.mixup, self.noise))

    def check_records(self, pool: Records) -> None:
        """Refuse features that are no floating-point numbers."""
        if pool.x.dtype.kind != "f":
            raise SpecError(
                f"expected floating-point features to augment, got {pool.x.dtype}: convert them, "
                "or leave this defence out"
            )


@check_arguments
@dataclass(frozen=True, slots=True)
class ImageAugmentation(TrainingDefence):
    """Shift each image of a batch at random, and mirror half of them.

    In each epoch each image gets a shift, uniform over all whole pixels from -``shift`` to
    ``shift`` in both directions; pixels at the edge are repeated. Images have shape (records,
    height, width) or (records, channels, height, width).

    Args:
        shift: the largest shift, in pixels; 0 shifts none.
        flip: whether half of the images are mirrored from left to right; false where left and right
            differ, as in digits.

    References:
        Kaya and Dumitras (2021), When does data augmentation help with membership inference
        attacks?, random cropping. Departure: there the edge is filled with zeros.

    Raises:
        SpecError: the shift is below 0, nothing would change, or records are no images, of shape
            (records, height, width) or (records, channels, height, width), larger than the shift.
    """

    shift: int = 4
    flip: bool = True

    name: ClassVar[str] = "image-augmentation"
    paper: ClassVar[str] = "Kaya and Dumitras 2021"
    search: ClassVar[SearchSpace] = {"shift": (1, 2, 4), "flip": (True, False)}

    def __post_init__(self) -> None:
        if self.shift < 0 or not (self.shift or self.flip):
            raise SpecError(
                f"expected shift from 1, or from 0 with flip, got shift={self.shift} and "
                f"flip={self.flip}"
            )

    def defended_recipe(self) -> Recipe:
        """The same recipe with images that are moved in each step."""
        return replace(self.recipe, loss=_MovedCrossEntropy(self.shift, self.flip))

    def check_records(self, pool: Records) -> None:
        """Refuse records that are no images, or too small for the shift."""
        shape = pool.x.shape
        if len(shape) not in (3, 4) or min(shape[-2:]) <= self.shift:
            raise SpecError(
                "expected images of shape (records, height, width) or (records, channels, height, "
                f"width), larger than {self.shift} pixels, got {shape}: reshape them, or leave "
                "this defence out"
            )


@dataclass(frozen=True, slots=True)
class _MixedCrossEntropy:
    mixup: float
    noise: float

    def against(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], BatchLoss]:
        """The loss of noisy and mixed records; no attacker learns beside the model."""
        del held_out

        def loss(rows: torch.Tensor) -> torch.Tensor:
            x, y = data.batch(rows)
            if self.noise:
                # departure: in deviations of each feature, where the paper has units of pixels
                scale = self.noise * x.std(dim=0, unbiased=False)
                x = x + scale * torch.randn_like(x)
            if not self.mixup:
                return cross_entropy(module(x), y)
            share = float(torch.distributions.Beta(self.mixup, self.mixup).sample())
            other = torch.randperm(len(x)).to(x.device)
            logits = module(share * x + (1 - share) * x[other])
            # eq. 2 of mixup; mixing losses is mixing one-hot labels
            return share * cross_entropy(logits, y) + (1 - share) * cross_entropy(logits, y[other])

        return lambda epoch: loss  # noqa: ARG005 (the same in all epochs)


@dataclass(frozen=True, slots=True)
class _MovedCrossEntropy:
    shift: int
    flip: bool

    def against(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], BatchLoss]:
        """The loss of moved images; no attacker learns beside the model."""
        del held_out

        def loss(rows: torch.Tensor) -> torch.Tensor:
            x, y = data.batch(rows)
            down, right = (torch.randint(-self.shift, self.shift + 1, (len(x),)) for _ in "dr")
            mirrored = torch.rand(len(x)) < 0.5 * self.flip
            return cross_entropy(module(move_images(x, down, right, mirrored)), y)

        return lambda epoch: loss  # noqa: ARG005 (the same in all epochs)


def move_images(
    x: torch.Tensor, down: torch.Tensor, right: torch.Tensor, mirrored: torch.Tensor
) -> torch.Tensor:
    """Images that are mirrored and then shifted; the pixels at the edge are repeated.

    Args:
        x: images, shape (records, height, width) or (records, channels, height, width).
        down: by how many pixels each is shifted down, shape (records,).
        right: by how many to the right, shape (records,).
        mirrored: which are mirrored from left to right, shape (records,).
    """
    height, width = x.shape[-2:]
    # departure: clamping repeats the edge, which the paper fills with zeros
    rows = (torch.arange(height) - down[:, None]).clamp(0, height - 1)
    columns = (torch.arange(width) - right[:, None]).clamp(0, width - 1)
    columns = torch.where(mirrored[:, None], width - 1 - columns, columns)
    places = torch.arange(len(x))[:, None, None], rows[:, :, None], columns[:, None, :]
    record, row, column = (place.to(x.device) for place in places)
    if x.ndim == 3:
        return x[record, row, column]
    return x[record, :, row, column].permute(0, 3, 1, 2)
