"""Store predictions in an SQLite file, by the content of records."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import final

from divulge._util import untrusted
from divulge.errors import StoreError

_SCHEMA = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""

_TABLE_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"

_COUNT_DAMAGED = """
SELECT count(*) FROM answers WHERE typeof(key) != 'blob' OR typeof(value) != 'blob'
OR length(key) != ? OR length(value) = 0 OR CASE ? WHEN 0 THEN length(value) % ?
ELSE length(value) != ? END
"""

ANY_LENGTH = 0
"""In place of a number of columns: each answer has as many as it needs, as of a text's tokens."""

_KEY_BYTES, _NUMBER_BYTES = 16, 8  # bytes


@final
class PredictionFile:
    """A file from record keys to answers, readable by its owner alone.

    Args:
        path: the SQLite file; unless it exists, the first answers create it.
        fingerprint: the fingerprint of the model; a file written for another one is refused.

    Raises:
        StoreError: the file cannot be opened, or was written for another model, by a newer
            version, or by another program.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._held: sqlite3.Connection | None = None
        self._holding = False
        self.classes: int | None = None
        if path.is_symlink() or path.exists():
            untrusted.check_file(path, untrusted.MAX_DATA_BYTES, StoreError, links=False)
            self._open()

    def _open(self) -> None:
        try:
            # Before SQLite does, which would let everybody read what the model was asked.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise self._file_error(error) from error
        with self._transaction() as db:
            self._check_tables({name for (name,) in db.execute(_TABLE_NAMES)})
            db.executescript(_TABLES)
            for name, value in (("schema", str(_SCHEMA)), ("fingerprint", self._fingerprint)):
                db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, value))
            stored = dict(db.execute("SELECT name, value FROM meta"))
        self._check(stored, self._fingerprint)
        classes = stored.get("classes", "")
        self.classes = int(classes) if classes.isdecimal() else None

    def read(self) -> dict[bytes, bytes]:
        """Every answer in the file, as the bytes of its float64 numbers.

        Raises:
            StoreError: the file is damaged.
        """
        if not self._path.exists():
            return {}
        with self._transaction() as db:
            width = -1 if self.classes is None else self.classes
            bounds = (_KEY_BYTES, width, _NUMBER_BYTES, _NUMBER_BYTES * width)
            (odd,) = db.execute(_COUNT_DAMAGED, bounds).fetchone()
            if odd:
                raise self._file_error(f"{odd} answers of another length")
            return dict(db.execute("SELECT key, value FROM answers"))

    def append(self, answers: Mapping[bytes, bytes], classes: int) -> None:
        """Add answers; when this returns, they are on disk.

        Args:
            answers: by key, as the bytes of float64 numbers.
            classes: how many numbers each has, or `ANY_LENGTH`.

        Raises:
            StoreError: they cannot be written.
        """
        if not self._path.exists():
            self._open()
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('classes', ?)", (str(classes),))
            db.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", answers.items())
        self.classes = classes

    @contextmanager
    def many_appends(self) -> Iterator[None]:
        """Append many times in here, a few answers at a time, without waiting for the disk.

        After a kill all answers are there, as ever; a power cut may take those of this time.

        Raises:
            StoreError: the answers cannot be written.
        """
        self._holding = True
        try:
            yield
        finally:
            connection, self._held, self._holding = self._held, None, False
            if connection is not None:
                with self._translate_errors(), closing(connection):
                    connection.execute("PRAGMA journal_mode = DELETE")  # all is on the disk now

    def _check_tables(self, names: set[str]) -> None:
        if names - {"meta", "answers"}:
            raise self._file_error("a database of another program")

    def _check(self, stored: Mapping[str, str], fingerprint: str) -> None:
        if stored["schema"] != str(_SCHEMA):
            raise StoreError(
                f"expected answers of version {_SCHEMA} in {self._path}, got version "
                f"{stored['schema']}: update divulge, delete the file or use another path"
            )
        if stored["fingerprint"] != fingerprint:
            raise StoreError(
                f"expected answers of this model in {self._path}, got those of another model: "
                "delete the file or use another path"
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._translate_errors():
            if self._holding:
                self._held = self._held or self._connect("WAL")
                with self._held:
                    yield self._held
            else:
                # Opened for each transaction: nothing stays locked, or open, between two batches.
                with closing(self._connect("DELETE")) as db, db:
                    yield db

    def _connect(self, journal: str) -> sqlite3.Connection:
        db = sqlite3.connect(self._path)
        try:
            # A log beside the file needs no waiting, nor memory that processes share, which
            # network disks lack.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute(f"PRAGMA journal_mode = {journal}")
            db.execute(f"PRAGMA synchronous = {'NORMAL' if journal == 'WAL' else 'FULL'}")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # a full disk, a lock, a missing permission
            raise StoreError(
                f"expected to read and write {self._path}, got {error}: free some space or check "
                "its permissions, then continue; the answers in it are kept"
            ) from error
        # SQLite's own message may quote bytes of a damaged file, which are no text
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._file_error(error) from error

    def _file_error(self, reason: object) -> StoreError:
        return StoreError(
            f"expected {self._path} to hold the answers of a model, got {reason}: "
            "delete the file or use another path"
        )
