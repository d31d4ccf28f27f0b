"""Long work shows its progress through a `Track`: a bar in a terminal, or nothing."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Track(Protocol[T]):
    """Passes a sequence through, showing how far it is."""

    def __call__(self, items: Sequence[T], text: str, done: int = 0) -> Iterable[T]:
        """Yield the items, and show how many are done.

        Args:
            items: the items to work on now.
            text: what is done with them, for the user.
            done: how many further items were done in an earlier run.
        """
        ...


def track_silently(items: Sequence[T], text: str, done: int = 0) -> Iterable[T]:
    """Show nothing."""
    del text, done
    return items


_SPEED_PERIOD = 24 * 3600.0
"""Seconds over which speed is averaged: one model may take hours, and a speed needs two models."""


def track_with_bar(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
    """Show a progress bar with the time left; show nothing if output is not a terminal.

    Items of an earlier run count in the bar, but not in the estimate of the time left.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    shown = Progress(
        console=console,
        transient=True,
        disable=not console.is_terminal,
        speed_estimate_period=_SPEED_PERIOD,
    )
    with shown:
        yield from shown.track(items, done + len(items), done, description=text)
