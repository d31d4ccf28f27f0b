"""Augment images: an attacker may query a model with these besides the image itself."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from divulge._util.contents import quote_error
from divulge.core import Records
from divulge.data.encoding import refuse_encoded
from divulge.errors import DataError, SpecError, did_you_mean

Augmentation = Callable[[Any], Any]
"""A function from features to changed features of the same shape."""

AUGMENTATIONS: dict[str, Augmentation] = {
    "mirror": lambda x: x[..., ::-1],
    "shift-up": lambda x: np.concatenate([x[..., 1:, :], x[..., -1:, :]], axis=-2),
    "shift-down": lambda x: np.concatenate([x[..., :1, :], x[..., :-1, :]], axis=-2),
    "shift-left": lambda x: np.concatenate([x[..., 1:], x[..., -1:]], axis=-1),
    "shift-right": lambda x: np.concatenate([x[..., :1], x[..., :-1]], axis=-1),
}
"""Augmentations by name, of images whose last two axes are height and width.

Shifts are by one pixel, and repeat the row or column at the edge that they leave.
"""


def check_augmentation(name: str) -> None:
    """Refuse a way that does not exist.

    Raises:
        SpecError: names the ways there are.
    """
    if name not in AUGMENTATIONS:
        hint = did_you_mean(name, AUGMENTATIONS)
        raise SpecError(
            f"expected a way to see an image otherwise, got {name!r}: {hint}; or name a function "
            "of features as file.py:name"
        )


def augment(records: Records, ways: Iterable[str | Augmentation]) -> tuple[Records, ...]:
    """The records seen in each of these ways, with their labels, in the same order.

    Args:
        records: images where an augmentation has a name; else whatever the function takes.
        ways: names of augmentations, or functions from features to features of the same shape.

    Examples:
        >>> image = Records(np.array([[[1, 2], [3, 4]]]), np.array([0]))
        >>> [other.x.tolist() for other in augment(image, ["mirror", "shift-up"])]
        [[[[2, 1], [4, 3]]], [[[3, 4], [3, 4]]]]

    Raises:
        SpecError: there is no such way.
        DataError: the records are not images, or a function returned something else.
    """
    return tuple(_augment_once(records, way) for way in ways)


def _augment_once(records: Records, way: str | Augmentation) -> Records:
    refuse_encoded(records, "augment")
    if isinstance(way, str):
        check_augmentation(way)
        _check_images(records.x.shape, way)
        return replace(records, x=np.ascontiguousarray(AUGMENTATIONS[way](records.x)))
    name = getattr(way, "__name__", type(way).__name__)
    try:
        x = np.asarray(way(records.x))
    except Exception as error:
        raise DataError(
            f"expected {name} to see records otherwise, got {type(error).__name__}: "
            f"{quote_error(error)}: call it on the features yourself"
        ) from error
    if x.shape != records.x.shape:
        raise DataError(
            f"expected {name} to keep the shape {records.x.shape}, got {x.shape}: "
            "return one changed record for each"
        )
    return replace(records, x=x)


def _check_images(shape: tuple[int, ...], way: str) -> None:
    advice = "reshape or transpose them, or pass a function of your own"
    if len(shape) not in (3, 4) or min(shape[-2:]) < 2:
        raise DataError(
            f"expected images to {way}, of shape (records, height, width) or (records, channels, "
            f"height, width), got {shape}: {advice}"
        )
    if len(shape) == 4 and shape[3] <= 4 < shape[1]:
        raise DataError(
            f"expected images to {way} with height and width as their last axes, got {shape}, "
            f"which looks like channels last: {advice}"
        )
