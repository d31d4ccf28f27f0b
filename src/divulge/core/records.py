"""`Records` holds labelled data, checked once when it is made."""

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int, Real, Shaped

from divulge._util.arguments import check_arguments
from divulge.errors import DataError

LARGEST_VALUE = 1e100
"""The largest size of a true value, or of a regression model's answer: squares of them are finite.
"""

STRATA = ("lowest fifth", "second fifth", "middle fifth", "fourth fifth", "highest fifth")
"""Names of the groups in which records of regression are compared, by their true values."""

TEXT_CLASSES = ("its tokens", "others")
"""The classes of texts without labels, of which a language model is asked how likely their tokens
are: all are of the first one."""


@runtime_checkable
class Encoding(Protocol):
    """How records that are no array of numbers stand as one, and how a model gets them back."""

    @property
    def text(self) -> str:
        """What the numbers are that describe a record; empty where they are the record."""
        ...

    def decode(self, x: Shaped[np.ndarray, "records *features"]) -> Any:
        """The records that stand in this array, as the model takes them.

        Raises:
            DataError: one of them is not known.
        """
        ...

    def features(
        self, x: Shaped[np.ndarray, "records *features"]
    ) -> Float64[np.ndarray, "records columns"]:
        """Numbers that describe these records, for checks and attacks that need them.

        Raises:
            DataError: one of them is not known.
        """
        ...

    def arranged(self, columns: tuple[str, ...]) -> "Encoding":
        """The same with the columns in this order."""
        ...

    def joined(self, other: "Encoding") -> "Encoding":
        """One for the records of both.

        Raises:
            DataError: the records are of two kinds.
        """
        ...


@check_arguments
@dataclass(frozen=True, slots=True)
class Records:
    """Labelled data. The arrays are taken as read-only views, never copied.

    Raises:
        DataError: the lengths differ, a feature is not a finite number, a label is negative, a true
            value is not finite, or there are more or fewer names than columns.
    """

    x: Shaped[np.ndarray, "records *features"]
    """Numbers; hashes of their content where records are texts, mixed tables and the like."""
    y: Real[np.ndarray, " records"]
    """Classes, from 0, as whole numbers; or true values of regression, as floating-point ones."""
    columns: tuple[str, ...] = ()
    """The names of the features, where they have any."""
    encoding: Encoding | None = None
    """How the model gets the records; None where it gets ``x``."""
    classes: tuple[Any, ...] = ()
    """The user's label of each class; empty where labels are the numbers in ``y``."""
    group: Int[np.ndarray, " records"] | None = None
    """Whose record each is, by a number; None where each is somebody else's."""
    subpopulation: Int[np.ndarray, " records"] | None = None
    """The subpopulation that exposure is compared by, such as a site, by a number; None without."""

    def __post_init__(self) -> None:
        if self.x.ndim == 0 or len(self.x) != len(self.y):
            raise DataError(
                f"expected one label per record, got x of shape {self.x.shape} and "
                f"{len(self.y)} labels: pass arrays of equal length"
            )
        if self.x.dtype.kind not in "fiub" and (self.encoding is None or self.x.dtype.kind != "S"):
            raise DataError(
                f"expected numeric features, got an array of type {self.x.dtype}: "
                "give the records as a pair (x, y), which may hold texts and mixed data frames"
            )
        self._check_numbers()
        if self.columns and self.x.shape[1:] != (len(self.columns),):
            raise DataError(
                f"expected a name for each column, got {len(self.columns)} names for records of "
                f"shape {self.x.shape[1:]}: name all columns or none"
            )
        for name in ("group", "subpopulation"):
            numbers = getattr(self, name)
            if numbers is not None and len(numbers) != len(self.y):
                raise DataError(
                    f"expected one {name} per record, got {len(numbers)} for {len(self.y)} "
                    "records: pass arrays of equal length"
                )
        for name in ("x", "y", "group", "subpopulation"):
            if (array := getattr(self, name)) is not None:
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def _check_numbers(self) -> None:
        """Refuse features and labels that no model can be trained on."""
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
        if self.regression:
            # also false for NaN, whose comparisons are
            usable = np.abs(self.y) <= LARGEST_VALUE
            if not usable.all():
                raise DataError(
                    f"expected true values of size {LARGEST_VALUE:g} at most, got NaN, infinity or "
                    f"larger ones in {(~usable).sum()} records, the first at index "
                    f"{int(usable.argmin())}: drop these records, as for training"
                )
        elif len(self.y) and self.y.min() < 0:
            raise DataError(
                f"expected labels from 0, got {self.y.min()}: encode classes as 0, 1, 2..."
            )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def regression(self) -> bool:
        """Whether ``y`` holds true values that a model answers with a number, and not classes."""
        return self.y.dtype.kind == "f"

    @property
    def unlabelled_texts(self) -> bool:
        """Whether they are texts that a language model is trained on."""
        return self.classes == TEXT_CLASSES

    @property
    def people(self) -> Int[np.ndarray, " records"] | None:
        """Whose record each is, by a number from 0 in the order in which people appear.

        None where each record is somebody else's.
        """
        if self.group is None:
            return None
        _, first, person = np.unique(self.group, return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return rank[person]

    @property
    def stratum(self) -> Int[np.ndarray, " records"]:
        """The class of each record; of true values, in which of `STRATA` each is, from 0."""
        if not self.regression:
            return self.y
        limits = np.quantile(self.y, np.arange(1, len(STRATA)) / len(STRATA)) if len(self) else []
        return np.searchsorted(limits, self.y).astype(np.int64)

    def take(self, index: Shaped[np.ndarray, " chosen"]) -> "Records":
        """The records at these positions (or where this mask is true), copied."""
        chosen = {
            name: numbers[index]
            for name in ("group", "subpopulation")
            if (numbers := getattr(self, name)) is not None
        }
        return replace(self, x=self.x[index], y=self.y[index], **chosen)

    def rows(self) -> Any:
        """The records as the model takes them."""
        return self.x if self.encoding is None else self.encoding.decode(self.x)

    def labels(self) -> Shaped[np.ndarray, " records"]:
        """The user's labels, one a record."""
        if not self.classes:
            return self.y
        alike = len({type(label) for label in self.classes}) == 1
        if alike and isinstance(self.classes[0], str | int | float):
            return np.asarray(np.array(self.classes)[self.y])
        labels = np.empty(len(self.classes), object)
        labels[:] = self.classes
        return np.asarray(labels[self.y])

    def features(self) -> Float64[np.ndarray, "records columns"]:
        """Numbers that describe the records, flat."""
        if self.encoding is None:
            return np.asarray(self.x.reshape(len(self), -1), dtype=np.float64)
        return self.encoding.features(self.x)

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
        for names, other, what in (
            (columns, self.columns, "lack {name!r}"),
            (self.columns, columns, "have {name!r} besides"),
        ):
            known = set(other)
            for name in names:
                if name not in known:
                    raise DataError(
                        f"expected the columns of {like}, {', '.join(columns[:20])}; got records "
                        f"that {what.format(name=name)}: columns are matched by name"
                    )
        if len(set(columns)) < len(columns) or len(columns) != len(self.columns):
            raise DataError(
                f"expected each column of {like} once, got a name twice, and not in the same "
                "order everywhere: give each column a name of its own"
            )
        encoding = None if self.encoding is None else self.encoding.arranged(columns)
        places = {name: place for place, name in enumerate(self.columns)}
        x = self.x[:, [places[name] for name in columns]]
        return replace(self, x=x, columns=columns, encoding=encoding)

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
        if (self.x.dtype.kind == "S") != (other.x.dtype.kind == "S") or (
            self.classes != other.classes
        ):
            raise DataError(
                "expected all records in one kind of container, with labels of one kind, got two: "
                "prepare members, non-members and reference records in the same way"
            )
        return Records(
            np.concatenate([self.x, other.x]),
            np.concatenate([self.y, other.y]),
            self.columns or other.columns,
            _join_encodings(self.encoding, other.encoding),
            self.classes,
            _join_numbers(self.group, other.group),
            _join_numbers(self.subpopulation, other.subpopulation),
        )


def _join_numbers(
    first: Int[np.ndarray, " records"] | None, second: Int[np.ndarray, " others"] | None
) -> Int[np.ndarray, " joined"] | None:
    if first is None or second is None:
        return None
    return np.concatenate([first, second])


def _join_encodings(first: Encoding | None, other: Encoding | None) -> Encoding | None:
    if first is None or other is None or first is other:
        return first or other
    return first.joined(other)
