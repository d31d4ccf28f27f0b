"""Long work shows its progress through a `Track`: a bar, lines, or nothing."""

import contextlib
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from divulge._util.showable import make_showable
from divulge.errors import SpecError

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")


@runtime_checkable
class ProgressFunction(Protocol):
    """Passes a sequence through, showing how far it is."""

    def __call__(self, items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
        """Yield the items, and show how many are done.

        Args:
            items: the items to work on now.
            text: what is done with them, for the user.
            done: how many further items were done in an earlier run.
        """
        ...


@dataclass(frozen=True, slots=True)
class Track(Generic[T]):
    """Shows how far work is, by a function that passes a sequence through."""

    show: ProgressFunction

    def __call__(self, items: Sequence[T], text: str, done: int = 0) -> Iterable[T]:
        """Yield the items, and show how many are done; see `ProgressFunction`."""
        return self.show(items, text, done)

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show that one thing is done, for as long as it takes.

        Args:
            text: what is done, for the user.

        Examples:
            >>> with track_silently.step("Loading the data"):
            ...     found = sum(range(4))
            >>> found
            6
        """
        for _ in self.show([None], text, 0):
            yield


Progress = bool | ProgressFunction
"""What users say about progress: whether to show it, or a function that does."""


def as_track(progress: Progress) -> Track[Any]:
    """The track for what a user said.

    Raises:
        SpecError: it is neither a truth value nor a function.
    """
    if isinstance(progress, bool):
        return track_visibly if progress else track_silently
    if not callable(progress):
        raise SpecError(
            f"expected progress as True, False or a function of items, a text and a number done, "
            f"got {progress!r}: pass True to see how far the work is"
        )
    return progress if isinstance(progress, Track) else Track(progress)


def _pass_through(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
    del text, done
    return items


track_silently: Track[Any] = Track(_pass_through)
"""Shows nothing."""


def with_title(track: Track[Any], title: str) -> Track[Any]:
    """The track, with a title before each text."""

    def titled(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
        return track(items, f"{title}: {text}", done)

    return Track(titled)


def _choose_form(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
    terminal = sys.stderr is not None and sys.stderr.isatty()
    return (track_with_bar if terminal else track_with_lines)(items, text, done)


track_visibly: Track[Any] = Track(_choose_form)
"""Shows a bar in a terminal, and lines elsewhere, on standard error."""


@cache
def _console() -> "Console":
    """The one console of all bars: on it, one bar can stand within another."""
    from rich.console import Console

    return Console(stderr=True)


_SPEED_PERIOD = 24 * 3600.0
"""Seconds over which speed is averaged: one model may take hours, and a speed needs two models."""


def track_with_bar(items: Sequence[Any], text: str, done: int) -> Generator[Any]:
    """A progress bar with the time left.

    Items of an earlier run count in the bar, but not in the estimate of the time left.
    """
    from rich import progress

    shown = progress.Progress(
        # names of defences and the like are no markup
        progress.TextColumn("{task.description}", markup=False),
        *progress.Progress.get_default_columns()[1:],
        console=_console(),
        transient=True,
        speed_estimate_period=_SPEED_PERIOD,
    )
    with shown:
        yield from shown.track(items, done + len(items), done, description=make_showable(text))


PERIOD = 30.0
"""Seconds between two lines within a step."""

FIRST = 2.0
"""Seconds within which a program that has said nothing yet says what it does."""

_spoken = Event()
"""Set as soon as a line of progress was printed."""

BRIEF = 1.0
"""Steps that take no more seconds than this are not worth a line."""


@dataclass
class _Within:
    """What is done within an item, where that is counted."""

    text: str = ""
    done: int = 0
    items: int = 0


_within = _Within()


def count_within(items: Iterable[T], many: int, text: str) -> Iterator[T]:
    """Pass things through, and let the lines of the step around them say how many are done.

    Args:
        items: the things.
        many: their number.
        text: what was done with them, for the user.
    """
    _within.text, _within.done, _within.items = text, 0, many
    try:
        for item in items:
            yield item
            _within.done += 1
    finally:
        _within.items = 0


@dataclass
class _Step:
    """What is being done, and how far it is."""

    text: str
    items: int
    before: int
    """Items of an earlier run."""
    done: int = 0
    begun: float = field(default_factory=lambda: time.monotonic())

    def line(self) -> str:
        """How far it is; the time left comes from what was done in this run."""
        took = time.monotonic() - self.begun
        done = self.done  # another thread counts on
        count = f" {self.before + done} of {self.before + self.items}," if self.many else ""
        left = f", about {format_span(took / done * (self.items - done))} left" if done else ""
        inner = f" {_within.done} of {_within.items} {_within.text}," if _within.items > 1 else ""
        return f"{self.text}:{count}{inner} {format_span(took)} so far{left}"

    def end(self) -> str:
        """That it has ended, and what it took."""
        count = f"{self.before + self.done} of {self.before + self.items} " if self.many else ""
        return f"{self.text}: {count}done in {format_span(time.monotonic() - self.begun)}"

    @property
    def many(self) -> bool:
        """Whether a count says something."""
        return self.before + self.items > 1


def track_with_lines(items: Sequence[Any], text: str, done: int) -> Generator[Any]:
    """A line every so often, while an item takes long too, and one at the end."""
    if not len(items):
        return
    step, over = _Step(text, len(items), done), Event()
    beat = Thread(target=_say_now_and_then, args=(step, over), daemon=True)
    beat.start()
    try:
        for item in items:
            yield item
            step.done += 1
    finally:
        over.set()
        # what is closed only as Python ends would wait for ever: no thread runs any more by then
        if not sys.is_finalizing():
            beat.join()
    if time.monotonic() - step.begun > BRIEF:
        _spoken.set()
        say(step.end())


def _say_now_and_then(step: _Step, over: Event) -> None:
    last = ""
    while not over.wait(PERIOD if _spoken.is_set() else min(FIRST, PERIOD)):
        _spoken.set()
        if (line := step.line()) != last:  # minutes are rounded
            say(line)
        last = line


def say(line: str) -> None:
    """Print a line on standard error, where there is one; that it fails ends no work."""
    if sys.stderr is not None:
        # in a program of somebody else, whose streams are not ours to guard
        with contextlib.suppress(OSError, ValueError):
            _write_at_once(f"{make_showable(line)}\n")


def _write_at_once(text: str) -> None:
    """Write on standard error; what cannot be written does not stay in its buffer.

    At the end of the program Python would try to write it again, and exit with 120.
    """
    stream = sys.stderr
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    if raw is None:  # a notebook's, or one that records
        print(text, end="", file=stream, flush=True)
        return
    stream.flush()  # what was printed before
    raw.write(text.encode(stream.encoding or "utf-8", stream.errors or "backslashreplace"))


def format_span(seconds: float) -> str:
    """A time in words, as coarse as it is long."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
