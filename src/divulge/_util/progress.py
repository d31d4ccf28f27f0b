"""How long work says how far it is."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Track(Protocol[T]):
    """Passes a sequence through, showing how far it is."""

    def __call__(self, items: Sequence[T], text: str, done: int = 0) -> Iterable[T]:
        """The items.

        Args:
            items: what is to be done now.
            text: what is done with them.
            done: how many more were done before, in an earlier run.
        """
        ...


def untracked(items: Sequence[T], text: str, done: int = 0) -> Iterable[T]:
    """Show nothing."""
    del text, done
    return items


_MEMORY = 24 * 3600.0
"""Seconds over which speed is averaged: a model may take hours, and needs two to have a speed."""


def bar(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
    """A progress bar with the time left; nothing when output is not a terminal.

    What was done before stands in the bar, and not in the estimate of the time left.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    shown = Progress(
        console=console,
        transient=True,
        disable=not console.is_terminal,
        speed_estimate_period=_MEMORY,
    )
    with shown:
        yield from shown.track(items, done + len(items), done, description=text)
