"""Answers of one model, kept in an SQLite file."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import final

from divulge.errors import StoreError

_SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""
_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_ODD = """
SELECT count(*) FROM answers WHERE typeof(key) != 'blob' OR typeof(value) != 'blob'
OR length(key) != ? OR length(value) != ?
"""
_KEY, _NUMBER = 16, 8  # bytes


@final
class AnswerFile:
    """A file from record keys to answers, readable by its owner alone.

    Args:
        path: where; created unless it is there.
        fingerprint: of the model; a file written for another one is refused.

    Raises:
        StoreError: the file cannot be opened, or was written for another model, by a newer
            version, or by another program.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        try:
            # Before SQLite does, which would let everybody read what the model was asked.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise self._failed(error) from error
        with self._connected() as db:
            self._check_tables({name for (name,) in db.execute(_NAMES)})
            db.executescript(_TABLES)
            for name, value in (("schema", str(_SCHEMA)), ("fingerprint", fingerprint)):
                db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, value))
            found = dict(db.execute("SELECT name, value FROM meta"))
        self._check(found, fingerprint)
        classes = found.get("classes", "")
        self.classes = int(classes) if classes.isdecimal() else None

    def read(self) -> dict[bytes, bytes]:
        """Every answer in the file, as the bytes of its float64 numbers.

        Raises:
            StoreError: the file is damaged.
        """
        with self._connected() as db:
            (odd,) = db.execute(_ODD, (_KEY, _NUMBER * (self.classes or 0))).fetchone()
            if odd:
                raise self._failed(f"{odd} answers of another length")
            return dict(db.execute("SELECT key, value FROM answers"))

    def append(self, answers: Mapping[bytes, bytes], classes: int) -> None:
        """Adds answers; when this returns, they are on disk.

        Raises:
            StoreError: they cannot be written.
        """
        with self._connected() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('classes', ?)", (str(classes),))
            db.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", answers.items())
        self.classes = classes

    def _check_tables(self, names: set[str]) -> None:
        if names - {"meta", "answers"}:
            raise self._failed("a database of another program")

    def _check(self, found: Mapping[str, str], fingerprint: str) -> None:
        if found["schema"] != str(_SCHEMA):
            raise StoreError(
                f"expected answers of version {_SCHEMA} in {self._path}, got version "
                f"{found['schema']}: update divulge, delete the file or use another path"
            )
        if found["fingerprint"] != fingerprint:
            raise StoreError(
                f"expected answers of this model in {self._path}, got those of another model: "
                "delete the file or use another path"
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # Opened for each transaction: nothing stays locked, or open, between two batches.
        try:
            with closing(sqlite3.connect(self._path)) as db, db:
                yield db
        except sqlite3.OperationalError as error:  # a full disk, a lock, a missing permission
            raise StoreError(
                f"expected to read and write {self._path}, got {error}: free some space or check "
                "its permissions, then continue; the answers in it are kept"
            ) from error
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, reason: object) -> StoreError:
        return StoreError(
            f"expected {self._path} to hold the answers of a model, got {reason}: "
            "delete the file or use another path"
        )
