"""Convert what a model returns to what a target promises: probabilities, or values, in float64.

Nothing is guessed: logits, probabilities and labels look alike often enough that a guess would
sooner or later audit nonsense without anybody noticing.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from divulge.core import Need
from divulge.core.records import LARGEST_VALUE
from divulge.errors import TargetError
from divulge.metrics import signals
from divulge.metrics.tiny_probabilities import keep_order
from divulge.targets import forms
from divulge.targets.answer_arrays import normalise, read_array, read_columns, read_rows

Output = Literal["probabilities", "percentages", "logits", "labels", "values"]
"""What a model answers; ``values`` are the numbers of a regression model, one a record."""

MOST_CLASSES = 100_000
"""The largest number of classes; above it numbers are identifiers, and one-hot rows too large."""


def access_of(output: Output) -> Need:
    """What a model with this kind of output allows an attack to use."""
    if output == "values":
        return Need.VALUES | Need.FEATURES
    soft = Need.NONE if output == "labels" else Need.PROBABILITIES
    return soft | Need.HARD_LABELS | Need.FEATURES


def to_answers(
    raw: Any, output: Output, records: int, classes: int | None = None
) -> Float[np.ndarray, "records columns"]:
    """What a target promises: values as they are, in one column, and all else as probabilities.

    Args:
        raw: the model's answers, anything that NumPy reads.
        output: what the answers are.
        records: how many records were asked about.
        classes: how many classes there are; labels do not tell.

    Raises:
        TargetError: the answers are not what ``output`` says.

    Examples:
        >>> to_answers([3, 4], "values", records=2)
        array([[3.],
               [4.]])
    """
    if output != "values":
        return to_probabilities(raw, output, records, classes)
    values = read_array(raw)
    if values.shape[:1] != (records,) or values.shape[1:] not in ((), (1,)):
        several = values.ndim == 2 and len(values) == records
        raise TargetError(
            f"expected one number for each of {records} records, got an array of shape "
            f"{values.shape}: "
            + (
                "audit each output by itself, through a function that returns its column"
                if several
                else "return one number per record, in the order asked"
            )
        )
    if values.dtype.kind not in "fiub":
        raise TargetError(
            f"expected numbers, got an array of type {values.dtype}: "
            'if the model answers classes, pass output="labels"'
        )
    column = values.astype(np.float64).reshape(records, 1)
    if not (np.abs(column) <= LARGEST_VALUE).all():
        raise TargetError(
            f"expected numbers of size {LARGEST_VALUE:g} at most, got NaN, infinity or larger "
            "ones: look for an overflow in the model"
        )
    return column


def to_probabilities(
    raw: Any,
    output: Output,
    records: int,
    classes: int | None = None,
    names: Sequence[str] = (),
) -> Float[np.ndarray, "records classes"]:
    """Probabilities in float64 from whatever a model answered about this many records.

    A single column of probabilities or logits means class 1 of two. Probabilities below exp(-700)
    are as `divulge.metrics.tiny_probabilities` writes them: too small to matter, and in order.
    Rows that rounding took from a sum of one are divided by their sum. A number that is the nearest
    of its precision to a decimal, such as 0.7 in float32, is taken for that decimal.

    Args:
        raw: the model's answers, anything that NumPy reads; labels may be one-hot.
        output: what the answers are: probabilities, percentages, logits or labels.
        records: how many records were asked about.
        classes: how many classes there are; labels do not tell.
        names: of the columns of a table, for messages.

    Raises:
        TargetError: the answers are not what ``output`` says.

    Examples:
        >>> to_probabilities([[0.25], [1.0]], "probabilities", records=2)
        array([[0.75, 0.25],
               [0.  , 1.  ]])
        >>> to_probabilities([1, 0], "labels", records=2, classes=3)
        array([[0., 1., 0.],
               [1., 0., 0.]])
    """
    if output == "labels":
        return _one_hot(read_rows(raw, records), classes)
    if output == "logits":
        return _softmax(_read_logits(raw, records, names))
    columns = read_columns(raw, output, records)
    if not np.isfinite(columns).all():
        raise TargetError(
            f"expected {output}, got NaN or infinity: look for an overflow in the model"
        )
    if output == "percentages":
        return _check_percentages(columns, names)
    return _check_probabilities(columns, names)


def _read_logits(
    raw: Any, records: int, names: Sequence[str] = ()
) -> Float[np.ndarray, "records columns"]:
    logits = read_columns(raw, "logits", records)
    _check_logits(logits)
    forms.refuse_other_forms(logits, names)
    return logits


def to_logits(raw: Any, records: int) -> Float[np.ndarray, "records classes"]:
    """Logits in float64 from what a model answered; a single column means class 1 of two.

    A class that minus infinity rules out gets the logit of the smallest probability above zero.

    Args:
        raw: the model's logits, anything that NumPy reads.
        records: how many records were asked about.

    Raises:
        TargetError: the answers are not logits of so many records.

    Examples:
        >>> to_logits([2.0, -1.0], records=2)
        array([[ 0.,  2.],
               [ 0., -1.]])
    """
    columns = _two_columns(_read_logits(raw, records))
    least = _check_logits(columns) + np.log(signals.SMALLEST)
    bounded: Float[np.ndarray, "records classes"] = np.maximum(columns, least)
    return bounded


def _two_columns(
    logits: Float[np.ndarray, "records columns"],
) -> Float[np.ndarray, "records classes"]:
    """The sigmoid is the softmax beside a logit of zero."""
    return np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits


def _check_logits(
    logits: Float[np.ndarray, "records classes"],
) -> Float[np.ndarray, "records 1"]:
    """The largest logit of each record, where all records have logits."""
    top: Float[np.ndarray, "records 1"] = logits.max(axis=1, keepdims=True, initial=-np.inf)
    # A class may be ruled out by minus infinity, but not all of them.
    if np.isnan(logits).any() or not np.isfinite(top).all():
        raise TargetError(
            "expected finite logits, got NaN or infinity: look for an overflow in the model"
        )
    return top


def _softmax(logits: Float[np.ndarray, "records columns"]) -> Float[np.ndarray, "records classes"]:
    logits = _two_columns(logits)
    top = _check_logits(logits)
    # Every class keeps its own exponential, so the small ones are exact to the last bit: log-odds
    # are later taken from the sum of the other classes, never from one minus the largest.
    weights = np.exp(logits - top)
    whole = signals.sum_in_any_order(weights)[:, np.newaxis]
    return keep_order(weights / whole, lambda: logits - top - np.log(whole))


def _check_percentages(
    percentages: Float[np.ndarray, "records columns"], names: Sequence[str]
) -> Float[np.ndarray, "records classes"]:
    scaled = forms.scale_percentages(percentages)
    if forms.are_shares(percentages):
        raise TargetError(
            f"expected percentages from 0 to 100{_describe_rows(percentages, 100)}: these are "
            'probabilities, so pass output="probabilities"; percentages of a rare class divide by '
            "100 before"
        )
    if not forms.are_probabilities(scaled):
        raise TargetError(
            f"expected percentages from 0 to 100{_describe_rows(percentages, 100)}: "
            + (
                'these are probabilities, so pass output="probabilities"'
                if forms.are_probabilities(percentages)
                else forms.explain_refusal(percentages, names)
            )
        )
    return normalise(scaled)


def _check_probabilities(
    probabilities: Float[np.ndarray, "records columns"], names: Sequence[str]
) -> Float[np.ndarray, "records classes"]:
    if not forms.are_probabilities(probabilities):
        raise TargetError(
            f"expected probabilities from 0 to 1{_describe_rows(probabilities, 1)}: "
            + forms.explain_refusal(probabilities, names)
        )
    if forms.are_labels(probabilities):
        raise TargetError(
            f"expected probabilities, got 0 and 1 alone in {len(probabilities)} answers: these are "
            f"classes, so {forms.advise_labels(probabilities, names)}"
        )
    return normalise(probabilities)


def _describe_rows(answers: Float[np.ndarray, "records columns"], whole: int) -> str:
    """What was expected of rows, and the numbers that came."""
    came = f"{answers.min():.6g} to {answers.max():.6g}"
    if answers.shape[1] == 1:
        return f", got {came}"
    sums = answers.sum(axis=1)
    return (
        f" with rows that sum to {whole}, got {came} with sums from {sums.min():.6g} to "
        f"{sums.max():.6g}"
    )


def _one_hot(
    labels: Shaped[np.ndarray, "..."], classes: int | None
) -> Float[np.ndarray, "records classes"]:
    if classes is None or not 2 <= classes <= MOST_CLASSES:
        raise TargetError(
            f"expected the number of classes, from 2 to {MOST_CLASSES}, got {classes}: labels "
            "alone do not tell it, pass classes="
        )
    if labels.dtype.kind == "f" and (labels == np.floor(labels)).all():
        labels = labels.astype(np.int64)  # NaN and infinity are not their own floor, or too large
    if labels.ndim == 2 and _is_one_hot(labels, classes):
        labels = labels.argmax(axis=1)
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise TargetError(
            f"expected labels as a flat array of integers, got shape {labels.shape} and type "
            f"{labels.dtype}: "
            + (
                "return the number of each record's class, its place among the classes from 0"
                if labels.dtype.kind in "OSUT"
                else 'return one class number per record, or pass output="probabilities"'
            )
        )
    codes = labels.astype(np.int64)
    if len(codes) and not 0 <= codes.min() <= codes.max() < classes:
        raise TargetError(
            f"expected labels from 0 to {classes - 1}, got {codes.min()} to {codes.max()}: "
            "number the classes from 0, or pass the right classes="
        )
    answers = np.zeros((len(codes), classes))
    answers[np.arange(len(codes)), codes] = 1
    return answers


def _is_one_hot(labels: Shaped[np.ndarray, "records columns"], classes: int) -> bool:
    """Whether each row has a one in the column of its class, and zeros elsewhere."""
    if labels.shape[1] != classes or labels.dtype.kind not in "iub":
        return False
    return forms.are_one_hot(labels.astype(np.float64))
