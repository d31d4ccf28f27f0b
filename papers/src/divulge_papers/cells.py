"""One row with one seed: the piece of work that is stored, and never done twice."""

import dataclasses
import datetime as dt
import hashlib
import importlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pydantic

from divulge._util import atomic
from divulge._util.json import RepeatedKey, Settings, refuse_repeated_keys
from divulge.errors import DivulgeError, StoreError
from divulge_papers import source
from divulge_papers.attempts import RowResult
from divulge_papers.controls import RowControls, judge_attacks
from divulge_papers.provenance import Measurement
from divulge_papers.table import Row, Size, Table

PIECES_FILE = "pieces.jsonl"
"""Name of the file in a run folder that holds the pieces, one a line."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one row is with one seed; tables may call the same piece by other names."""

    key: str
    """Digest of what the piece is; see `key_pieces`."""
    row: str
    seed: int
    values: dict[str, list[float]]
    reason: str
    """Reason why there are no values; empty where there are."""
    controls: RowControls
    """How the attacks did on their controls."""
    made: Measurement


_AS_JSON = pydantic.TypeAdapter(Piece)


class Work(NamedTuple):
    """All that a process needs to know to do one piece."""

    key: str
    work: str
    row: str
    settings: Settings
    seed: int
    size: Size
    folders: tuple[Path, ...]
    """Folders of the tables that need the piece; each is given it."""
    shared_folder: Path | None
    """The folder for what several pieces need, if the work wants one."""
    made: Measurement
    """Provenance, still without date and seconds."""


def works(tables: Mapping[Path, Table], size: Size, commit: str, cores: int) -> list[Work]:
    """All pieces of tables, each once; neighbours share what is costly to prepare.

    Args:
        tables: by the folder of each, of which the first is for what several pieces need.
        size: of all.
        commit: Git commit of the checkout.
        cores: number of CPU cores of the machine.
    """
    by_key: dict[str, Work] = {}
    first = next(iter(tables))
    for folder, table in tables.items():
        made = Measurement(version("divulge"), commit, source_of(table.work), cores)
        for key, row, seed in key_pieces(table, size):
            shared_folder = first if table.keeps else None
            work = Work(
                key, table.work, row.name, dict(row.settings), seed, size, (), shared_folder, made
            )
            known = by_key.get(key, work)
            by_key[key] = known._replace(folders=(*known.folders, folder))
    return list(by_key.values())


def key_pieces(table: Table, size: Size) -> Iterator[tuple[str, Row, int]]:
    """Key, row and seed of each piece of a table.

    A key of size small depends on the source too, so that figures are those of the code at hand. A
    table of size paper grows over days, so its keys do not; each piece says what measured it.
    """
    code = [version("divulge"), source_of(table.work)] if size == "small" else []
    for seed in range(table.seeds[size]):
        for row in table.rows:
            about = [_first_address(table.work), row.settings, seed, size, *code]
            text = json.dumps(about, sort_keys=True, default=dict)
            yield hashlib.blake2b(text.encode(), digest_size=8).hexdigest(), row, seed


def _first_address(work: str) -> str:
    """The address of a study when its first pieces of size paper were stored: keys are for good."""
    return work.replace("divulge_papers.", "divulge.reproduce.", 1)


def read_pieces(folder: Path) -> dict[str, Piece]:
    """Read the pieces of a run folder by key; of several with one key the last counts.

    The file is made if there is none. A line that a killed process did not finish is cut off.

    Raises:
        StoreError: the file is damaged, or cannot be read.
    """
    path = folder / PIECES_FILE
    if not path.exists():
        atomic.write(path, b"")
    *lines, unfinished = atomic.read(path).split(b"\n")
    if unfinished:
        atomic.write(path, b"".join(line + b"\n" for line in lines))
    return parse_pieces(lines, path)


def parse_pieces(lines: Sequence[bytes], path: Path) -> dict[str, Piece]:
    """Parse pieces, one a line, by key; of several with one key the last counts.

    Args:
        lines: pieces as `add_piece` wrote them.
        path: file that the lines come from, for the message.

    Raises:
        StoreError: a line is damaged.
    """
    try:
        for line in lines:
            refuse_repeated_keys(line)
        pieces = [_AS_JSON.validate_json(line) for line in lines]
    except (pydantic.ValidationError, RepeatedKey) as error:
        raise atomic.damaged_file_error(path, error) from error
    return {piece.key: piece for piece in pieces}


def add_piece(folder: Path, piece: Piece) -> None:
    """Append a piece to the file of a run folder that `read_pieces` has read.

    Raises:
        StoreError: it cannot be written.
    """
    line = _AS_JSON.dump_json(piece) + b"\n"
    with atomic.translate_os_errors(folder), (folder / PIECES_FILE).open("ab") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def measure_piece(work: Work) -> Piece:
    """Measure a piece.

    Raises:
        StoreError: what several pieces need cannot be stored.
    """
    if work.shared_folder is not None and not work.shared_folder.is_dir():
        raise StoreError(
            f"expected the folder {work.shared_folder} on each machine, got none: put the run on a "
            "file system that they share, for pieces of this table store what others need"
        )
    module, _, function = work.work.partition(":")
    begun = time.process_time()
    measured, reason = RowResult({}), ""
    try:
        measure = getattr(importlib.import_module(module), function)
        folder_argument = {"folder": work.shared_folder} if work.shared_folder else {}
        with _one_core():
            measured = measure(work.seed, work.size, **work.settings, **folder_argument)
    except StoreError:
        raise
    except DivulgeError as error:
        reason = str(error)
    plain = {name: [float(value) for value in each] for name, each in measured.values.items()}
    made = dataclasses.replace(
        work.made,
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        cpu_seconds=round(time.process_time() - begun, 3),
    )
    controls = judge_attacks(work.row, measured.entries, reason)
    return Piece(work.key, work.row, work.seed, plain, reason, controls, made)


@contextmanager
def _one_core() -> Iterator[None]:
    """Within it there is one core: work stays in this thread, whose seconds are measured."""
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in _ONE}
    os.environ.update(dict.fromkeys(_ONE, "1"))
    try:
        # libraries whose threads wait for each other spend many times the seconds when it is busy
        with threadpool_limits(1):
            yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


_ONE = ("LOKY_MAX_CPU_COUNT", "OMP_NUM_THREADS")
"""What joblib counts as cores, and the threads of libraries that are loaded within a piece."""


def source_of(work: str) -> str:
    """Digest of the source of a measuring function."""
    return source.code(work.partition(":")[0])
