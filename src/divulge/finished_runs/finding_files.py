"""The files of one finding in a run folder: what was found, the guess, and the time it took."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from divulge._util import atomic, seals, untrusted
from divulge._util.json import JSON
from divulge.core import BlindRun, Control, ControlOutcome, Entry, Finding
from divulge.errors import StoreError

HELD = 2**26
"""Bytes of arrays that are kept in memory."""


@final
class StoredArrays(Mapping[str, np.ndarray]):
    """By name, the arrays of an ``.npz`` file.

    Args:
        path: the file, all of which is checked.

    Raises:
        StoreError: it cannot be read, or holds something else; large arrays may raise it later.
    """

    def __init__(self, path: Path) -> None:
        arrays = atomic.read_arrays(path)
        for name, array in arrays.items():
            if array.dtype.kind not in "fiub":
                raise atomic.damaged_file_error(path, ValueError(f"{name} of type {array.dtype}"))
        self._path, self._names = path, tuple(arrays)
        large = sum(array.nbytes for array in arrays.values()) > HELD
        self._arrays = None if large else arrays

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        arrays = self._arrays or atomic.read_arrays(self._path, name)
        return arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """A finding file."""

    finding: Finding
    control: Control | None
    blind: BlindRun | None = None
    guess: str = ""
    """SHA-256 of the file of the guess; empty without one, and before schema 7."""


def write(folder: Path, key: str, entry: Entry) -> None:
    """Store a finding; its JSON file comes last and makes it count.

    Its time stands in a file of its own, since it differs from run to run.

    Raises:
        StoreError: it cannot be written.
    """
    base, guess = f"findings/{key}", ""
    if entry.arrays:
        packed = atomic.pack_arrays(dict(entry.arrays))
        guess = hashlib.sha256(packed).hexdigest()
        atomic.write_within(folder, f"{base}.npz", packed)
    seconds = f"{entry.finding.seconds!r}\n"
    atomic.write_within(folder, f"{base}.seconds", seconds.encode())
    timeless = replace(entry.finding, seconds=0.0)
    stored = StoredFinding(timeless, entry.control, entry.blind, guess)
    content = seals.seal_json(atomic.to_json(stored, StoredFinding), f"{key}.json")
    atomic.write_within(folder, f"{base}.json", content)


def read(folder: Path, key: str, *, sealed: bool) -> Entry | None:
    """A stored finding, or None.

    Args:
        folder: the run folder.
        key: of the finding.
        sealed: whether it has to carry a checksum.

    Raises:
        StoreError: it is damaged, or was changed.
    """
    base = untrusted.path_within(folder, f"findings/{key}", StoreError)
    place = base.with_suffix(".json")
    if not place.exists():
        return None
    raw = atomic.read(place)
    stored = _read_finding(raw, place)
    seals.refuse_edited_json(raw, place, sealed=sealed)
    finding = replace(stored.finding, seconds=_read_seconds(base.with_suffix(".seconds")))
    guess = base.with_suffix(".npz")
    if stored.guess:
        seals.refuse_other_files(folder, {f"findings/{key}.npz": stored.guess})
    elif sealed or not guess.exists():  # a kill may have left one of a later try
        return Entry(finding, stored.control, {}, stored.blind)
    return Entry(finding, stored.control, StoredArrays(guess), stored.blind)


def _read_seconds(place: Path) -> float:
    try:
        return float(atomic.read(place)) if place.exists() else 0.0
    except ValueError as error:
        raise atomic.damaged_file_error(place, error) from error


def _read_finding(raw: bytes, place: Path) -> StoredFinding:
    """A stored finding; before schema 5 its controls had two outcomes, of which one was wrong.

    Raises:
        StoreError: it is damaged.
    """
    stored: dict[str, JSON] = atomic.from_json(raw, dict, place)
    control = stored.get("control")
    for run in (stored.get("blind"), control.get("blind") if isinstance(control, dict) else None):
        if isinstance(run, dict) and "passed" in run:
            passed, tested = run.pop("passed"), run.get("p_value") is not None
            sure = tested and not run.get("reason")  # the reason why it could not have failed
            outcome = ControlOutcome.PASSED if sure else ControlOutcome.NOT_TESTED
            run["outcome"] = outcome if passed else ControlOutcome.FAILED
    return atomic.from_python(stored, StoredFinding, place)
