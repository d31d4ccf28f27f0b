"""Read answers about records from the JSON of a response, whatever it holds."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from divulge.errors import TargetError, did_you_mean
from divulge.targets.outputs import MOST_CLASSES, Output


def follow_path(body: Any, path: str) -> Any:
    """What stands at a place of a response: ``a.0.b``; ``*`` is each entry of a list.

    Raises:
        TargetError: there is no such place.

    Examples:
        >>> follow_path({"rows": [{"p": 0.5}, {"p": 0.25}]}, "rows.*.p")
        [0.5, 0.25]
    """
    step, _, rest = path.partition(".")
    if not step:
        return body
    if step == "*" and isinstance(body, list):
        return [follow_path(inner, rest) for inner in body]
    if isinstance(body, dict) and step in body:
        return follow_path(body[step], rest)
    if isinstance(body, list) and step.isdecimal() and int(step) < len(body):
        return follow_path(body[int(step)], rest)
    there = ", ".join(map(repr, list(body)[:5])) if isinstance(body, dict) else name_kind(body)
    raise TargetError(f"expected {step!r} in the response, got {there}: correct the key answers")


def read_rows(rows: Any, labels: tuple[str, ...], output: Output, count: int) -> Any:
    """One answer a record: numbers, a label, numbers by label, or a list of labels with scores.

    Args:
        rows: what should hold the answers.
        labels: the classes as the endpoint names them, in the order of their numbers.
        output: what the answers are.
        count: how many records were asked about.

    Raises:
        TargetError: it is something else, or there are more or fewer.
    """
    if not isinstance(rows, list) or len(rows) != count:
        got = f"{len(rows)} answers" if isinstance(rows, list) else name_kind(rows)
        raise TargetError(f"expected {count} answers, one a record, got {got}")
    read = [_read_row(row, labels, output) for row in rows]
    if any(bool in set(map(type, row if isinstance(row, list) else (row,))) for row in read):
        raise TargetError("expected numbers, got true or false: let the endpoint return numbers")
    try:
        answers = np.asarray(read)
    except ValueError:
        answers = np.asarray(None)
    if answers.dtype.kind not in "iuf":
        raise TargetError("expected equally many numbers for each record, got something else")
    if output == "labels" and (np.abs(answers) < MOST_CLASSES).all():
        whole = answers.astype(np.int64)  # some servers write class 1 as 1.0
        return whole if (whole == answers).all() else answers
    return answers


def _read_row(row: Any, labels: tuple[str, ...], output: Output) -> Any:
    if isinstance(row, str):
        return _number_of(row, labels)
    if isinstance(row, dict):
        return _in_order(row, labels)
    if isinstance(row, list) and row and isinstance(row[0], dict):
        scores = unique_by_name(map(_scored_label, row), "label")
        return _in_order(scores, labels)
    if isinstance(row, list) and output == "labels" and len(row) == 1:
        return _read_row(row[0], labels, output)  # a column of labels
    return row


def _number_of(label: str, labels: tuple[str, ...]) -> int:
    if label not in labels:
        raise TargetError(f"expected one of the labels, got {label!r}: {_advise(label, labels)}")
    return labels.index(label)


def _in_order(scores: Mapping[str, Any], labels: tuple[str, ...]) -> list[Any]:
    """The values by label in the order of the classes.

    A label that is too many is refused, too: a class that has no number could not be left out.
    """
    for label in [*labels, *scores]:
        if label not in scores:
            raise TargetError(
                f"expected a score for each label, got none for {label!r}: let the endpoint return "
                "the scores of all classes, such as by top_k, and check labels"
            )
        if label not in labels:
            raise TargetError(f"expected known labels, got {label!r}: {_advise(label, labels)}")
    return [scores[label] for label in labels]


def _scored_label(entry: Any) -> tuple[str, Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get("label"), str):
        raise TargetError("expected a label and a score in each entry, got something else")
    return entry["label"], entry.get("score")


def unique_by_name(pairs: Iterable[tuple[Any, Any]], what: str) -> dict[Any, Any]:
    """The values by name; of two with one name nobody knows which one is meant.

    Raises:
        TargetError: a name stands there twice.
    """
    values: dict[Any, Any] = {}
    for name, value in pairs:
        if name in values:
            raise TargetError(f"expected each {what} once in an answer, got {name!r} twice")
        values[name] = value
    return values


def _advise(label: str, labels: tuple[str, ...]) -> str:
    if not labels:
        return "name all classes in the key labels, in the order of your records"
    return did_you_mean(label, labels)


def name_kind(value: Any) -> str:
    """What a value of JSON is, in a word or two, for a message."""
    names = {dict: "an object", list: "a list", str: "text", type(None): "null"}
    return names.get(type(value), "a number")
