"""Check updates, flatten them to one long vector, and split it again."""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Shaped

from divulge.core import Update
from divulge.errors import DataError


def check_update(
    update: Update,
    who: str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    masked: bool = False,
) -> None:
    """Make sure that this is an update.

    Args:
        update: what a client has, or what arrived from it.
        who: the owner of the update, for error messages.
        shapes: the shapes that it should have, by name; None where any will do.
        masked: whether its values are unsigned integers modulo 2^64, of which any will do.

    Raises:
        DataError: it is empty, of other names or shapes, of another type, or not finite.
    """
    if shapes is not None and update.keys() != shapes.keys():
        odd = sorted(update.keys() ^ shapes.keys())
        raise DataError(
            f"expected {who} to have the names of the global weights, got a difference in "
            f"{', '.join(map(repr, odd[:5]))}: send a change for each of the weights"
        )
    if not any(value.size for value in update.values()):
        raise DataError(f"expected {who} to hold numbers, got an empty one: send a change")
    for name, value in update.items():
        if shapes is not None and value.shape != tuple(shapes[name]):
            raise DataError(
                f"expected {name!r} in {who} of shape {tuple(shapes[name])}, got {value.shape}: "
                "send weights of the model that was handed out"
            )
        if masked and value.dtype != np.uint64:
            raise DataError(
                f"expected {name!r} in {who} masked, as uint64, got {value.dtype}: "
                "all clients must use the same defence"
            )
        if not masked and value.dtype.kind != "f":
            raise DataError(
                f"expected {name!r} in {who} of floating point, got {value.dtype}: "
                "leave counters out, and convert the rest"
            )
        if not masked and not np.isfinite(value).all():
            raise DataError(
                f"expected {name!r} in {who} finite, got NaN or infinity in "
                f"{int((~np.isfinite(value)).sum())} of {value.size} entries: "
                "the training diverged, or the client is broken"
            )


def flatten_update(update: Update) -> Float[np.ndarray, " entries"]:
    """All entries in float64, tensors in the order of their names.

    Raises:
        DataError: the update is empty, not of floating point, or not finite.
    """
    check_update(update, "the update")
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
