"""What the types of arrays and columns hold: numbers, dates, texts, and which go together.

NumPy, pandas and polars join columns of unlike types in ways of their own: numbers beside texts
become texts, dates beside numbers an error or objects. A model would get other records than it was
trained on.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from divulge.errors import DataError

OBJECTS: Final = "objects"

_KINDS: Final = {
    **dict.fromkeys("fiub", "numbers"),
    "M": "dates",
    "m": "durations",
    "c": "complex numbers",
    "U": "texts",
    "T": "texts",
    "S": "bytes",
    "O": OBJECTS,
}
_INFERRED: Final = {
    **dict.fromkeys(("floating", "integer", "mixed-integer-float", "boolean"), "numbers"),
    **dict.fromkeys(("datetime", "datetime64"), "dates"),
    "date": "dates without a time",
    "period": "periods",
    **dict.fromkeys(("timedelta", "timedelta64"), "durations"),
    "complex": "complex numbers",
    "string": "texts",
    "bytes": "bytes",
}
"""By what pandas calls the values of a column of objects; all else may be anything."""

_JOINED: Final = ({OBJECTS, "numbers"}, {OBJECTS, "texts"}, {OBJECTS, "numbers", "texts"})
"""Kinds that stay what they are side by side, among objects."""


def kind_of_dtype(dtype: Any) -> str:
    """What a type of NumPy, pandas or polars holds, in a few words."""
    kind = getattr(dtype, "kind", None)
    zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    if zone is not None:  # beside others pandas makes objects of them, which are other records
        return f"dates in the time zone {zone}"
    if kind is not None:
        return _KINDS.get(kind, f"records of type {str(dtype)[:80]}")
    if dtype.is_numeric() or str(dtype) == "Boolean":
        return "numbers"
    text = str(dtype).partition("(")[0]
    named = {"Date": "dates", "Datetime": "dates", "String": "texts", "Categorical": "texts",
             "Enum": "texts"}  # fmt: skip
    return named.get(text, f"values of type {str(dtype)[:80]}")


def kind_of_series(series: Any) -> str:
    """What a column of a data frame holds; of objects, what all of them are."""
    kind = kind_of_dtype(series.dtype)
    if kind != OBJECTS or not hasattr(series, "isna"):
        return kind
    from pandas.api.types import infer_dtype

    return _INFERRED.get(infer_dtype(series, skipna=True), OBJECTS)


def join_arrays(parts: Sequence[np.ndarray], what: str) -> np.ndarray:
    """Arrays one after the other.

    Args:
        parts: the arrays.
        what: what they hold, for the message.

    Raises:
        DataError: they hold unlike kinds, or records of unlike shapes.
    """
    refuse_unlike_kinds([kind_of_dtype(part.dtype) for part in parts], what)
    if len(shapes := {part.shape[1:] for part in parts}) > 1:
        raise DataError(
            f"expected {what} of one shape, got {' and '.join(map(str, sorted(shapes)))}: encode, "
            "or pad, all records alike"
        )
    return np.concatenate(parts)


def refuse_unlike_kinds(kinds: Sequence[str], what: str) -> None:
    """Refuse what cannot be joined without becoming something else.

    Args:
        kinds: what the parts hold, as `kind_of_dtype` says.
        what: what they are, for the message.

    Raises:
        DataError: the kinds are unlike.
    """
    different = list(dict.fromkeys(kinds))
    if len(different) > 1 and set(different) not in _JOINED:
        raise DataError(
            f"expected {what} of one type in members, non-members and all other records, got "
            f"{' and '.join(different)}: prepare them in the same way"
        )


def refuse_unlike_columns(frames: Sequence[Any]) -> None:
    """Refuse frames in which a column is of unlike kinds; objects hold anything.

    Raises:
        DataError: one is.
    """
    types = [dict(zip(frame.columns, frame.dtypes, strict=True)) for frame in frames]
    for name, first in types[0].items():
        if all(each[name] == first for each in types):
            continue
        kinds = [kind_of_series(frame[name]) for frame in frames if not _is_empty(frame[name])]
        refuse_unlike_kinds([kind for kind in kinds if kind != OBJECTS], f"column {str(name)!r}")


def _is_empty(series: Any) -> bool:
    """Whether a column of a frame holds no value."""
    if hasattr(series, "null_count"):
        return bool(series.null_count() == len(series))
    return bool(series.isna().all())
