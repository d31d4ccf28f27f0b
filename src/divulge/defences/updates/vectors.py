"""Check updates, flatten them to one long vector, and split it again."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from divulge.core import Update
from divulge.errors import DataError


def check_update(
    update: Update,
    owner: str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    masked: bool = False,
    finite: bool = True,
) -> None:
    """Make sure that this is an update.

    Args:
        update: what a client has, or what arrived from it.
        owner: the owner of the update, for error messages.
        shapes: the shapes that it should have, by name; None where any will do.
        masked: whether its values are unsigned integers modulo 2^64, of which any will do.
        finite: whether NaN, infinity, and what float64 cannot hold are refused.

    Raises:
        DataError: it is empty, of other names or shapes, of another type, or not finite.
    """
    if shapes is not None and update.keys() != shapes.keys():
        odd = sorted(update.keys() ^ shapes.keys())
        raise DataError(
            f"expected {owner} to have the names of the global weights, got a difference in "
            f"{', '.join(map(repr, odd[:5]))}: send a change for each of the weights"
        )
    if not any(value.size for value in update.values()):
        raise DataError(f"expected {owner} to hold numbers, got an empty one: send a change")
    for name, value in update.items():
        if shapes is not None and value.shape != tuple(shapes[name]):
            raise DataError(
                f"expected {name!r} in {owner} of shape {tuple(shapes[name])}, got {value.shape}: "
                "send weights of the model that was handed out"
            )
        if masked and value.dtype != np.uint64:
            raise DataError(
                f"expected {name!r} in {owner} masked, as uint64, got {value.dtype}: "
                "all clients must use the same defence"
            )
        if not masked and value.dtype.kind != "f":
            raise DataError(
                f"expected {name!r} in {owner} of floating point, got {value.dtype}: "
                "leave counters out, and convert the rest"
            )
        if not masked and finite and not _finite(value).all():
            raise DataError(
                f"expected {name!r} in {owner} finite, got NaN or infinity in "
                f"{int((~_finite(value)).sum())} of {value.size} entries: "
                "the training diverged, or the client is broken"
            )


def zeros_unless_finite(update: Update) -> Update:
    """The update, or zeros in its place where one entry is NaN or infinite.

    Where a defence promises something, an update is not refused for its numbers: an error, or a
    round that ends, would say something of one client that no noise covers.
    """
    if all(_finite(value).all() for value in update.values()):
        return update
    return zeros_like(update)


def zeros_like(update: Update) -> dict[str, np.ndarray]:
    """What a client sends that changes nothing."""
    return {name: np.zeros_like(value) for name, value in update.items()}


def _finite(value: np.ndarray) -> Bool[np.ndarray, "..."]:
    """Which entries are finite in float64: all is computed in it."""
    if value.dtype.itemsize > np.dtype(np.float64).itemsize:
        with np.errstate(over="ignore"):
            value = value.astype(np.float64)
    return np.asarray(np.isfinite(value))


def flatten_update(update: Update, *, finite: bool = True) -> Float[np.ndarray, " entries"]:
    """All entries in float64, tensors in the order of their names.

    Args:
        update: what a client has.
        finite: whether an update that is not finite is refused.

    Raises:
        DataError: the update is empty, not of floating point, or not finite.
    """
    check_update(update, "the update", finite=finite)
    with np.errstate(over="ignore"):  # of a type that is wider yet
        return np.concatenate([update[name].ravel().astype(np.float64) for name in sorted(update)])


def split_vector(
    vector: Shaped[np.ndarray, " entries"], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """What was flattened, as tensors of these shapes."""
    names = sorted(shapes)
    ends = np.cumsum([math.prod(shapes[name]) for name in names])
    parts = dict(zip(names, np.split(vector, ends[:-1]), strict=True))
    return {name: parts[name].reshape(shape) for name, shape in shapes.items()}


def cast_like(tensors: Update, like: Update) -> dict[str, np.ndarray]:
    """These tensors in the floating-point types of an update.

    Raises:
        DataError: a number is too large for its type.
    """
    with np.errstate(over="ignore"):
        narrow = {name: value.astype(like[name].dtype) for name, value in tensors.items()}
    for name, value in narrow.items():
        if not np.isfinite(value).all():
            raise DataError(
                f"expected {name!r} to stay in the range of {value.dtype}, got larger numbers: "
                "clip the update, or convert it to a wider type first"
            )
    return narrow


def split_like(vector: Float[np.ndarray, " entries"], update: Update) -> dict[str, np.ndarray]:
    """What was flattened, as tensors of the shapes and types of this update.

    Raises:
        DataError: a number is too large for its type.
    """
    shapes = {name: value.shape for name, value in update.items()}
    return cast_like(split_vector(vector, shapes), update)


def shrink_like(vector: Float[np.ndarray, " entries"], update: Update) -> dict[str, np.ndarray]:
    """As `split_like`, but each entry is rounded towards zero, so that no norm grows.

    Half precision has steps of 6e-8 around zero: rounded to the nearest, an entry of 3.1e-8 becomes
    twice as large.
    """
    shapes = {name: value.shape for name, value in update.items()}
    return {
        name: _round_towards_zero(value, update[name].dtype)
        for name, value in split_vector(vector, shapes).items()
    }


def _round_towards_zero(value: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        near = value.astype(dtype)
        beyond = np.abs(near.astype(np.float64)) > np.abs(value)
        # a number that rounding made larger goes one step back: norms were clipped before
        return np.asarray(np.where(beyond, np.nextafter(near, np.zeros_like(near)), near))
