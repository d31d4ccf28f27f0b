"""What benchmarks printed at earlier commits: ``python -m benchmarks.ledger [--measure]``."""

import argparse
import csv
import inspect
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.__main__ import BENCHMARKS, MISSING
from benchmarks.peers import process
from benchmarks.peers.environment import ROOT, ours
from benchmarks.timing import Outcome

LEDGER = Path(__file__).with_name("ledger.csv")

LONG = 60.0
"""CPU seconds that a quick benchmark may take."""

LIMIT = 600.0
"""Seconds on the clock after which a benchmark is ended: it hangs."""

FALL, HALF = 0.8, 0.5
"""Shares of the best earlier ratio: below the first a fall is printed, below the second it fails.

Quick runs differ from each other by some ten percent, and the best of many is a lucky one.
"""

_VERDICT = re.compile(r"^(\S+) ours=(\S+) theirs=(\S+) ratio=\S+$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One ratio, from one run of a quick benchmark."""

    date: str
    commit: str
    """Short hash; it ends in ``+`` if files differed from that commit."""
    processor: str
    """Kind of processor: figures of different kinds are not compared."""
    name: str
    """The benchmark, or one of the workloads that it compares."""
    ours: float
    theirs: float
    cpu_s: float
    """CPU seconds of the whole benchmark, of all its workloads and contenders."""
    peak_mb: float
    """Peak memory of the whole benchmark with its child processes."""

    @property
    def ratio(self) -> float:
        """How many times ours theirs is; only this is compared."""
        return self.theirs / self.ours


@dataclass(frozen=True)
class Fall:
    """A ratio below the best of the same name and kind of processor."""

    now: Row
    best: Row

    @property
    def share(self) -> float:
        """Ratio now as a share of the best ratio."""
        return self.now.ratio / self.best.ratio

    def __str__(self) -> str:
        return (
            f"{self.now.name:38}{self.now.ratio:10.2f} at {self.now.commit:11}"
            f"{self.best.ratio:10.2f} at {self.best.commit:11}{self.share:8.0%}"
        )


def find_comparisons() -> list[str]:
    """Benchmarks that compare: what they return, by its annotation, is an outcome."""
    return [
        name
        for name, benchmark in BENCHMARKS.items()
        if inspect.signature(benchmark.run).return_annotation is Outcome
    ]


def read(file: Path) -> list[Row]:
    """Rows in the order in which they were appended; none if there is no file."""
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return [
            Row(**{f.name: f.type(row[f.name]) for f in fields(Row)})  # type: ignore[operator]
            for row in csv.DictReader(lines)
        ]


def append(file: Path, rows: Iterable[Row]) -> None:
    """Write rows behind those that are there."""
    names = [field.name for field in fields(Row)]
    new = not file.exists()
    with file.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, names, lineterminator="\n")
        if new:
            writer.writeheader()
        for row in rows:
            writer.writerow(
                {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in asdict(row).items()}
            )


def find_falls(rows: Sequence[Row], below: float = FALL) -> list[Fall]:
    """The last row of each name and kind of processor that is below a share of the best one."""
    last = {(row.name, row.processor): row for row in rows}
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = row.name, row.processor
        best[key] = max(best.get(key, row), row, key=lambda row: row.ratio)
    falls = (Fall(row, best[key]) for key, row in last.items())
    return [fall for fall in falls if fall.share < below]


def read_ratios(text: str) -> Iterator[tuple[str, float, float]]:
    """Name, ours and theirs of each line that a benchmark printed for programs."""
    for name, mine, peers in _VERDICT.findall(text):
        yield name, float(mine), float(peers)


def measure(name: str) -> list[Row]:
    """Run a quick benchmark in a process of its own.

    Raises:
        process.CommandError: it failed, or lacks a peer, a data set or an ability of the processor.
    """
    with TemporaryDirectory() as folder:
        log = Path(folder, "log")
        command = [sys.executable, "-m", "benchmarks", name, "--quick"]
        spent = process.run(command, ours(), ROOT, log, LIMIT)
        printed = log.read_text(errors="replace")
    today = datetime.now(UTC).date().isoformat()
    note = f"OVER {LONG:.0f} CPU s" if spent.cpu > LONG else ""
    print(
        f"{name:38}{spent.cpu:8.1f} CPU s{spent.wall:8.1f} s{spent.peak / 1e6:8.0f} MB {note}",
        flush=True,
    )
    return [
        Row(today, _commit(), processor(), *ratio, spent.cpu, spent.peak / 1e6)
        for ratio in read_ratios(printed)
    ]


def processor() -> str:
    """Kind of processor: maker, family and model, where Linux names them, and cores.

    Examples:
        >>> processor().endswith("cores")
        True
    """
    info = Path("/proc/cpuinfo")
    named = (
        re.findall(r"^(vendor_id|cpu family|model)\s*: (.+)$", info.read_text(), re.MULTILINE)
        if info.exists()
        else []
    )
    kind = " ".join(dict(named).values()) or f"{platform.machine()} {platform.processor()}"
    return f"{kind}, {os.cpu_count()} cores"


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 (no input)

    changed = git("status", "--porcelain", "--", "src", "fast", "papers", "benchmarks/*.py")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def _measure_all(names: Sequence[str]) -> tuple[list[Row], bool]:
    """Rows of all that could be measured, appended; and whether one failed."""
    rows, failed = [], False
    for name in names:
        try:
            new = measure(name)
        except process.CommandError as error:
            print(f"{name:38}NOT MEASURED: {error}", flush=True)
            failed = failed or error.code != MISSING
            continue
        append(LEDGER, new)
        rows += new
    return rows, failed


def main() -> int:
    """Print what fell; 1 if a benchmark failed or a ratio that was just measured fell by half."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="run the quick benchmarks first")
    parser.add_argument("names", nargs="*", help="these benchmarks alone; all that compare without")
    chosen = parser.parse_args()
    names = chosen.names or find_comparisons()
    if unknown := sorted(set(names) - set(find_comparisons())):
        parser.error(f"expected benchmarks that compare, got {', '.join(unknown)}")
    measured, failed = _measure_all(names) if chosen.measure else ([], False)
    falls = find_falls(read(LEDGER))
    print(f"\n{'fell by more than a fifth':38}{'now':>10}{'':15}{'best':>10}{'':15}{'share':>8}")
    print("\n".join(map(str, falls)) or "none")
    return int(failed or any(fall.share < HALF and fall.now in measured for fall in falls))


if __name__ == "__main__":
    sys.exit(main())
