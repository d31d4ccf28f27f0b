"""`Records` holds labelled data, checked once when it is made."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from divulge._util.arguments import check_arguments
from divulge.errors import DataError


@check_arguments
@dataclass(frozen=True, slots=True)
class Records:
    """Labelled data. The arrays are taken as read-only views, never copied.

    Raises:
        DataError: the lengths differ, a feature is not a finite number, a label is negative, or
            there are more or fewer names than columns.
    """

    x: Shaped[np.ndarray, "records *features"]
    y: Int[np.ndarray, " records"]
    columns: tuple[str, ...] = ()
    """The names of the features, where they have any."""

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
        if self.columns and self.x.shape[1:] != (len(self.columns),):
            raise DataError(
                f"expected a name for each column, got {len(self.columns)} names for records of "
                f"shape {self.x.shape[1:]}: name all columns or none"
            )
        for name in ("x", "y"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Shaped[np.ndarray, " chosen"]) -> "Records":
        """The records at these positions (or where this mask is true), copied."""
        return Records(self.x[index], self.y[index], self.columns)

    def arranged(self, columns: tuple[str, ...], like: str) -> "Records":
        """The records with their columns in this order; as they are where either has no names.

        Args:
            columns: the names of the columns.
            like: whose names they are, for the message.

        Raises:
            DataError: the columns have other names, or a name stands there twice.
        """
        if not columns or not self.columns or columns == self.columns:
            return self
        for one, other, what in (
            (columns, self.columns, "lack {name!r}"),
            (self.columns, columns, "have {name!r} besides"),
        ):
            for name in one:
                if name not in other:
                    raise DataError(
                        f"expected the columns of {like}, {', '.join(columns[:20])}; got records "
                        f"that {what.format(name=name)}: columns are matched by name"
                    )
        if len(set(columns)) < len(columns) or len(columns) != len(self.columns):
            raise DataError(
                f"expected each column of {like} once, got a name twice, and not in the same "
                "order everywhere: give each column a name of its own"
            )
        return Records(self.x[:, [self.columns.index(n) for n in columns]], self.y, columns)

    def joined(self, other: "Records") -> "Records":
        """These records followed by the others.

        Raises:
            DataError: the two do not have the same features, or name them in another order.
        """
        if other.arranged(self.columns, "the records before them") is not other:
            raise DataError(
                f"expected columns in the order {', '.join(self.columns[:20])}, got "
                f"{', '.join(other.columns[:20])}: put them in one order"
            )
        if self.x.shape[1:] != other.x.shape[1:]:
            raise DataError(
                f"expected records of one shape, got {self.x.shape[1:]} and {other.x.shape[1:]}: "
                "prepare members, non-members and reference records in the same way"
            )
        return Records(
            np.concatenate([self.x, other.x]),
            np.concatenate([self.y, other.y]),
            self.columns or other.columns,
        )
