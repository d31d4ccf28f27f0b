"""One row with one seed: the piece of work that is stored, and never done twice."""

import hashlib
import importlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from divulge._util import atomic
from divulge.audits.run_folder import StoredFinding
from divulge.errors import DivulgeError, StoreError
from divulge.reproduce import source
from divulge.reproduce.attempts import RowResult
from divulge.reproduce.table import Row, Size, Table


@dataclass(frozen=True, slots=True)
class Piece:
    """What one row is with one seed; tables may call the same piece by other names."""

    row: str
    seed: int
    values: dict[str, list[float]]
    reason: str
    seconds: float
    """CPU seconds that the piece took."""
    findings: tuple[StoredFinding, ...] = ()
    """What each attack found, with its controls, as a run folder keeps it."""


class Work(NamedTuple):
    """All that a process needs to know to do one piece."""

    key: str
    """A digest of all that the values depend on."""
    work: str
    row: str
    settings: Mapping[str, Any]
    seed: int
    size: Size
    folders: tuple[Path, ...]
    """Folders of the tables that need the piece; each is given it."""
    kept: Path | None
    """The folder for what several pieces need, if the work wants one."""


def works(tables: Mapping[Path, Table], size: Size) -> list[Work]:
    """All pieces of tables, each once; neighbours share what is costly to prepare.

    Args:
        tables: by the folder of each, of which the first is for what several pieces need.
        size: of all.
    """
    found: dict[str, Work] = {}
    first = next(iter(tables))
    for folder, table in tables.items():
        for key, row, seed in key_pieces(table, size):
            kept = first if table.keeps else None
            work = Work(key, table.work, row.name, dict(row.settings), seed, size, (), kept)
            known = found.get(key, work)
            found[key] = known._replace(folders=(*known.folders, folder))
    return list(found.values())


def key_pieces(table: Table, size: Size) -> Iterator[tuple[str, Row, int]]:
    """Key, row and seed of each piece of a table."""
    for seed in range(table.seeds[size]):
        for row in table.rows:
            yield _key(table.work, row.settings, seed, size), row, seed


def done(work: Work) -> tuple[str, Piece]:
    """The key, and the piece from its file, or measured now and put there.

    Raises:
        StoreError: the file cannot be written, or is damaged.
    """
    paths = [folder / "cells" / f"{work.key}.json" for folder in work.folders]
    there = next((path for path in paths if path.exists()), None)
    if there:
        with atomic.translate_os_errors(there):
            piece = atomic.from_json(there.read_bytes(), Piece, there)
    else:
        piece = _measure_piece(work)
    if not piece.reason:  # what failed may have been a passing fault, such as data not there
        for path in paths:
            if not path.exists():
                atomic.write(path, atomic.to_json(piece, Piece).encode())
    return work.key, piece


def _measure_piece(work: Work) -> Piece:
    module, _, function = work.work.partition(":")
    begun = time.process_time()
    measured, reason = RowResult({}), ""
    try:
        measure = getattr(importlib.import_module(module), function)
        given = {"folder": work.kept} if work.kept else {}
        with _one_core():
            measured = measure(work.seed, work.size, **work.settings, **given)
    except StoreError:
        raise
    except DivulgeError as error:
        reason = str(error)
    plain = {name: [float(value) for value in each] for name, each in measured.values.items()}
    findings = tuple(map(StoredFinding.of, measured.entries))
    return Piece(work.row, work.seed, plain, reason, time.process_time() - begun, findings)


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


def _key(work: str, settings: Mapping[str, Any], seed: int, size: Size) -> str:
    module = work.partition(":")[0]
    about = [work, settings, seed, size, version("divulge"), source.code(module)]
    text = json.dumps(about, sort_keys=True, default=dict)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
