"""Features and labels out of data sets of PyTorch and Hugging Face."""

import sys
from typing import Any

import numpy as np

from divulge.data.cells import show_cell
from divulge.errors import DataError

_LABELS = ("label", "labels")
"""The columns of a Hugging Face data set that are looked at for labels."""

_KEYS = ("idx", "id", "index", "guid", "uid", "__index_level_0__")
"""Columns that number the records of a Hugging Face data set, where each record has its own."""

_TOKENS = "input_ids"
"""The column that a tokenizer makes of texts, which stay beside it."""


def as_pair(given: Any, where: str) -> Any:
    """Features and labels of a data set; anything else as it is.

    Args:
        given: a ``torch.utils.data.Dataset`` or ``DataLoader``, or a ``datasets.Dataset``.
        where: the name of their source, for messages.

    Raises:
        DataError: a record of it is no pair, or it has no column of labels.
    """
    if _is_of("torch.utils.data", "DataLoader", given):
        given = given.dataset  # in its own order, each record once
    if _is_of("torch.utils.data", "Dataset", given) and not _is_of("datasets", "Dataset", given):
        return _torch_pair(given, where)
    if _is_of("datasets", "Dataset", given):
        return _hugging_face_pair(given, where)
    return given


def _is_of(module: str, name: str, given: Any) -> bool:
    # Whoever holds one has imported its library; nobody else should wait for it.
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(given, kind)


def _torch_pair(given: Any, where: str) -> tuple[Any, Any]:
    if not hasattr(given, "__len__"):
        raise DataError(
            f"expected a data set with a length for {where}, got {type(given).__name__}: read it "
            "into arrays first"
        )
    items = [given[at] for at in range(len(given))]
    if not items or any(not isinstance(item, tuple | list) or len(item) != 2 for item in items):
        raise DataError(
            f"expected pairs of features and label in the data set of {where}, got "
            f"{type(items[0]).__name__ if items else 'none'}: return (x, y) for each record"
        )
    features, labels = zip(*items, strict=True)
    return _stack(list(features)), np.array([_plain(label) for label in labels])


def _stack(features: list[Any]) -> Any:
    """One array of arrays, a dict of arrays of dicts; a list of anything else."""
    first = features[0]
    if isinstance(first, dict):
        return {name: _stack([record[name] for record in features]) for name in first}
    if isinstance(first, str):
        return features
    try:
        arrays = [np.asarray(record) for record in features]
    except Exception:  # whatever an object raises that is no array
        return features
    alike = len({array.shape for array in arrays}) == 1
    return np.stack(arrays) if alike and arrays[0].dtype.kind in "fiub" else features


def _plain(label: Any) -> Any:
    return label.item() if hasattr(label, "item") else label


def _hugging_face_pair(given: Any, where: str) -> tuple[Any, Any]:
    label = next((name for name in _LABELS if name in given.column_names), None)
    if label is None:
        raise DataError(
            f"expected a column named {' or '.join(_LABELS)} in the data set of {where}, got "
            f"{', '.join(given.column_names[:20])}: rename the column of labels"
        )
    others = [name for name in given.column_names if name != label]
    if not len(given) or not others:
        raise DataError(
            f"expected records with features in the data set of {where}, got {len(given)} records "
            f"of {len(others)} columns besides {label!r}: pass rows and columns"
        )
    plain = given.with_format(None)
    others = _inputs(plain, others)
    sequences = [name for name in others if isinstance(plain[0][name], list)]
    for name in sequences:
        _check_lengths(plain[name], name, where)
    table = given.select_columns([*others, label]).with_format("numpy")[:]
    labels = np.asarray(table[label])
    if len(others) == 1 and any(isinstance(text, str) for text in plain[others[0]]):
        return _texts(list(plain[others[0]]), where), labels
    if all(np.asarray(table[name]).dtype.kind in "fiub" for name in others):
        arrays = {name: np.asarray(table[name]) for name in others}
        return (arrays if len(others) > 1 else arrays[others[0]]), labels
    if sequences:
        raise DataError(
            f"expected texts or columns of numbers in the data set of {where}, got "
            f"{', '.join(others[:20])}: remove_columns what the model does not take"
        )
    return plain.select_columns(others).to_pandas(), labels


def _inputs(given: Any, names: list[str]) -> list[str]:
    """Columns that a model takes: no numbers of records, no texts beside their tokens."""
    keys = {
        name
        for name in names
        if name in _KEYS and not isinstance(given[0][name], list) and _differ(given[name])
    }
    if _TOKENS in names:
        keys |= {name for name in names if isinstance(given[0][name], str)}
    return [name for name in names if name not in keys] or names


def _differ(cells: Any) -> bool:
    listed = list(cells)
    return len(set(listed)) == len(listed)


def _texts(texts: list[Any], where: str) -> list[str]:
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"expected a text for each record of {where}, got {show_cell(text)} at index "
                f"{at}: drop the record, or give it a text"
            )
    return texts


def _check_lengths(rows: Any, name: str, where: str) -> None:
    """Refuse sequences of different lengths, of which no array is made."""
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise DataError(
            f"expected {name!r} of one length for all records of {where}, got {min(lengths)} to "
            f'{max(lengths)}: pad them, such as by tokenizer(..., padding="max_length")'
        )
