"""Load the records and the augmentations that settings name."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from divulge._util import imports
from divulge.core import Records
from divulge.core.records import TEXT_CLASSES
from divulge.data import datasets, frames, tables
from divulge.data import files as data_files
from divulge.data.augmentation import Augmentation
from divulge.data.cells import show_label
from divulge.data.encoding import encode, share_encoding
from divulge.data.labels import encode_labels, share_classes
from divulge.data.tables import CellError
from divulge.errors import DataError, MissingExtra

TEXT = "text"
"""The column of a table that holds what a language model is asked about."""


def resolve_augmentations(names: Iterable[str], folder: Path) -> tuple[str | Augmentation, ...]:
    """Ways to see candidates otherwise: names as they are, and functions of the user's."""
    return tuple(
        imports.load_object(n, folder) if imports.split_reference(n)[1] else n for n in names
    )


def load_records(
    where: str, label: str, folder: Path, besides: Collection[str] = (), *, values: bool = False
) -> Records:
    """Records by name: a data file, or arrays (or a function that returns them) in a Python file.

    Args:
        where: the path of a data file, or ``file.py:name``.
        label: the column of a table that holds the class, or the true value.
        folder: the folder where relative paths start.
        besides: columns that are no features, such as the user's ids, where a table has them.
        values: whether the labels are true values that a regression model is to answer.

    Raises:
        DivulgeError: there are none of this name, or they are no records.
    """
    _, name = imports.split_reference(where)
    if not name:
        return data_files.read_record_file(folder / where, label, besides, values=values)
    value = imports.load_object(where, folder)
    if callable(value):
        value = imports.call_user_code(value, where)
    return as_records(value, where, values=values)


def load_record_sets(
    names: Sequence[str],
    label: str,
    folder: Path,
    besides: Collection[str] = (),
    *,
    values: bool = False,
) -> list[Records]:
    """All records of one audit: tables of numbers as arrays, other tables as data frames.

    If one table has a cell that is no number, all are read as data frames whose columns have one
    type in all files, see `divulge.data.frames`. A table with a column ``text`` and no labels holds
    texts for language models.

    Args:
        names: as of `load_records`, and so are the other arguments.
        label: the column of a table that holds the class.
        folder: the folder where relative paths start.
        besides: columns that are no features.
        values: whether the labels are true values that a regression model is to answer.

    Raises:
        DivulgeError: see `load_records`; or a table holds other things than numbers, and pandas is
            not installed.
    """
    paths = {name: folder / name for name in names if _is_table(name)}
    texts = {name: path for name, path in paths.items() if _holds_texts_alone(path, label)}
    paths = {name: path for name, path in paths.items() if name not in texts}
    try:
        loaded = {
            name: data_files.read_record_file(path, label, besides, values=values)
            for name, path in paths.items()
        }
    except CellError as cell:
        try:
            loaded = _read_frames(paths, label, besides, values=values)
        except MissingExtra as error:
            raise DataError(f"{cell}; columns of texts are read with pandas: {error}") from error
    loaded |= {name: _without_labels(load_texts(name, folder)) for name in texts}
    return [
        loaded[n] if n in loaded else load_records(n, label, folder, besides, values=values)
        for n in names
    ]


def _holds_texts_alone(path: Path, label: str) -> bool:
    header = tables.read_header(path)
    return TEXT in header and label not in header


def _without_labels(texts: Records) -> Records:
    """Texts that a language model is trained on."""
    return replace(texts, classes=TEXT_CLASSES)


def _is_table(name: str) -> bool:
    path, reference = imports.split_reference(name)
    return not reference and not data_files.holds_arrays(Path(path))


def _read_frames(
    paths: Mapping[str, Path], label: str, besides: Collection[str], *, values: bool
) -> dict[str, Records]:
    """Tables with other things than numbers.

    Raises:
        MissingExtra: pandas is not installed.
        DataError: a table is damaged, or no label stands in one.
    """
    wanted = {name: data_files.check_header(path, label, besides) for name, path in paths.items()}
    types = frames.column_types(list(paths.values()))
    loaded = {}
    for name, path in paths.items():
        frame = frames.read_frame(path, types)
        if not len(frame):
            raise DataError(f"expected rows of features and a label in {path}, got none")
        pair = frame[list(wanted[name])], frame[label].to_numpy()
        loaded[name] = as_records(pair, str(path), values=values)
    return loaded


def as_records(pair: Any, where: str, *, values: bool = False) -> Records:
    """Records from what people hold them in.

    Args:
        pair: ``Records``; features and labels, each an array, a tensor or part of a data frame;
            texts, a sparse matrix or a dict of arrays as features; a data set of PyTorch or of
            Hugging Face, or a ``DataLoader``; or a list of texts alone, for language models.
        where: the name of their source, for error messages.
        values: whether the labels are true values that a regression model is to answer.

    Raises:
        DataError: it is not such a pair.
    """
    if isinstance(pair, Records):
        return _with_values(pair, where) if values else pair
    if isinstance(pair, list) and pair and all(isinstance(text, str) for text in pair):
        return _without_labels(as_texts(pair, where))
    pair = datasets.as_pair(pair, where)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(
            f"expected a pair (x, y) for {where}, got {type(pair).__name__}: pass the features and "
            "the labels"
        )
    x, columns, encoding = encode(pair[0], where)
    if values:
        y, classes = data_files.as_values(pair[1], where), ()
    else:
        y, classes = encode_labels(pair[1], where)
    records = Records(x, y, columns, encoding, classes)
    if len(records) and not records.x.size:
        raise DataError(
            f"expected records with features for {where}, got x of shape {records.x.shape}: "
            "pass a column or more"
        )
    return records


def load_texts(where: str, folder: Path) -> Records:
    """Texts by name: the column ``text`` of a table, or texts (or a function) in a Python file.

    Args:
        where: the path of a table, or ``file.py:name``.
        folder: the folder where relative paths start.

    Raises:
        DivulgeError: there are none of this name, or they are no texts.
    """
    _, name = imports.split_reference(where)
    if name:
        value = imports.load_object(where, folder)
        return as_texts(imports.call_user_code(value, where) if callable(value) else value, where)
    path = folder / where
    if TEXT not in (header := tables.read_header(path)):
        raise DataError(
            f"expected a column {TEXT!r} in {path}, got {', '.join(header[:20])}: a language model "
            "is asked about texts; call their column so"
        )
    return as_texts(tables.read_texts(path, TEXT)[0], where)


def as_texts(given: Any, where: str) -> Records:
    """Texts as records of one class, which a language model is asked about.

    Args:
        given: ``Records``, a list or an array of texts, or a column of a data frame.
        where: the name of their source, for error messages.

    Raises:
        DataError: they are no texts.
    """
    if isinstance(given, Records):
        return given
    texts = given.to_list() if hasattr(given, "to_list") else given
    texts = texts.tolist() if hasattr(texts, "tolist") else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError(
            f"expected a list of texts for {where}, got {type(given).__name__}: pass the texts "
            "alone, without labels"
        )
    x, columns, encoding = encode(texts, where)
    return Records(x, np.zeros(len(x), np.int64), columns, encoding)


def _with_values(records: Records, where: str) -> Records:
    if records.classes:
        raise DataError(
            f"expected true values for {where}, got classes such as "
            f"{show_label(records.classes[0], records.classes)}: pass the numbers that the model "
            "is to answer"
        )
    return replace(records, y=data_files.as_values(records.y, where))


def make_alike(records: Records, other: Records | None) -> tuple[Records, Records | None]:
    """Both in one container, with one number for each label.

    Raises:
        DataError: the two do not go together.
    """
    if other is None:
        return records, None
    first, second = share_classes(share_encoding([records, other]))
    first.joined(second)  # refuses other features
    return first, second
