"""Ask about parts of some records, several at a time, and hand on each answer as it comes."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from divulge.errors import TargetError
from divulge.targets.http_client import Session

T = TypeVar("T")


class RowRange(NamedTuple):
    """Records that one question is about, by position: from the first to before the end."""

    first: int
    end: int


def cut_parts(count: int, size: int) -> Iterator[RowRange]:
    """Parts of this size, the last one of what is left."""
    return (RowRange(first, min(first + size, count)) for first in range(0, count, size))


def stream_parts(
    parts: Iterator[RowRange],
    ask: Callable[[RowRange], Coroutine[Any, Any, T]],
    session: Session,
    loop: asyncio.AbstractEventLoop,
    concurrency: int,
) -> Generator[tuple[Int[np.ndarray, " part"], list[T]], None, None]:
    """Yield positions with the answers about them, one answer a part.

    A request is sent when the answer before it was taken, so that whoever keeps each part has all
    answers but those on their way.

    Args:
        parts: which records go together.
        ask: asks about a part, in the loop.
        session: open connections.
        loop: runs in a thread of its own.
        concurrency: how many parts are asked about at the same time, at the most.

    Raises:
        TargetError: there is no answer, or none that fits; those on their way are yielded before.
        BudgetSpent: the next request would exceed the highest cost; likewise.
    """
    waiting: dict[Future[T], RowRange] = {}
    failure: BaseException | None = None
    while True:
        # The first request goes alone: if nothing fits, it alone was paid for.
        room = concurrency if session.memory.fits else 1
        while failure is None and len(waiting) < room and (part := next(parts, None)):
            waiting[asyncio.run_coroutine_threadsafe(ask(part), loop)] = part
        if not waiting:
            break
        try:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        except KeyboardInterrupt as error:
            if failure is not None:  # asked to stop once more
                raise
            failure = error
            loop.call_soon_threadsafe(session.stop.set)
            continue
        good = {}
        for future in done:
            part, problem = waiting.pop(future), future.exception()
            if problem is None:
                good[part] = future.result()
            elif failure is None:
                failure = problem
                loop.call_soon_threadsafe(session.stop.set)
        if good:
            yield np.concatenate([np.arange(*part) for part in good]), list(good.values())
    if failure is not None:
        raise failure


def join_answers(answers: Sequence[np.ndarray]) -> Float[np.ndarray, "records classes"]:
    """The answers of several parts, one after the other.

    Raises:
        TargetError: they are about different numbers of classes.
    """
    widths = {part.shape[1] for part in answers}
    if len(widths) > 1:
        raise TargetError(
            f"expected answers about equally many classes, got {min(widths)} and {max(widths)}: is "
            "this one model?"
        )
    return np.concatenate(answers)
