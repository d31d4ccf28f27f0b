"""Read what a model answered as an array of numbers, one row a record."""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from divulge._util.contents import quote_error
from divulge.errors import TargetError
from divulge.metrics.tiny_probabilities import keep_order, log_of

_ONE_ROW = (
    "return one row of numbers per record, one number a class. Of a model that answers pixels, "
    "boxes, tokens or texts (segmentation, detection, generation), reduce the answer about each "
    "record to one number, such as the mean loss of its pixels or tokens: write it into a column "
    "of a table, and audit that with divulge.audit_predictions(path, loss=...) or score=..."
)
"""What to do about answers of another shape."""

DECIMALS = {2: 3, 4: 6, 8: 12}
"""Decimals that a number of so many bytes, from 0 to 1, tells from their neighbours."""

_BLOCK = 2**18
"""Numbers that are normalised at a time."""


def read_rows(raw: Any, records: int) -> Shaped[np.ndarray, "records ..."]:
    """The answers as an array, one row a record."""
    answers = read_array(raw)
    if answers.ndim == 0 or len(answers) != records:
        raise TargetError(
            f"expected one answer for each of {records} records, got an array of shape "
            f"{answers.shape}: return one row per record, in the order asked"
        )
    return answers


def read_columns(raw: Any, output: str, records: int) -> Float[np.ndarray, "records columns"]:
    """The answers in float64, one column a class, or one alone."""
    answers = read_rows(raw, records)
    if answers.ndim > 2 or answers.dtype.kind not in "fiub" or answers.shape[1:] == (0,):
        raise TargetError(
            f"expected {output} of shape ({records}, classes), got an array of shape "
            f"{answers.shape} and type {answers.dtype}: {_ONE_ROW}"
        )
    columns = answers[:, np.newaxis] if answers.ndim == 1 else answers
    return columns.astype(np.float64) if output == "logits" else _read_decimals(columns)


def _read_decimals(
    columns: Shaped[np.ndarray, "records columns"],
) -> Float[np.ndarray, "records columns"]:
    """The numbers in float64; rows of decimals as the nearest to these, whatever their precision.

    In float32 0.7 is 0.69999999, and the other classes sum to 0.30000001 in one order of classes
    and to 0.30000004 in another, where 0.3 was meant.
    """
    exact = columns.astype(np.float64)
    decimals = DECIMALS.get(columns.dtype.itemsize) if columns.dtype.kind == "f" else None
    if decimals is None or exact.dtype == columns.dtype:
        return exact
    nearest = np.rint(exact * 10.0**decimals) / 10.0**decimals
    same = (nearest.astype(columns.dtype) == columns).all(axis=1, keepdims=True)
    return np.where(same, nearest, exact)


def read_array(raw: Any) -> Shaped[np.ndarray, "..."]:
    """The answers as an array of any shape.

    Raises:
        TargetError: NumPy cannot read them.
    """
    try:
        return np.asarray(raw)
    except Exception as error:
        raise TargetError(
            f"expected an array of answers, got {type(raw).__name__} that NumPy cannot read "
            f"({quote_error(error)[:200]}): {_ONE_ROW}"
        ) from error


def normalise(
    probabilities: Float[np.ndarray, "records columns"],
) -> Float[np.ndarray, "records classes"]:
    """Rows that sum to one but for the last bits, from such that rounding took from it.

    A row of decimals is summed and divided in whole numbers: equal fractions give equal doubles.
    Some rows at a time: what is computed on the way would take several times their memory.
    """
    count = max(1, _BLOCK // probabilities.shape[1])
    shares = np.empty((len(probabilities), max(2, probabilities.shape[1])))
    for start in range(0, len(probabilities), count):
        rows = slice(start, start + count)
        shares[rows] = _share_out(probabilities[rows])
    return shares


def _share_out(
    probabilities: Float[np.ndarray, "records columns"],
) -> Float[np.ndarray, "records classes"]:
    whole = 10.0 ** DECIMALS[8]
    clipped = np.clip(probabilities, 0, 1 if probabilities.shape[1] == 1 else None)
    parts = np.rint(clipped * whole)
    decimal = (parts / whole == clipped).all(axis=1, keepdims=True)
    parts = np.where(decimal, parts, clipped)
    unit = np.where(decimal, whole, 1.0)
    if parts.shape[1] == 1:
        parts = np.hstack([unit - parts, parts])
    sums = parts.sum(axis=1, keepdims=True)
    # A sum that only its own rounding took from one divides nothing, so no last bit is lost.
    exact = np.abs(sums - unit) <= parts.shape[1] * np.finfo(np.float64).eps * unit
    shares = parts / np.where(exact, unit, sums)
    return keep_order(shares, lambda: log_of(shares))
