"""When requests to an endpoint may start, and how long they are waited for."""

import email.utils
import time
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(slots=True)
class Pace:
    """When the next request may start: so many a second, and none while the server wants a rest."""

    per_second: float | None
    _next: float = field(default=0.0, init=False)

    def take_turn(self) -> float:
        """The seconds from now at which the next request may start, which takes this turn."""
        now = time.monotonic()
        start = max(self._next, now)
        self._next = start + (0.0 if self.per_second is None else 1 / self.per_second)
        return start - now

    def rest(self, seconds: float) -> None:
        """Let no request start for so many seconds."""
        self._next = max(self._next, time.monotonic() + seconds)


class Patience(NamedTuple):
    """How long an answer may take, how often it is asked for again, and how long between."""

    timeout: float
    retries: int
    max_wait: float


def retry_after(header: str | None) -> float | None:
    """The seconds that a header ``Retry-After`` asks for, which holds a number or a date.

    Examples:
        >>> retry_after("120"), retry_after("soon"), retry_after(None)
        (120.0, None, None)
    """
    if header is None:
        return None
    if header.strip().isdecimal() and header.isascii():
        return float(header.strip()[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return None
