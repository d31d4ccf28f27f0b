"""What is stored of each measurement: one row a target, mode, number of shadows and attack."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pydantic

Mode = Literal["online", "offline"]

MODES: tuple[Mode, ...] = ("online", "offline")

STORED = Path(__file__).parent / "measured"

HALVES = 4
"""Halves of each pool that targets are trained on, one or two on each."""

METRICS = ("AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")


@dataclass(frozen=True, slots=True)
class Row:
    """An attack on all models of a target, two of which were trained on each half of a pool."""

    target: str
    mode: Mode
    shadows: int
    attack: str
    values: dict[str, list[float]]
    """Of each metric, one value a model; empty where the attack is not applicable."""
    agreement: list[float | None]
    """For each half, records flagged at 1 % FPR in both models as a share of those flagged in any;
    None where none is, as where many records tie."""
    attack_cpu: float
    """CPU seconds of the attack on one model."""
    shadow_cpu: float
    """CPU seconds of the training of all its shadows."""
    reason: str = ""
    """Reason why it is not applicable."""

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What it is a measurement of."""
        return self.target, self.mode, self.shadows, self.attack

    def halves(self, metric: str) -> list[float]:
        """The metric's mean over the models of each of the `HALVES`."""
        models = np.reshape(self.values[metric], (HALVES, -1))
        return [float(mean) for mean in models.mean(axis=1)]

    @property
    def cpu(self) -> float:
        """CPU seconds of the attack on one model, with the training of its shadows."""
        return self.shadow_cpu + self.attack_cpu

    @property
    def shared(self) -> float | None:
        """The mean agreement of the halves where records are flagged."""
        known = [share for share in self.agreement if share is not None]
        return float(np.mean(known)) if known else None

    def mean(self, metric: str) -> float:
        """The metric's mean over all models."""
        return float(np.mean(self.values[metric]))


@dataclass(frozen=True, slots=True)
class Heading:
    """What the rows of one target have in common."""

    target: str
    trained: str
    """The model and its training, in words."""
    records: int
    """Records of a pool."""
    reference: int
    accuracy: dict[str, list[float]]
    """Of each model on its own half of the pool (``members``) and on the other (``others``)."""
    environment: str
    measured: str
    """Date of the first row."""


@dataclass(frozen=True, slots=True)
class TargetRows:
    """The stored file of one target."""

    heading: Heading
    rows: tuple[Row, ...]


def append(path: Path, line: Heading | Row) -> None:
    """Add a line to a file, so that it is there whatever happens next."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(asdict(line)) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def read(path: Path) -> TargetRows | None:
    """What is stored of a target; None if nothing is. A line that was cut by a kill is dropped."""
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    lines = whole.splitlines()
    if not lines:
        return None
    heading = pydantic.TypeAdapter(Heading).validate_json(lines[0])
    rows = pydantic.TypeAdapter(Row)
    return TargetRows(heading, tuple(rows.validate_json(line) for line in lines[1:]))


def read_rows(path: Path) -> list[Row]:
    """The rows of a file without a heading; none if there is no file."""
    if not path.exists():
        return []
    rows = pydantic.TypeAdapter(Row)
    return [rows.validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_all(names: Sequence[str], folder: Path = STORED) -> Iterator[TargetRows]:
    """What is stored of these targets, in their order."""
    for name in names:
        measured = read(folder / f"{name}.jsonl")
        if measured is not None and measured.rows:
            yield measured
