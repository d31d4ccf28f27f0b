"""The run folder: everything an audit found, readable years later without model, data or torch.

    RUN/
      run.json          schema version, settings, seed, environment, data, checks
      candidates.npz    member, label, index, and ids if there are any: one entry a candidate
      findings/KEY.json a finding with its controls; KEY.npz its scores; KEY.seconds its time
      shadows/KEY.npy   what the shadow models say of the candidates and reference records, one row
                        a model; KEY.json which rows count
      answers.sqlite    the model's answers, so that none is asked for twice
      report.html, summary.json, summary.md, exposed.csv, figures/

Each file is written beside its place and moved there, so that it is whole or absent; a finding's
JSON comes last and makes it count. KEY is a digest of the challenge, the attack's settings and
the seed: what was computed for other data or another model is never taken for this one's. The
time an attack took stands in a file of its own, so findings are the same, bit for bit, however
often the work was interrupted. Folders and files are readable by their owner alone.
"""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from jaxtyping import Bool, Float64, Int, Shaped

from divulge._util import atomic
from divulge._util.folders import new_folder
from divulge.core import BlindRun, Check, Claim, Control, Drawn, Finding
from divulge.errors import StoreError

SCHEMA = 1


Key = Annotated[str, pydantic.Field(pattern=r"^\w[\w-]*$")]
"""Names a finding's files."""


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
    findings: tuple[Key, ...]
    """Their keys. The folder may hold further findings, asked for before with other settings."""
    settings: dict[str, Any]
    environment: dict[str, str]
    checks: tuple[Check, ...]
    shadows: Literal["none", "online", "offline"]
    """Whether there were shadow models, and whether they were trained on the candidates."""
    divulge: str = atomic.BEFORE_NAMING
    schema: int = SCHEMA
    claim: Claim | None = None
    """The guarantee that the measured ε is held against."""
    drawn: Drawn = "fixed"
    """How it was decided who is a member."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The truth and the labels, in the order in which attacks saw the candidates."""

    member: Bool[np.ndarray, " records"]
    label: Int[np.ndarray, " records"]
    index: Int[np.ndarray, " records"]
    """Position among the members (or among the non-members) as the user gave them."""
    ids: Shaped[np.ndarray, " records"] | None = None
    """The user's own, as texts, empty where there is none; None if no column was named."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One attack's finding, its controls and its scores (None unless it is done)."""

    finding: Finding
    control: Control | None = None
    score: Float64[np.ndarray, " records"] | None = None
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The guess, where it is no scores: arrays of one dimension by name."""
    blind: BlindRun | None = None
    """The blind control of a guess that is no scores, which has no other control."""


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
    blind: BlindRun | None = None


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
        new_folder(path)
        with atomic.said(path):
            (path / "findings").mkdir(mode=0o700)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "Run":
        """An existing folder.

        Raises:
            StoreError: it is not there, or holds no run.
        """
        if not (path / "findings").is_dir():
            raise StoreError(f"expected a run folder made by divulge, got {path}: check the path")
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
        if candidates.ids is not None:
            arrays["ids"] = candidates.ids
        atomic.write_arrays(self.path / "candidates.npz", arrays)
        self.write("run.json", atomic.to_json(manifest, Manifest))

    def manifest(self) -> Manifest:
        """``run.json``.

        Raises:
            StoreError: it is missing, damaged, or of a newer schema.
        """
        raw = self._read("run.json")
        try:
            schema = pydantic.TypeAdapter(dict[str, Any]).validate_json(raw).get("schema")
        except pydantic.ValidationError as error:
            raise atomic.damaged(self.path / "run.json", error) from error
        if isinstance(schema, int) and schema > SCHEMA:
            raise StoreError(
                f"expected schema {SCHEMA} or older, {self.path} has schema {schema}: "
                "it was made by a newer divulge; update this one"
            )
        return atomic.from_json(raw, Manifest, self.path / "run.json")

    def write(self, name: str, content: str | bytes) -> Path:
        """Write one file of the folder, atomically; returns its path.

        Raises:
            StoreError: it cannot be written.
        """
        path = self.path / name
        with atomic.said(path.parent):
            path.parent.mkdir(mode=0o700, exist_ok=True)
        atomic.write(path, content.encode() if isinstance(content, str) else content)
        return path

    def put(self, key: str, entry: Entry) -> None:
        """Store a finding; its JSON file comes last and makes it count.

        Raises:
            StoreError: it cannot be written.
        """
        base = self.path / "findings" / key
        arrays = dict(entry.arrays) if entry.score is None else {"score": entry.score}
        if arrays:
            atomic.write_arrays(base.with_suffix(".npz"), arrays)
        atomic.write(base.with_suffix(".seconds"), f"{entry.finding.seconds!r}\n".encode())
        stored = _Stored(replace(entry.finding, seconds=0.0), entry.control, entry.blind)
        atomic.write(base.with_suffix(".json"), atomic.to_json(stored, _Stored).encode())

    def get(self, key: str) -> Entry | None:
        """A stored finding, or None.

        Raises:
            StoreError: it is damaged.
        """
        base = self.path / "findings" / key
        if not base.with_suffix(".json").exists():
            return None
        raw = self._read(f"findings/{key}.json")
        stored = atomic.from_json(raw, _Stored, base.with_suffix(".json"))
        seconds_file = base.with_suffix(".seconds")
        try:
            seconds = float(seconds_file.read_text()) if seconds_file.exists() else 0.0
        except ValueError as error:
            raise atomic.damaged(seconds_file, error) from error
        scores = base.with_suffix(".npz")
        arrays = atomic.read_all(scores) if scores.exists() else {}
        score = arrays.pop("score", None)
        finding = replace(stored.finding, seconds=seconds)
        return Entry(finding, stored.control, score, arrays, stored.blind)

    def entries(self) -> dict[str, Entry]:
        """By key, the findings that are there of those asked for.

        Raises:
            StoreError: one is damaged.
        """
        keys = self.manifest().findings
        return {key: entry for key in keys if (entry := self.get(key)) is not None}

    def contents(self) -> Contents:
        """The whole run.

        Raises:
            StoreError: a part is missing, damaged, or does not fit the others.
        """
        manifest = self.manifest()
        candidates = self._candidates()
        member = candidates.member
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
            candidates,
            tuple(found[name] for name in manifest.attacks if name in found),
            tuple(name for name in manifest.attacks if name not in found),
        )

    def _candidates(self) -> Candidates:
        path = self.path / "candidates.npz"
        member, label, index = atomic.read_arrays(path, "member", "label", "index")
        ids = atomic.read_all(path).get("ids")  # runs before there were ids have none
        fits = len(member) == len(label) == len(index) and member.dtype == np.bool_
        if not fits or (ids is not None and (len(ids) != len(member) or ids.dtype.kind != "U")):
            raise StoreError(
                f"expected a flag, a label and an index per candidate in {self.path}, "
                "got arrays that do not fit: the run is damaged"
            )
        return Candidates(member, label, index, ids)

    def _read(self, name: str) -> bytes:
        with atomic.said(self.path / name):
            return (self.path / name).read_bytes()


def environment() -> dict[str, str]:
    """What a figure may depend on besides the settings."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        **packages,
    }


def run_folder(path: Path, *, resume: bool) -> Run:
    """A new run folder, or one to be continued."""
    return Run.open(path) if resume and (path / "findings").is_dir() else Run.create(path)
