"""The run folder: everything an audit found, readable years later without model, data or torch.

    RUN/
      run.json          kind, schema version, settings, seed, environment, what the audit is about
      candidates.npz    of membership: member, label, index, and ids if any, one entry a candidate
      findings/KEY.json a finding with its controls; KEY.npz its guess; KEY.seconds its time
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
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pydantic

from divulge._util import atomic
from divulge._util.folders import create_folder
from divulge.core import BlindRun, Candidates, Contents, Control, Entry, Finding, Manifest
from divulge.core.runs import SCHEMA, MembershipFacts
from divulge.errors import StoreError

HEAD = "run.json"
EARLIER = {
    "federation.json": "audit",
    "across.json": "leave-one-out",
    "compare.json": "comparison",
}
"""Heads of folders from before all were called ``run.json``, with their kind."""

H = TypeVar("H")


def read_raw_head(path: Path) -> dict[str, Any]:
    """The head of a run folder of any kind, with its ``kind``.

    Raises:
        StoreError: there is none, or it is damaged or of a newer schema.
    """
    place = next((path / name for name in (HEAD, *EARLIER) if (path / name).exists()), None)
    if place is None:
        raise StoreError(f"expected a run folder made by divulge, got {path}: check the path")
    with atomic.translate_os_errors(place):
        raw = place.read_bytes()
    try:
        found = pydantic.TypeAdapter(dict[str, Any]).validate_json(raw)
    except pydantic.ValidationError as error:
        raise atomic.damaged_file_error(place, error) from error
    schema = found.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise StoreError(
            f"expected schema {SCHEMA} or older, {path} has schema {schema}: "
            "it was made by a newer divulge; update this one"
        )
    return (
        found if "kind" in found else _upgrade_head(found, EARLIER.get(place.name, "audit"), path)
    )


def _upgrade_head(found: dict[str, Any], kind: str, path: Path) -> dict[str, Any]:
    """A head that was written before heads had kinds."""
    found = {**found, "kind": kind}
    if kind != "audit":
        return found
    if "subject" not in found:
        fields = MembershipFacts.__dataclass_fields__.keys() - {"kind"}
        own = fields & found.keys()
        facts = {field: found.pop(field) for field in own}
        return found | {"facts": facts | {"kind": "membership"}}
    facts = found.pop("subject")
    if isinstance(facts, dict) and facts.get("kind") == "assignment" and "labels" not in facts:
        raise StoreError(
            f"expected the classes of all candidates, {path} lacks them: it was made by an "
            "earlier divulge; run the audit again"
        )
    return found | {"facts": facts}


def read_head(path: Path, kind: type[H]) -> H:
    """The head of a run folder, which has to be of this kind.

    Raises:
        StoreError: see `read_raw_head`; or it is of another kind, or does not hold what it should.
    """
    found, wanted = read_raw_head(path), kind.__dataclass_fields__["kind"].default  # type: ignore[attr-defined]
    if found["kind"] != wanted:
        raise StoreError(
            f"expected a run of kind {wanted!r} in {path}, got {found['kind']!r}: "
            "divulge.load reads every kind"
        )
    return atomic.from_python(found, kind, path / HEAD)


def write_head(path: Path, manifest: Any) -> None:
    """Write ``run.json`` into a folder.

    Raises:
        StoreError: it cannot be written.
    """
    atomic.write(path / HEAD, atomic.to_json(manifest, type(manifest)).encode())


def has_head(path: Path) -> bool:
    """Whether a folder holds a run of any kind."""
    return any((path / name).exists() for name in (HEAD, *EARLIER))


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """A finding file."""

    finding: Finding
    control: Control | None
    blind: BlindRun | None = None

    @classmethod
    def of(cls, entry: Entry) -> "StoredFinding":
        """All of an entry but its guess and its seconds, which differ from run to run."""
        return cls(replace(entry.finding, seconds=0.0), entry.control, entry.blind)


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
        create_folder(path)
        with atomic.translate_os_errors(path):
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

    def begin(self, manifest: Manifest, candidates: Candidates | None) -> Manifest:
        """Write what does not depend on any attack; of a run that is continued it keeps the date.

        Raises:
            StoreError: the folder belongs to another challenge, or cannot be written.
        """
        if has_head(self.path):
            before = self.manifest()
            if before.challenge != manifest.challenge:
                raise StoreError(
                    "expected the data, truth, model, seed and delta that "
                    f"{self.path} was begun with, got different ones: start a new run"
                )
            manifest = replace(manifest, created=before.created)
        if candidates is not None:
            arrays = {
                "member": candidates.member,
                "label": candidates.label,
                "index": candidates.index,
            }
            if candidates.ids is not None:
                arrays["ids"] = candidates.ids
            atomic.write_arrays(self.path / "candidates.npz", arrays)
        write_head(self.path, manifest)
        return manifest

    def manifest(self) -> Manifest:
        """``run.json``.

        Raises:
            StoreError: it is missing, damaged, of a newer schema, or of another kind of run.
        """
        return read_head(self.path, Manifest)

    def write(self, name: str, content: str | bytes) -> Path:
        """Write one file of the folder, atomically; returns its path.

        Raises:
            StoreError: it cannot be written.
        """
        path = self.path / name
        with atomic.translate_os_errors(path.parent):
            path.parent.mkdir(mode=0o700, exist_ok=True)
        atomic.write(path, content.encode() if isinstance(content, str) else content)
        return path

    def put(self, key: str, entry: Entry) -> None:
        """Store a finding; its JSON file comes last and makes it count.

        Raises:
            StoreError: it cannot be written.
        """
        base = self.path / "findings" / key
        if entry.arrays:
            atomic.write_arrays(base.with_suffix(".npz"), dict(entry.arrays))
        atomic.write(base.with_suffix(".seconds"), f"{entry.finding.seconds!r}\n".encode())
        stored = StoredFinding.of(entry)
        atomic.write(base.with_suffix(".json"), atomic.to_json(stored, StoredFinding).encode())

    def get(self, key: str) -> Entry | None:
        """A stored finding, or None.

        Raises:
            StoreError: it is damaged.
        """
        base = self.path / "findings" / key
        if not base.with_suffix(".json").exists():
            return None
        raw = self._read(f"findings/{key}.json")
        stored = atomic.from_json(raw, StoredFinding, base.with_suffix(".json"))
        seconds_file = base.with_suffix(".seconds")
        try:
            seconds = float(seconds_file.read_text()) if seconds_file.exists() else 0.0
        except ValueError as error:
            raise atomic.damaged_file_error(seconds_file, error) from error
        scores = base.with_suffix(".npz")
        arrays = atomic.read_all_arrays(scores) if scores.exists() else {}
        finding = replace(stored.finding, seconds=seconds)
        return Entry(finding, stored.control, arrays, stored.blind)

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
        candidates = self._candidates() if manifest.facts.kind == "membership" else None
        found = {}
        for key, entry in self.entries().items():
            score, size = entry.score, 0 if candidates is None else len(candidates.member)
            if score is not None and score.shape != (size,):
                raise StoreError(
                    f"expected {size} scores in {self.path}/findings/{key}.npz, got "
                    f"{score.shape}: the run is damaged"
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
        ids = atomic.read_all_arrays(path).get("ids")  # runs before there were ids have none
        fits = len(member) == len(label) == len(index) and member.dtype == np.bool_
        if not fits or (ids is not None and (len(ids) != len(member) or ids.dtype.kind != "U")):
            raise StoreError(
                f"expected a flag, a label and an index per candidate in {self.path}, "
                "got arrays that do not fit: the run is damaged"
            )
        return Candidates(member, label, index, ids)

    def _read(self, name: str) -> bytes:
        with atomic.translate_os_errors(self.path / name):
            return (self.path / name).read_bytes()


def describe_environment() -> dict[str, str]:
    """What a figure may depend on besides the settings."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        **packages,
    }


def open_run_folder(path: Path, *, resume: bool) -> Run:
    """A new run folder, or one to be continued."""
    return Run.open(path) if resume and (path / "findings").is_dir() else Run.create(path)
