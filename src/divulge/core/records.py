"""`Records` holds labelled data, checked once when it is made."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from divulge.errors import DataError


@dataclass(frozen=True, slots=True)
class Records:
    """Labelled data. The arrays are taken as read-only views, never copied.

    Raises:
        DataError: the lengths differ, a feature is not a finite number, a label is negative.
    """

    x: Shaped[np.ndarray, "records *features"]
    y: Int[np.ndarray, " records"]

    def __post_init__(self) -> None:
        if self.x.ndim == 0 or len(self.x) != len(self.y):
            raise DataError(
                f"expected one label per record, got x of shape {self.x.shape} and "
                f"{len(self.y)} labels: pass arrays of equal length"
            )
        if self.x.dtype.kind not in "fiub":
            raise DataError(
                f"expected numeric features, got an array of type {self.x.dtype}: "
                "encode text and categories as numbers first"
            )
        if self.x.dtype.kind == "f":
            # A finite sum proves finite terms, at the price of one pass without a copy.
            with np.errstate(all="ignore"):
                suspicious = not np.isfinite(self.x.sum(dtype=np.float64))
            if suspicious and not np.isfinite(self.x).all():
                rows = ~np.isfinite(self.x.reshape(len(self.x), -1)).all(axis=1)
                raise DataError(
                    f"expected finite features, got NaN or infinity in {rows.sum()} records, "
                    f"the first at index {int(rows.argmax())}: impute or drop them, as for training"
                )
        if len(self.y) and self.y.min() < 0:
            raise DataError(
                f"expected labels from 0, got {self.y.min()}: encode classes as 0, 1, 2..."
            )
        for name in ("x", "y"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Shaped[np.ndarray, " chosen"]) -> "Records":
        """The records at these positions (or where this mask is true), copied."""
        return Records(self.x[index], self.y[index])

    def joined(self, other: "Records") -> "Records":
        """These records followed by the others.

        Raises:
            DataError: the two do not have the same features.
        """
        if self.x.shape[1:] != other.x.shape[1:]:
            raise DataError(
                f"expected records of one shape, got {self.x.shape[1:]} and {other.x.shape[1:]}: "
                "prepare members, non-members and reference records in the same way"
            )
        return Records(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]))
