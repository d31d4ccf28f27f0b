"""The run folder: everything an audit found, readable years later without model, data or torch.

    RUN/
      run.json          schema version, settings, seed, environment, data, checks
      candidates.npz    member, label, index: one entry a candidate
      findings/KEY.json a finding with its controls; KEY.npz its scores; KEY.seconds its time
      shadows/KEY.npz   what one shadow model says of the candidates and reference records
      answers.sqlite    the model's answers, so that none is asked for twice
      report.html, summary.json, summary.md, figures/

Each file is written beside its place and moved there, so that it is whole or absent; a finding's
JSON comes last and makes it count. KEY is a digest of the challenge, the attack's settings and
the seed: what was computed for other data or another model is never taken for this one's. The
time an attack took stands in a file of its own, so findings are the same, bit for bit, however
often the work was interrupted. Folders and files are readable by their owner alone.
"""

import contextlib
import errno
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pydantic
from jaxtyping import Bool, Float64, Int

from leakscope.core import Check, Claim, Control, Finding
from leakscope.errors import SpecError, StoreError

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was audited and how: ``run.json``."""

    name: str
    created: str
    """UTC, ISO 8601."""
    challenge: str
    """Digest of candidates, reference records, model answers, seed and delta."""
    seed: int
    delta: float
    members: int
    nonmembers: int
    reference: int
    classes: int
    class_names: tuple[str, ...]
    """Empty, or one name a class."""
    attacks: tuple[str, ...]
    """Labels of all attacks asked for, in order."""
    settings: dict[str, Any]
    environment: dict[str, str]
    checks: tuple[Check, ...]
    leakscope: str
    schema: int = SCHEMA
    claim: Claim | None = None
    """The guarantee that the measured ε is held against."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The truth and the labels, in the order in which attacks saw the candidates."""

    member: Bool[np.ndarray, " records"]
    label: Int[np.ndarray, " records"]
    index: Int[np.ndarray, " records"]
    """Position among the members (or among the non-members) as the user gave them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One attack's finding, its controls and its scores (None unless it is done)."""

    finding: Finding
    control: Control | None = None
    score: Float64[np.ndarray, " records"] | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """A whole run, as the report reads it."""

    manifest: Manifest
    candidates: Candidates
    entries: tuple[Entry, ...]
    missing: tuple[str, ...] = field(default=())
    """Attacks asked for that have no finding yet, because the run was interrupted."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A finding file."""

    finding: Finding
    control: Control | None


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder on disk."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> "Run":
        """A new folder for the owner alone.

        Raises:
            StoreError: it exists with something in it, or cannot be made.
        """
        with _said(path):
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise StoreError(
                    f"expected a new run folder, {path} exists: "
                    "choose another one, or continue it with --resume"
                )
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700)
            (path / "findings").mkdir(mode=0o700)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "Run":
        """An existing folder.

        Raises:
            StoreError: it is not there, or holds no run.
        """
        if not (path / "findings").is_dir():
            raise StoreError(f"expected a run folder made by leakscope, got {path}: check the path")
        return cls(path)

    def begin(self, manifest: Manifest, candidates: Candidates) -> None:
        """Write what does not depend on any attack.

        Raises:
            StoreError: the folder belongs to another challenge, or cannot be written.
        """
        if (self.path / "run.json").exists():
            before = self.manifest()
            if before.challenge != manifest.challenge:
                raise StoreError(
                    f"expected the data, model, seed and delta that {self.path} was begun with, "
                    "got different ones: start a new run"
                )
            manifest = replace(manifest, created=before.created)
        arrays = {"member": candidates.member, "label": candidates.label, "index": candidates.index}
        _write_arrays(self.path / "candidates.npz", arrays)
        self.write("run.json", _to_json(manifest, Manifest))

    def manifest(self) -> Manifest:
        """``run.json``.

        Raises:
            StoreError: it is missing, damaged, or of a newer schema.
        """
        raw = self._read("run.json")
        try:
            schema = pydantic.TypeAdapter(dict[str, Any]).validate_json(raw).get("schema")
        except pydantic.ValidationError as error:
            raise _damaged(self.path / "run.json", error) from error
        if isinstance(schema, int) and schema > SCHEMA:
            raise StoreError(
                f"expected schema {SCHEMA} or older, {self.path} has schema {schema}: "
                "it was made by a newer leakscope; update this one"
            )
        return _from_json(raw, Manifest, self.path / "run.json")

    def write(self, name: str, content: str | bytes) -> Path:
        """Write one file of the folder, atomically; returns its path.

        Raises:
            StoreError: it cannot be written.
        """
        path = self.path / name
        with _said(path.parent):
            path.parent.mkdir(mode=0o700, exist_ok=True)
        _write(path, content.encode() if isinstance(content, str) else content)
        return path

    def put(self, key: str, entry: Entry) -> None:
        """Store a finding; its JSON file comes last and makes it count.

        Raises:
            StoreError: it cannot be written.
        """
        base = self.path / "findings" / key
        if entry.score is not None:
            _write_arrays(base.with_suffix(".npz"), {"score": entry.score})
        _write(base.with_suffix(".seconds"), f"{entry.finding.seconds!r}\n".encode())
        stored = _Stored(replace(entry.finding, seconds=0.0), entry.control)
        _write(base.with_suffix(".json"), _to_json(stored, _Stored).encode())

    def get(self, key: str) -> Entry | None:
        """A stored finding, or None.

        Raises:
            StoreError: it is damaged.
        """
        base = self.path / "findings" / key
        if not base.with_suffix(".json").exists():
            return None
        stored = _from_json(self._read(f"findings/{key}.json"), _Stored, base.with_suffix(".json"))
        seconds_file = base.with_suffix(".seconds")
        try:
            seconds = float(seconds_file.read_text()) if seconds_file.exists() else 0.0
        except ValueError as error:
            raise _damaged(seconds_file, error) from error
        scores = base.with_suffix(".npz")
        score = _read_arrays(scores, "score")[0] if scores.exists() else None
        return Entry(replace(stored.finding, seconds=seconds), stored.control, score)

    def put_shadow(self, key: str, phi: tuple[np.ndarray, np.ndarray]) -> None:
        """Store a shadow's scaled logits of the candidates and of the reference records.

        Raises:
            StoreError: they cannot be written.
        """
        with _said(self.path):
            (self.path / "shadows").mkdir(mode=0o700, exist_ok=True)
        arrays = {"candidates": phi[0], "reference": phi[1]}
        _write_arrays(self.path / "shadows" / f"{key}.npz", arrays)

    def get_shadow(self, key: str) -> tuple[np.ndarray, np.ndarray] | None:
        """What `put_shadow` stored, or None.

        Raises:
            StoreError: it is damaged.
        """
        path = self.path / "shadows" / f"{key}.npz"
        if not path.exists():
            return None
        candidates, reference = _read_arrays(path, "candidates", "reference")
        return candidates, reference

    def entries(self) -> dict[str, Entry]:
        """All stored findings by key.

        Raises:
            StoreError: one is damaged.
        """
        keys = sorted(file.stem for file in (self.path / "findings").glob("*.json"))
        return {key: entry for key in keys if (entry := self.get(key)) is not None}

    def contents(self) -> Contents:
        """The whole run.

        Raises:
            StoreError: a part is missing, damaged, or does not fit the others.
        """
        manifest = self.manifest()
        member, label, index = _read_arrays(
            self.path / "candidates.npz", "member", "label", "index"
        )
        if not len(member) == len(label) == len(index) or member.dtype != np.bool_:
            raise StoreError(
                f"expected a flag, a label and an index per candidate in {self.path}, "
                "got arrays that do not fit: the run is damaged"
            )
        found = {}
        for key, entry in self.entries().items():
            if entry.score is not None and entry.score.shape != member.shape:
                raise StoreError(
                    f"expected {len(member)} scores in {self.path}/findings/{key}.npz, "
                    f"got {entry.score.shape}: the run is damaged"
                )
            found[entry.finding.label] = entry
        return Contents(
            manifest,
            Candidates(member, label, index),
            tuple(found[name] for name in manifest.attacks if name in found),
            tuple(name for name in manifest.attacks if name not in found),
        )

    def _read(self, name: str) -> bytes:
        with _said(self.path / name):
            return (self.path / name).read_bytes()


@contextlib.contextmanager
def _said(path: Path) -> Iterator[None]:
    """Say in our words what the operating system refuses."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(
                f"expected room for {path}, the disk is full: free some space, then continue with "
                "--resume; finished attacks are kept"
            ) from error
        raise StoreError(
            f"expected access to {path}, got {error.strerror or error}: "
            "check the path and its permissions"
        ) from error


def _damaged(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"expected {path} as leakscope wrote it, got something else "
        f"({str(error).splitlines()[0]}): restore it, or run the audit again"
    )


def _write(path: Path, data: bytes) -> None:
    """Write beside the place, then move: after a crash the file is whole or absent."""
    with _said(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with tempfile.SpooledTemporaryFile(max_size=2**26) as file:
        np.savez(file, allow_pickle=False, **arrays)
        file.seek(0)
        _write(path, file.read())


def _read_arrays(path: Path, *names: str) -> list[np.ndarray]:
    with _said(path):
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = [archive[name] for name in names]
        except (
            TypeError,
            AttributeError,
            ValueError,
            KeyError,
            EOFError,
            zipfile.BadZipFile,
        ) as error:
            raise _damaged(path, error) from error
    if any(array.ndim != 1 for array in arrays):
        raise _damaged(path, ValueError("an array has more than one dimension"))
    return arrays


def _to_json(value: T, kind: type[T]) -> str:
    return pydantic.TypeAdapter(kind).dump_json(value, indent=1).decode() + "\n"


def _from_json(raw: bytes, kind: type[T], path: Path) -> T:
    try:
        return pydantic.TypeAdapter(kind).validate_json(raw)
    except (pydantic.ValidationError, SpecError) as error:
        raise _damaged(path, error) from error
