"""Describe which features of a record an attacker knows, as masks that are True where known."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import Literal

import numpy as np
from jaxtyping import Bool

from divulge._util.arguments import check_arguments
from divulge.core import Records
from divulge.errors import DataError, SpecError, did_you_mean

Pattern = Literal["random", "pixels", "block", "rows", "columns", "telling-columns"]
Fill = Literal["gaussian", "local", "neighbours", "mean", "global-mean", "zero"]

SHARED: tuple[Pattern, ...] = ("columns", "telling-columns")
"""Patterns that hide the same features of every record."""

ONE_WAY: tuple[str, ...] = ("mean", "global-mean", "zero")
"""Fills that know one completion."""

_GRID_AXES = range(2, 5)


@check_arguments
@dataclass(frozen=True, slots=True)
class KnownFeatures:
    """What an attacker knows of each candidate, and how it fills in the rest.

    Args:
        columns: names of known columns, or patterns such as ``"job=*"``. Either these, or
            ``share``.
        share: how much of each candidate is known, from 0 to 1.
        pattern: where the known share lies. ``random``: features of each record by itself;
            ``pixels``: the same, with all channels of a pixel together; ``block``: all but a
            rectangle of the image, or a run of the flat record, somewhere in each record;
            ``rows``: the first rows of the image, or first features; ``columns``: the same
            features of every record, drawn once; ``telling-columns``: all but those that tell the
            class best in the reference records.
        fill: how the rest is filled in, by the attacker's own reference records: see
            `divulge.data.imputation.impute`. ``chosen`` takes the fill with the smallest error on
            them, each half filled in from the other.
        completions: how many filled-in versions of each candidate are made and queried.
        one_hot: groups of columns of which exactly one is 1, each a pattern such as ``"job=*"``.
        grid: shape in which the features of a flat record are neighbours, channels first, such as
            ``(1, 28, 28)``; the records' own shape, unless given.

    Raises:
        SpecError: there is no such pattern or fill, or a number makes no sense.
    """

    columns: tuple[str, ...] = ()
    share: float | None = None
    pattern: Pattern = "random"
    fill: Fill | Literal["chosen"] = "chosen"
    completions: int = 1
    one_hot: tuple[str, ...] = ()
    grid: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.columns) == (self.share is not None):
            raise SpecError(
                f"expected columns or a share of known features, got columns={self.columns} and "
                f"share={self.share}: say one of them"
            )
        if self.share is not None and not 0 <= self.share <= 1:
            raise SpecError(f"expected a known share from 0 to 1, got {self.share}: correct it")
        if self.completions < 1:
            raise SpecError(f"expected completions from 1, got {self.completions}: raise it")
        if self.grid and (len(self.grid) not in _GRID_AXES or min(self.grid) < 1):
            raise SpecError(
                "expected grid as channels and one to three axes of places, such as [1, 28, 28], "
                f"got {list(self.grid)}"
            )
        if self.completions > 1 and self.fill in ONE_WAY:
            raise SpecError(
                f"expected one completion with fill={self.fill!r}, which knows one way, got "
                f'{self.completions}: use "local", "gaussian" or "neighbours"'
            )

    def mask(
        self,
        shape: tuple[int, ...],
        names: tuple[str, ...],
        rng: np.random.Generator,
        reference: Records | None = None,
    ) -> Bool[np.ndarray, "records *features"]:
        """True where a feature is known.

        Args:
            shape: the shape of all records' features, (records, ...).
            names: the names of the columns; empty where they have none.
            rng: the generator that draws what differs from record to record.
            reference: the attacker's own records, for ``telling-columns``.

        Raises:
            DataError: there are no such columns, the grid does not fit the records, reference
                records are missing, or nothing is known.
        """
        known = self._mask(shape, names, rng, reference)
        if known.size and not known.any():
            raise DataError(
                f"expected one known feature of a record or more, got none by share={self.share} "
                f"of {prod(shape[1:])}: who knows none asks the same about all records of a class; "
                "raise share"
            )
        return known

    def _mask(
        self,
        shape: tuple[int, ...],
        names: tuple[str, ...],
        rng: np.random.Generator,
        reference: Records | None,
    ) -> Bool[np.ndarray, "records *features"]:
        if self.columns:
            positions = [
                column for pattern in self.columns for column in match_columns(pattern, names)
            ]
            return column_mask(shape, positions)
        assert self.share is not None
        if self.pattern == "telling-columns":
            return telling_mask(shape, 1 - self.share, reference)
        hide = _MASKS[self.pattern]
        return hide(self.laid_out(shape), 1 - self.share, rng).reshape(shape)

    def laid_out(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape (records, ...) with features as the grid has them.

        Raises:
            DataError: the grid has more or fewer features than a record.
        """
        if not self.grid:
            return shape
        if prod(self.grid) != prod(shape[1:]):
            raise DataError(
                f"expected a grid of the {prod(shape[1:])} features of a record, got "
                f"{list(self.grid)}, which is {prod(self.grid)}: correct it"
            )
        return (shape[0], *self.grid)

    def groups(self, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """The positions of the columns in each one-hot group.

        Raises:
            DataError: there are no such columns.
        """
        return tuple(match_columns(pattern, names) for pattern in self.one_hot)


def match_columns(pattern: str, names: tuple[str, ...]) -> tuple[int, ...]:
    """Positions of the columns that a name or pattern means; a number counts columns from 0.

    Examples:
        >>> match_columns("job=*", ("age", "job=cook", "job=smith"))
        (1, 2)

    Raises:
        DataError: there are none.
    """
    positions = tuple(k for k, name in enumerate(names) if fnmatchcase(name, pattern))
    if not positions:
        hint = did_you_mean(pattern, names) if names else "these records have no names of columns"
        raise DataError(f"expected the name of a column, got {pattern!r}: {hint}")
    return positions


def column_mask(
    shape: tuple[int, ...], positions: list[int]
) -> Bool[np.ndarray, "records *features"]:
    """The same columns of every record."""
    known = np.zeros(shape[1:], np.bool_)
    known.reshape(-1)[positions] = True
    return np.broadcast_to(known, shape)


def random_mask(
    shape: tuple[int, ...], missing: float, rng: np.random.Generator
) -> Bool[np.ndarray, "records *features"]:
    """All but a share of the features, drawn for each record by itself."""
    count = int(np.prod(shape[1:]))
    places = np.argsort(rng.random((shape[0], count)), axis=1)
    known: np.ndarray = places >= round(missing * count)
    return known.reshape(shape)


def pixel_mask(
    shape: tuple[int, ...], missing: float, rng: np.random.Generator
) -> Bool[np.ndarray, "records *features"]:
    """All but a share of the pixels, with all their channels; of flat records, of the features."""
    channels = 1 if len(shape) > 3 else 0
    single_channel = (shape[0], *(1,) * channels, *shape[1 + channels :])
    return np.broadcast_to(random_mask(single_channel, missing, rng), shape)


def block_mask(
    shape: tuple[int, ...], missing: float, rng: np.random.Generator
) -> Bool[np.ndarray, "records *features"]:
    """All but a rectangle of each image, somewhere; of flat records, all but a run of features.

    The rectangle has the image's proportions, up to rounding of its sides.
    """
    sides = shape[-2:] if len(shape) > 2 else shape[-1:]
    known = np.ones(shape, np.bool_)
    lengths = [round(side * missing ** (1 / len(sides))) for side in sides]
    for row in known:
        starts = [rng.integers(side - n + 1) for side, n in zip(sides, lengths, strict=True)]
        hidden = (slice(s, s + n) for s, n in zip(starts, lengths, strict=True))
        row[(..., *hidden)] = False
    return known


def row_mask(
    shape: tuple[int, ...], missing: float, rng: np.random.Generator
) -> Bool[np.ndarray, "records *features"]:
    """The first rows of every image; of flat records, the first features."""
    del rng
    axis = -2 if len(shape) > 2 else -1
    known = np.ones(shape, np.bool_)
    first = shape[axis] - round(missing * shape[axis])
    np.moveaxis(known, axis, 0)[first:] = False
    return known


def drawn_columns(
    shape: tuple[int, ...], missing: float, rng: np.random.Generator
) -> Bool[np.ndarray, "records *features"]:
    """All but a share of the features, the same of every record."""
    row = random_mask((1, *shape[1:]), missing, rng)
    return np.broadcast_to(row, shape)


def telling_mask(
    shape: tuple[int, ...], missing: float, reference: Records | None
) -> Bool[np.ndarray, "records *features"]:
    """All but the share of features that tell the class best in the reference records.

    That is the share of a feature's variance that lies between classes.

    Raises:
        DataError: there are no reference records.
    """
    if reference is None or len(reference) == 0:
        raise DataError(
            'expected reference records for pattern = "telling-columns", got none: give some, or '
            'use pattern = "columns"'
        )
    x = np.asarray(reference.x.reshape(len(reference), -1), dtype=np.float64)
    x = x - x.mean(axis=0)
    between = np.zeros(x.shape[1])
    for label in np.unique(reference.stratum):
        rows = reference.stratum == label
        between += rows.mean() * x[rows].mean(axis=0) ** 2
    variance = x.var(axis=0)
    ratio = np.divide(between, variance, out=np.zeros_like(between), where=variance > 0)
    known = np.ones(x.shape[1], np.bool_)
    known[np.argsort(-ratio, kind="stable")[: round(missing * len(known))]] = False
    return np.broadcast_to(known.reshape(shape[1:]), shape)


_MASKS = {
    "random": random_mask,
    "pixels": pixel_mask,
    "block": block_mask,
    "rows": row_mask,
    "columns": drawn_columns,
}
"""Masks by pattern, but for the one that depends on records."""
