"""One side of a comparison in processes of its own, and what they took together."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

PAUSE = 0.2
"""Seconds between two looks at the memory."""


class Resources(NamedTuple):
    """Resources that a command and all its child processes used."""

    cpu: float
    """CPU seconds in user and system mode, which do not depend on other users of the machine."""
    wall: float
    """Wall-clock seconds."""
    peak: float
    """Peak memory of all processes together in bytes, shared pages divided among them.

    Looked up time and again: what wait4 calls the maximum begins with that of the parent.
    """


class CommandError(Exception):
    """A command ended with an error, or had to be ended; the message says which."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code
        """Its exit code; negative: the signal that ended it."""


def run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, limit: float
) -> Resources:
    """Run a command to its end; what it prints goes to a file.

    Args:
        command: the program and its arguments.
        environment: all its environment variables.
        folder: where it runs.
        log: where what it prints goes.
        limit: seconds on the clock after which it is killed.

    Raises:
        CommandError: with the line it printed that tells most.
    """
    begun = time.perf_counter()
    with log.open("wb") as stream:
        started = subprocess.Popen(  # noqa: S603 (our own drivers, and pip)
            command,
            cwd=folder,
            env=environment,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        peak = 0.0
        while True:
            ended, status, usage = os.wait4(started.pid, os.WNOHANG)
            if ended:
                break
            peak = max(peak, _memory(started.pid))
            if time.perf_counter() - begun > limit:
                os.killpg(started.pid, signal.SIGKILL)
            time.sleep(PAUSE)
        started.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - begun
    if started.returncode:
        over = f"killed after {wall:.0f} s: " if wall > limit else ""
        raise CommandError(over + _reason(log), started.returncode)
    return Resources(usage.ru_utime + usage.ru_stime, wall, peak)


def _memory(session: int) -> float:
    """Bytes that the processes of a session hold now; without shared pages if not on Linux."""
    total = 0
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session:
                memory = process.memory_full_info()
                total += getattr(memory, "pss", memory.uss)
        except (psutil.Error, OSError):  # it ended while we looked
            continue
    return float(total)


def _reason(log: Path) -> str:
    """The line that says most: what git calls fatal, what pip calls an error, else the last."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [
        [line for line in lines if line.lower().startswith(word)] for word in ("fatal:", "error:")
    ]
    return next((matches for matches in (*telling, lines) if matches), ["it printed nothing"])[-1]
