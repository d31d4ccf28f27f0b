"""Scores of canaries in a file: how much a training shows of each, without the coins."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pydantic
from jaxtyping import Float64

from divulge._util import arrays, atomic
from divulge.data.canary_files import Canaries, sha256
from divulge.errors import DataError, StoreError

GradNorm = Annotated[float, pydantic.Field(gt=0)]
"""What a record's gradient is clipped to."""

Box = Literal["white", "black"]
_BOXES: tuple[Box, ...] = ("white", "black")


@dataclass(frozen=True, slots=True)
class CanaryScores:
    """One score a canary; higher means more likely inserted."""

    score: Float64[np.ndarray, " canaries"]
    box: Box
    """``white``, from gradients and updates of each step, or ``black``, from losses at the end."""
    canaries: str
    """SHA-256 digest of the canaries."""
    model: str
    """Fingerprint of the trained model; empty where it has none."""
    steps: int
    """How many steps were seen; 0 for the black box."""

    @property
    def digest(self) -> str:
        """SHA-256 digest of the scores."""
        return sha256(self.score, np.array([self.box, self.canaries, self.model]))


def write_scores(path: Path, scores: CanaryScores, **more: np.ndarray) -> None:
    """Write scores to an ``.npz`` file, atomically.

    Args:
        path: the file.
        scores: the scores.
        more: arrays of one dimension and the same length.

    Raises:
        StoreError: it cannot be written.
    """
    named = {
        "score": scores.score,
        "about": np.array([scores.box, scores.canaries, scores.model]),
        "steps": np.array([scores.steps]),
    }
    atomic.write_arrays(path, named | more)


def read_scores(path: Path, canaries: Canaries) -> CanaryScores:
    """The scores of these canaries.

    Raises:
        StoreError: the file is missing or damaged.
        DataError: a score is missing, or they are scores of other canaries.
    """
    held = read_arrays(path, "score", "about", "steps")
    score, about, steps = held["score"], held["about"], held["steps"]
    if about.dtype.kind != "U" or len(about) != 3 or about[0] not in _BOXES or len(steps) != 1:
        raise atomic.damaged_file_error(path, ValueError("it does not say what it holds"))
    box = _BOXES[about[0] == "black"]
    if about[1] != canaries.digest:
        raise DataError(
            f"expected scores of the canaries {canaries.digest[:16]}..., got those of "
            f"{str(about[1])[:16]}... in {path}: score the canaries of this folder"
        )
    missing = len(canaries.y) - int(np.isfinite(score).sum()) if score.dtype.kind == "f" else None
    if missing is None or missing or len(score) != len(canaries.y):
        raise DataError(
            f"expected {len(canaries.y):,} finite scores in {path}, got "
            f"{'no numbers' if missing is None else f'{len(canaries.y) - missing:,}'}: score every "
            "canary; a missing score is no low score"
        )
    return CanaryScores(score.astype(np.float64), box, str(about[1]), str(about[2]), int(steps[0]))


def read_arrays(path: Path, *names: str) -> dict[str, np.ndarray]:
    """Arrays of one dimension from a file that a user named.

    Raises:
        StoreError: the file is missing or damaged.
    """
    try:
        found = arrays.read_npz(path, names, error=StoreError)
    except arrays.DamagedArrays as error:
        raise atomic.damaged_file_error(path, error) from error
    if any(array.ndim != 1 for array in found.values()):
        raise atomic.damaged_file_error(path, ValueError("an array has more than one dimension"))
    return found
