"""Timing contenders fairly, and printing what came out."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


class Contender(NamedTuple):
    """Something to be timed."""

    name: str
    call: Callable[[], object]


class Timing(NamedTuple):
    """How long each run of a contender took, in seconds."""

    name: str
    seconds: Sequence[float]

    @property
    def best(self) -> float:
        """The run that other processes disturbed least; ratios are taken between these.

        Medians would flatter us: a peer that computes on all cores loses more to a busy neighbour.
        """
        return min(self.seconds)


class Outcome(NamedTuple):
    """The two timings that a benchmark is about."""

    ours: Timing
    theirs: Timing


class MissingPeer(Exception):
    """A peer is not installed; the message says how to install it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"expected {package} to be installed, got nothing to measure beside divulge: "
            f"pip install -e '.[{extra}]'"
        )


def require_packages(packages: Iterable[str], extra: str) -> None:
    """Refuse to measure without what an extra brings.

    Raises:
        MissingPeer: one of the packages is not installed.
    """
    for package in packages:
        if find_spec(package) is None:
            raise MissingPeer(package, extra)


class MissingData(Exception):
    """A data set is not there; the message says where it was looked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"expected a data set at {path}, got none: set DIVULGE_DATA to the folder with them"
        )


class MissingProcessor(Exception):
    """The processor cannot do what is measured."""

    def __init__(self, ability: str) -> None:
        super().__init__(
            f"expected a processor with {ability}, got another one: measure on one that has it"
        )


def interleaved(contenders: Sequence[Contender], repeats: int) -> list[Timing]:
    """Times all contenders in turn, A B C A B C, so that a busy minute slows all of them.

    Each turn is two calls, of which the second is timed: imports, caches, threads and memory from
    the operating system are then ready for everybody, whoever was on before.
    """
    seconds: list[list[float]] = [[] for _ in contenders]
    for _ in range(repeats):
        for contender, runs in zip(contenders, seconds, strict=True):
            contender.call()
            runs.append(_seconds(contender))
    return [
        Timing(contender.name, runs) for contender, runs in zip(contenders, seconds, strict=True)
    ]


def once(contender: Contender) -> Timing:
    """Times a contender that is too slow to be run often."""
    return Timing(contender.name, [_seconds(contender)])


def environment(packages: Iterable[str]) -> str:
    """What a figure depends on: processor, cores, and versions."""
    versions = ", ".join(f"{package} {_version(package)}" for package in packages)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"{versions}"
    )


def table(timings: Iterable[Timing], base: Timing) -> str:
    """One line per timing, with its best run as a multiple of that of ``base``."""
    lines = [f"{'':46}{'min s':>10}{'median s':>10}{'runs':>6}{'times':>9}"]
    lines += [
        f"{timing.name:46}{timing.best:10.4f}{statistics.median(timing.seconds):10.4f}"
        f"{len(timing.seconds):6d}{timing.best / base.best:9.2f}"
        for timing in timings
    ]
    return "\n".join(lines)


def verdict(name: str, outcome: Outcome) -> str:
    """The last line of a benchmark: best runs in seconds, and how many times theirs is ours.

    Examples:
        >>> verdict("x", Outcome(Timing("a", [1.0, 2.0]), Timing("b", [3.0])))
        'x ours=1 theirs=3 ratio=3.00'
    """
    ours, theirs = outcome.ours.best, outcome.theirs.best
    return f"{name} ours={ours:.4g} theirs={theirs:.4g} ratio={theirs / ours:.2f}"


def _seconds(contender: Contender) -> float:
    begun = time.perf_counter()
    contender.call()
    return time.perf_counter() - begun


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source"
