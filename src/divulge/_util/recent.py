"""What was computed last, kept for whoever asks for the same again."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class RecentResults(Generic[T]):
    """The last results of a function of much data, by a digest of all that it depends on.

    The controls of an attack change the model and nothing else: what an attack learns from other
    data alone, it learns once. Results are shared and must not be changed.

    Args:
        most: how many are kept.

    Examples:
        >>> recent, calls = RecentResults[int](), []
        >>> [recent.get(key, lambda: calls.append(key) or len(calls)) for key in "aabba"]
        [1, 1, 2, 2, 3]
    """

    def __init__(self, most: int = 1) -> None:
        self._most, self._kept = most, dict[str, T]()
        self._lock = Lock()

    def get(self, key: str, compute: Callable[[], T]) -> T:
        """The result with this digest, computed unless it is kept."""
        with self._lock:
            if key in self._kept:
                return self._kept[key]
        result = compute()  # not within: others may be computed meanwhile
        with self._lock:
            self._kept[key] = result
            while len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
        return result
