"""One row with one seed: the piece of work that is stored, and never done twice."""

import hashlib
import importlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import leakscope
from leakscope import atomic
from leakscope.errors import LeakscopeError, StoreError
from leakscope.experiments.table import Size, Table


@dataclass(frozen=True, slots=True)
class Piece:
    """What one row is with one seed."""

    row: str
    seed: int
    values: dict[str, list[float]]
    reason: str
    seconds: float
    """Of the processor."""


class Work(NamedTuple):
    """All that a process needs to know to do one piece."""

    work: str
    row: str
    settings: Mapping[str, Any]
    seed: int
    size: Size
    folder: Path
    earlier: tuple[Path, ...]
    """Folders whose pieces count as well; the first of all folders keeps what work wants kept."""
    keeps: bool


def works(table: Table, size: Size, folder: Path, earlier: tuple[Path, ...]) -> list[Work]:
    """All pieces of a table, such that neighbours share what is costly to prepare."""
    return [
        Work(table.work, row.name, dict(row.settings), seed, size, folder, earlier, table.keeps)
        for seed in range(table.seeds[size])
        for row in table.rows
    ]


def done(work: Work) -> Piece:
    """The piece from its file, or measured now and put there.

    Raises:
        StoreError: the file cannot be written, or is damaged.
    """
    name = f"cells/{_key(work)}.json"
    for path in (work.folder / name, *(folder / name for folder in work.earlier)):
        if path.exists():
            with atomic.said(path):
                piece = atomic.from_json(path.read_bytes(), Piece, path)
            break
    else:
        piece = _measured(work)
    piece = replace(piece, row=work.row)  # tables may call the same work by other names
    if not piece.reason:  # what failed may have been a passing fault, such as data not there
        atomic.write(work.folder / name, atomic.to_json(piece, Piece).encode())
    return piece


def _measured(work: Work) -> Piece:
    module, _, function = work.work.partition(":")
    begun = time.process_time()
    values: Mapping[str, Sequence[float]] = {}
    reason = ""
    try:
        measure = getattr(importlib.import_module(module), function)
        given = {"folder": (*work.earlier, work.folder)[0]} if work.keeps else {}
        with _one_core():
            values = measure(work.seed, work.size, **work.settings, **given)
    except StoreError:
        raise
    except LeakscopeError as error:
        reason = str(error)
    plain = {name: [float(value) for value in each] for name, each in values.items()}
    return Piece(work.row, work.seed, plain, reason, time.process_time() - begun)


@contextmanager
def _one_core() -> Iterator[None]:
    """Within it joblib counts one core: work stays in this process, whose seconds are measured."""
    before = os.environ.get(_CORES)
    os.environ[_CORES] = "1"
    try:
        yield
    finally:
        del os.environ[_CORES]
        if before is not None:
            os.environ[_CORES] = before


_CORES = "LOKY_MAX_CPU_COUNT"


def _key(work: Work) -> str:
    """A digest of all that the values depend on."""
    about = [work.work, work.settings, work.seed, work.size, version("leakscope"), code()]
    text = json.dumps(about, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@cache
def code() -> str:
    """A digest of this package's source: an attack that was changed gives other figures."""
    root = Path(leakscope.__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
