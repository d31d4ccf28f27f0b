"""How long work says how far it is."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

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
