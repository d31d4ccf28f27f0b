"""Whose record each is, and the subpopulation it is of: columns that are no features.

Names of people are needed to tell which records belong together, and for nothing else. So each is
replaced at once by a number, its hash under a key that is drawn anew in every process: neither the
name nor anything made of it reaches a file.
"""

import hashlib
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from divulge._util import imports
from divulge._util.contents import MISSING, quote_error
from divulge.core import Records
from divulge.data import files, tables
from divulge.data.columns import is_pandas, is_polars
from divulge.errors import DataError, SpecError

MOST_STRATA = 50
"""The most subpopulations that exposure is compared by: more are no groups of people."""

NOT_GIVEN = "not given"
"""The subpopulation of records that have none."""

_KEY = os.urandom(32)

_WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")
"""A whole number as pandas writes it in a column that had a gap once."""

Column = str | Sequence[Any] | Mapping[str, Any]
"""Values of records that are no features: the column of data frames that holds them; or arrays, one
value a record, for each set in turn or by the set's name."""


def number_groups(values: Any, records: int, where: str) -> Int[np.ndarray, " records"]:
    """A number for whose record each is; the same person has the same in all sets.

    Args:
        values: texts or numbers, one a record.
        records: how many there must be.
        where: the name of their source, for error messages.

    Raises:
        DataError: they are no list, not one a record, or one is missing.
    """
    texts = _as_texts(values, records, where)
    if (missing := texts == "").any():
        raise DataError(
            f"expected to be told whose each record is in {where}, got no value, or a "
            f"word for none such as NA, for {int(missing.sum())} records, the first at index "
            f"{int(missing.argmax())}: drop these records, or give each an identifier of its own"
        )
    names, place = np.unique(texts, return_inverse=True)
    numbers = np.array([_hash(name) for name in names.tolist()], np.int64)
    return np.asarray(numbers[place])


def _hash(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8, key=_KEY).digest()
    return int.from_bytes(digest, "big") >> 1


def _as_texts(values: Any, records: int, where: str) -> Shaped[np.ndarray, " records"]:
    """Values as texts, empty where one is missing.

    Whole numbers read alike in any type, also as texts, and letters however they are composed: one
    file of an audit may have other ones than the next.
    """
    try:
        array = _as_array(values)
        nested = array.dtype == object and any(np.ndim(value) for value in array.ravel().tolist())
        if array.shape == (records,) and not nested:
            if array.dtype.kind in "iub":
                return array.astype(np.str_)
            return np.array([_as_text(value) for value in array.tolist()], np.str_)
    except Exception as error:  # the user's own objects may raise anything
        raise DataError(
            f"expected {records} values in {where}, one a record, got what cannot be read: "
            f"{quote_error(error)}; give a list of texts or numbers"
        ) from error
    raise DataError(
        f"expected {records} values in {where}, one a record, got an array of shape "
        f"{array.shape}: give a list in the order of the records"
    )


def _as_array(values: Any) -> np.ndarray:
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if not isinstance(values, list | tuple):
        return np.asarray(values)
    array = np.empty(len(values), object)  # NumPy by itself would make texts of numbers
    array[:] = values
    return array


def _as_text(value: Any) -> str:
    # None, NaN, and pandas' NA and NaT, which are equal to nothing
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, float):
        if value != value:
            return ""
        return str(int(value)) if value.is_integer() else repr(value)
    text = unicodedata.normalize("NFC", str(value).strip())
    whole = _WHOLE.fullmatch(text)
    return "" if text in MISSING else whole[1] if whole else text


def attach(
    sets: Mapping[str, Records | None],
    groups: Mapping[str, Any] | None,
    strata: Mapping[str, Any] | None,
) -> tuple[dict[str, Records | None], tuple[str, ...]]:
    """The sets of records with whose they are and their subpopulation, and the latter's names.

    Args:
        sets: by name; None where there is no such set.
        groups: by the name of a set, whose record each is.
        strata: likewise, the subpopulation of each record.

    Raises:
        DataError: a set has no values, or they do not fit.
        SpecError: a name is none of the sets'.
    """
    given = {name: records for name, records in sets.items() if records is not None}
    names: tuple[str, ...] = ()
    if groups is not None:
        _check_sets(groups, given, "groups", complete=True)
        for name, records in given.items():
            numbers = number_groups(groups[name], len(records), f"groups of {name}")
            given[name] = replace(records, group=numbers)
        _refuse_labels(list(given.values()))
    if strata is not None:
        _check_sets(strata, given, "strata", complete=False)
        texts = {
            name: _as_texts(own, len(given[name]), f"strata of {name}")
            for name, own in strata.items()
        }
        names = _name_strata(texts)
        place = {text: number for number, text in enumerate(names)}
        for name, own in texts.items():
            codes = np.array([place[text or NOT_GIVEN] for text in own.tolist()], np.int64)
            given[name] = replace(given[name], subpopulation=codes)
    return {name: given.get(name) for name in sets}, names


def _check_sets(
    given: Mapping[str, Any], sets: Mapping[str, Records], what: str, *, complete: bool
) -> None:
    """Refuse values for records that there are not, and records without: who knows where they are.

    Raises:
        DataError: a set has no values.
        SpecError: there is no such set.
    """
    if strange := [name for name in given if name not in sets]:
        raise SpecError(
            f"expected {what} for {', '.join(sets)}, got some for {strange[0]}: there are no such "
            "records"
        )
    if complete and (without := [name for name in sets if name not in given]):
        raise DataError(
            f"expected {what} for {' and '.join(sets)}, got none for {without[0]}: say of each set "
            "whose record each is"
        )


def _refuse_labels(sets: Sequence[Records]) -> None:
    """Refuse the column of classes as that of people.

    Raises:
        DataError: each class is one person, and each person one class, in all sets together.
    """
    if any(records.regression for records in sets):
        return
    group = np.concatenate([records.group for records in sets if records.group is not None])
    people, classes = np.unique(group), np.unique(np.concatenate([r.y for r in sets]))
    if len(people) != len(classes) or not 1 < len(people) < len(group):
        return
    pairs = {pair for r in sets if r.group is not None for pair in zip(r.group, r.y, strict=True)}
    if len(pairs) == len(people):
        raise DataError(
            "expected whose record each is in groups, got a column that says the same as the "
            "labels: name the column that identifies people"
        )


def _name_strata(texts: Mapping[str, Shaped[np.ndarray, " records"]]) -> tuple[str, ...]:
    every = sorted(
        {text or NOT_GIVEN for own in texts.values() for text in np.unique(own).tolist()}
    )
    if len(every) > MOST_STRATA:
        raise DataError(
            f"expected at most {MOST_STRATA} strata, got {len(every)} different values: name a "
            "column of groups of people, such as a site, or bands of ages instead of ages"
        )
    return tuple(every)


def by_set(given: Column, sets: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Values that Python users give, by the name of the set.

    Args:
        given: arrays for each set in turn, or by name.
        sets: what there is, in the order in which arrays are given.
        what: the argument's name, for messages.

    Raises:
        SpecError: there are more or fewer than sets.
    """
    if isinstance(given, Mapping):
        return dict(given)
    present = [name for name, records in sets.items() if records is not None]
    if not isinstance(given, list | tuple) or len(given) != len(present):
        kind = type(given).__name__
        got = f"{len(given)} values" if isinstance(given, list | tuple) else kind
        raise SpecError(
            f"expected {what} for {', '.join(present)}: as the name of a column, or an array for "
            f"each, got {got}"
        )
    return dict(zip(present, given, strict=True))


def take_column(
    pairs: Mapping[str, Any], column: str, what: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sets without a column of their data frames, and what it held.

    Args:
        pairs: by name, features and labels.
        column: the name of the column.
        what: the argument that names it, for messages.

    Raises:
        DataError: a set is no data frame, or has no such column.
    """
    left: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, pair in pairs.items():
        if pair is None:
            left[name] = None
            continue
        frame: Any = pair[0] if isinstance(pair, tuple | list) and len(pair) == 2 else None
        if not (is_pandas(frame) or is_polars(frame)):
            raise DataError(
                f"expected data frames beside {what}={column!r}, got "
                f"{type(pair if frame is None else frame).__name__} for {name}: pass an array of "
                f"values for each set instead, as {what}=(of_members, of_nonmembers)"
            )
        if column not in frame.columns:
            shown = ", ".join(map(str, list(frame.columns)[:20]))
            raise DataError(
                f"expected a column {column!r} in {name}, as {what} says, got {shown}: correct the "
                "name, or add the column to every set"
            )
        values[name] = frame[column].to_numpy() if is_pandas(frame) else frame[column].to_list()
        bare = frame.drop(columns=[column]) if is_pandas(frame) else frame.drop(column)
        left[name] = (bare, pair[1])
    return left, values


def read_values(where: str, name: str, folder: Path) -> Any:
    """A column of the file with these records, or an object where the records are one.

    Args:
        where: the name of the records.
        name: of the column, of the array of an ``.npz`` file, or of the object.
        folder: where relative paths start.

    Raises:
        DivulgeError: there is none of this name.
    """
    if imports.split_reference(where)[1]:
        value = imports.load_object(name, folder)
        return imports.call_user_code(value, name) if callable(value) else value
    path = folder / where
    if files.holds_arrays(path):
        return files.read_npz_arrays(path, name)[0]
    return tables.read_texts(path, name)[0]
