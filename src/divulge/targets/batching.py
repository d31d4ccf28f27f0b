"""Query a model in batches, and turn its failures into one kind of error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from jaxtyping import Shaped

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
        said = " ".join(str(error).split())[:500]
        raise TargetError(
            f"expected {expected}, got {type(error).__name__}: {said}: {remedy}"
        ) from error


def query_in_batches(
    ask: Callable[[Shaped[np.ndarray, " batch *features"]], Shaped[np.ndarray, "..."]],
    x: Shaped[np.ndarray, " records *features"],
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
    if len(x) == 0:
        raise TargetError("expected at least one record, got none: ask about one or more")
    size = max(least, min(size, size if most is None else most))
    answers = []
    for start in range(0, len(x), size):
        batch = x[start : start + size]
        padded = batch
        if len(batch) < least:
            padded = np.concatenate([batch, np.repeat(batch[-1:], least - len(batch), axis=0)])
        answer = ask(padded)
        if answer.ndim == 0 or len(answer) != len(padded):
            raise TargetError(
                f"expected one answer for each of {len(padded)} records, got an array of shape "
                f"{answer.shape}: return one row per record, in the order asked"
            )
        answers.append(answer[: len(batch)])
    return np.concatenate(answers)
