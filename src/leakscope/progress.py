"""How long work says how far it is."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

Track = Callable[[Sequence[T], str], Iterable[T]]
"""Passes a sequence through, showing how far it is, like ``rich.progress.track``."""


def untracked(items: Sequence[T], text: str) -> Iterable[T]:
    """Show nothing."""
    del text
    return items
