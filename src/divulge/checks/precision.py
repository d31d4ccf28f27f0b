"""Was one of the two sets written with fewer digits than the other?

Another program, or another type of number, rounds and saturates otherwise, and attacks see that. It
shows where all values of one set are multiples of a unit, or numbers of a smaller type, and at most
half of the other set's values are: models that have few answers give them to both sets.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.extras import stats
from divulge.checks.blind_baseline import FALSE_ALARM
from divulge.core import Check, Verdict
from divulge.core.check_names import PRECISION

FEWEST, DISTINCT = 20, 10
"""Values of each set, and different ones, below which nothing is said of it."""

LOOKED_AT = 500
"""Values of each set that are looked at."""

_DECIMALS, _ROUNDED = range(-2, 9), range(1, 6)
"""Decimals of values, and of probabilities."""

_TYPES = {"float16": np.float16, "float32": np.float32}

_TELLING = 0.05
"""Of the step between two multiples, what rounding may be so that other numbers are seen."""

_AROUND = np.arange(-10, 11)
"""Rounded probabilities that were divided by their sum are multiples of about a power of ten."""

Mask = Bool[np.ndarray, " records"]


class Coarser(NamedTuple):
    """Where one set has fewer digits than the other."""

    what: str
    """The name of a column, or what else the values are."""
    members: bool
    """Whether members have fewer digits."""
    unit: str
    """What the values of that set are."""
    p_value: float
    """The chance that all values of some set are, in some column, if sets are drawn at random."""


def choose(member: Mask) -> Int[np.ndarray, " chosen"]:
    """The records that are looked at: the first of each set."""
    return np.sort(np.concatenate([np.flatnonzero(m)[:LOOKED_AT] for m in (member, ~member)]))


def compare_columns(
    x: Float64[np.ndarray, "records columns"], member: Mask, names: Sequence[str] = ()
) -> Coarser | None:
    """The column whose values have fewer digits in one set; None where there is none.

    Args:
        x: the values.
        member: which records are members.
        names: of the columns, where they have any.
    """
    tests = 2 * x.shape[1] * (len(_DECIMALS) + len(_TYPES))
    results = []
    for unit, fits in _units(x):
        differs = fits[member].all(axis=0) != fits[~member].all(axis=0)
        for column in np.flatnonzero(differs).tolist():
            what = names[column] if names else f"column {column}"
            results.append(_compare(x[:, [column]], fits[:, column], member, what, unit, tests))
    return min(filter(None, results), key=lambda result: result.p_value, default=None)


def compare_probabilities(
    answers: Float64[np.ndarray, "records classes"], member: Mask
) -> Coarser | None:
    """As `compare_columns`, of probabilities, all of a record's together."""
    tests = 2 * len(_ROUNDED)
    for decimals in _ROUNDED:
        fits = np.zeros(len(answers), bool)
        for whole in 10**decimals + _AROUND:
            fits |= _are_multiples(answers, float(max(1, whole))).all(axis=1)
        unit = f"multiples of {10.0**-decimals:g}"
        coarser = _compare(answers, fits, member, "the answers", unit, tests)
        if coarser is not None:
            return coarser
    return None


def warn(coarser: Coarser) -> Check:
    """The warning about one set with fewer digits."""
    coarse, fine = ("members", "non-members")[:: 1 if coarser.members else -1]
    text = (
        f"In {coarser.what}, all values of the {coarse} are {coarser.unit}, and most of the {fine} "
        f"are not (p = {coarser.p_value:.2g}): attacks may see who wrote a record. Write both sets "
        "with one program, with the same digits."
    )
    return Check(PRECISION, Verdict.WARNING, text)


def _units(
    x: Float64[np.ndarray, "records columns"],
) -> list[tuple[str, Bool[np.ndarray, "records columns"]]]:
    decimals = [
        (f"multiples of {10.0**-places:g}", _are_multiples(x, 10.0**places)) for places in _DECIMALS
    ]
    with np.errstate(over="ignore"):
        return decimals + [
            (f"numbers of type {name}", x == x.astype(dtype)) for name, dtype in _TYPES.items()
        ]


def _are_multiples(
    x: Float64[np.ndarray, "records columns"], whole: float
) -> Bool[np.ndarray, "records columns"]:
    """Whether numbers are multiples of 1 / whole, up to what float32 rounds.

    In a column with numbers so large that rounding alone makes them multiples, all count as such.
    """
    scaled = x * whole
    rounding = 1e-7 * np.maximum(1, np.abs(scaled))
    untold = rounding.max(axis=0, initial=0.0) > _TELLING
    return np.asarray((np.abs(scaled - np.rint(scaled)) <= rounding) | untold)


def _compare(
    values: Float64[np.ndarray, "records columns"],
    fits: Mask,
    member: Mask,
    what: str,
    unit: str,
    tests: int,
) -> Coarser | None:
    for members, coarse in ((True, member), (False, ~member)):
        sizes = int(coarse.sum()), int((~coarse).sum())
        off = int((~fits[~coarse]).sum())
        if (
            min(sizes) >= FEWEST
            and fits[coarse].all()
            and 2 * off >= sizes[1]
            and len(np.unique(values[coarse], axis=0)) >= DISTINCT
        ):
            p_value = min(1.0, tests * float(stats.hypergeom.pmf(0, sum(sizes), off, sizes[0])))
            return Coarser(what, members, unit, p_value) if p_value <= FALSE_ALARM else None
    return None
