"""The standard streams of a program of ours: what cannot be printed is lost, and nothing else is.

A result is in its file, and the exit code is decided, before either is printed. So a stream that is
closed, full, a pipe that nobody reads, or of an alphabet without ε must end no work and change no
exit code.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import io
import os
import select
import sys
from collections.abc import Callable
from typing import Any, Literal

_QUIET = (errno.EPIPE, errno.EBADF)
"""Nobody reads on (`| head`), or nobody wants to (`>&-`): no news to who started the program."""


@functools.cache
def guard_streams() -> None:
    """Replace the interpreter's own output streams by such as never fail; once, at the start.

    Whatever prints is covered: click, Rich, logging, warnings, and the interpreter as it ends.
    Streams that somebody else has put in their place, as tests and notebooks do, are left alone.
    """
    _fill_closed_descriptors()
    if sys.stdin is None:  # a prompt finds the end of the input there
        sys.stdin = _open_nothing("r")
    if sys.stderr is sys.__stderr__:
        sys.stderr = sys.__stderr__ = _guard(sys.__stderr__, lambda _: None)  # type: ignore[misc]
    if sys.stdout is sys.__stdout__:
        sys.stdout = sys.__stdout__ = _guard(sys.__stdout__, _report_loss)  # type: ignore[misc]


class _GuardedRaw(io.RawIOBase):
    """Bytes go to another stream, or, where that fails, nowhere."""

    def __init__(self, stream: io.TextIOWrapper, report: Callable[[OSError], None]) -> None:
        super().__init__()
        self._stream = stream  # which would close the bytes behind it if it went
        binary: Any = stream.buffer
        self._raw = getattr(binary, "raw", binary)  # with python -u there is no buffer between
        self._report: Callable[[OSError], None] | None = report

    def write(self, data: Any) -> int:
        """Write some or all of the bytes, and return how many are done with."""
        try:
            while (written := self._raw.write(data)) is None:  # the pipe is full for the moment
                select.select([], [self._raw], [])
        except OSError as error:
            if self._report is not None:
                report, self._report = self._report, None
                report(error)
            return len(data)
        return int(written)

    def writable(self) -> bool:
        """Whether it takes bytes: always."""
        return True

    def fileno(self) -> int:
        """The descriptor of the stream behind."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Whether the stream behind is a terminal."""
        return self._stream.isatty()


class _AsciiText(io.TextIOWrapper):
    """Text of ASCII; click would write UTF-8 into its buffer instead, were there one to be seen."""

    buffer = None  # type: ignore[assignment]


def _guard(stream: io.TextIOWrapper | None, report: Callable[[OSError], None]) -> io.TextIOWrapper:
    if stream is None:  # it was closed before the program began
        return _open_nothing("w")
    ascii_only = codecs.lookup(stream.encoding).name == "ascii"
    return (_AsciiText if ascii_only else io.TextIOWrapper)(
        io.BufferedWriter(_GuardedRaw(stream, report)),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _open_nothing(mode: Literal["r", "w"]) -> io.TextIOWrapper:
    """A file that is empty and stays so, open until the end."""
    return open(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8", closefd=False)


def _report_loss(error: OSError) -> None:
    if error.errno not in _QUIET:
        print(  # noqa: T201 (the standard output has just failed)
            f"Expected to write to the standard output, got: {error.strerror}. What was to be "
            "printed is lost; files and the exit code are not affected.",
            file=sys.stderr,
        )


def _fill_closed_descriptors() -> None:
    """Open nothing under the numbers 0 to 2 where they are free.

    Else the next file that the program opens gets such a number, and native code and other
    processes print into it.
    """
    with contextlib.suppress(OSError):  # where no more files may be open, none is opened there
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(number, True)  # noqa: FBT003 (its only argument)
        os.close(number)
