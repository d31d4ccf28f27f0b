"""Query a model in batches, and turn its failures into one kind of error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from divulge._util.contents import quote_error
from divulge.data.containers import container_of
from divulge.errors import DivulgeError, SpecError, TargetError


@contextmanager
def translate_model_errors(expected: str, remedy: str) -> Iterator[None]:
    """Turn whatever a model or another library raises into a TargetError.

    Raises:
        TargetError: anything but a DivulgeError was raised inside; those pass.
    """
    try:
        yield
    except DivulgeError:
        raise
    except Exception as error:
        # Frameworks answer in paragraphs: one line, and not all of it, is enough to find the cause.
        message = " ".join(quote_error(error).split())[:500]
        raise TargetError(
            f"expected {expected}, got {type(error).__name__}: {message}: {remedy}"
        ) from error


def count_rows(x: Any) -> int:
    """How many records there are in an array, or in another container."""
    return len(x) if isinstance(x, np.ndarray) else container_of(x).count(x)


def take_rows(x: Any, rows: Int[np.ndarray, " chosen"]) -> Any:
    """These records of an array, or of another container."""
    return x[rows] if isinstance(x, np.ndarray) else container_of(x).take(x, rows)


def unlock(x: Any) -> Any:
    """The records, copied where they are an array that cannot be written to.

    PyTorch warns of such an array, and would write to it.
    """
    return x.copy() if isinstance(x, np.ndarray) and not x.flags.writeable else x


def query_in_batches(
    ask: Callable[[Any], Shaped[np.ndarray, "..."]],
    x: Any,
    size: int,
    least: int = 1,
    most: int | None = None,
) -> Shaped[np.ndarray, "..."]:
    """The answers to all records, asked at most ``size`` at a time.

    Some models were saved for batches of certain sizes only: ``least`` to ``most`` records. A batch
    that is too small is filled up with copies of its last record, whose answers are thrown away.

    Raises:
        SpecError: the batch size is not positive.
        TargetError: there is no record, or a batch did not get one answer per record.
    """
    if size < 1:
        raise SpecError(f"expected a batch size of 1 or more, got {size}: pass a larger one")
    records = count_rows(x)
    if records == 0:
        raise TargetError("expected at least one record, got none: ask about one or more")
    size = max(least, min(size, size if most is None else most))
    answers = []
    for start in range(0, records, size):
        some = np.arange(start, min(start + size, records))
        padded = np.concatenate([some, np.repeat(some[-1:], max(0, least - len(some)))])
        answer = ask(take_rows(x, padded))
        if answer.ndim == 0 or len(answer) != len(padded):
            raise TargetError(
                f"expected one answer for each of {len(padded)} records, got an array of shape "
                f"{answer.shape}: return one row per record, in the order asked"
            )
        answers.append(answer[: len(some)])
    return np.concatenate(answers)
