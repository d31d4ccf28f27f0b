"""A table that nobody published, and the work it takes."""

import os
from pathlib import Path

from divulge.errors import DataError
from divulge_papers.attempts import RowResult
from divulge_papers.table import Row, Table

calls: list[tuple[int, str]] = []


def work(seed: int, size: str, *, offset: float) -> RowResult:
    calls.append((seed, size))
    if offset < 0:
        raise DataError("expected data, got none")
    return RowResult({"one": [offset + seed, offset + seed + 1], "other": [offset, offset]})


def whoami(seed: int, size: str) -> RowResult:
    """Which process works, and with how many threads."""
    return RowResult({"one": [float(os.getpid()), float(os.environ["OMP_NUM_THREADS"])]})


def sharing(seed: int, size: str, folder: Path, *, offset: float) -> RowResult:
    """As `work`, with something that is made once for all rows."""
    if not (folder / "shared").exists():
        (folder / "shared").write_text("once", encoding="utf-8")
    return work(seed, size, offset=offset)


TABLE = Table(
    title="A trial",
    source="Nobody 2026, table 0",
    columns=("one", "other", "none"),
    rows=(Row("low", {"offset": 0.0}, {"one": 0.5}), Row("broken", {"offset": -1.0})),
    work=f"{__name__}:work",
    units="values",
    seeds={"small": 2, "paper": 3},
    minutes={"small": 0, "paper": 0},
    differs=dict.fromkeys(("small", "paper"), "everything"),
    kinds={"one": "normal"},
    largest={"one": 9.0},
)
