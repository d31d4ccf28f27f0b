"""Scores of canaries in a file: how much a training shows of each, without the coins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pydantic
from jaxtyping import Float64

from divulge._util import arrays, atomic
from divulge._util.showable import make_showable
from divulge.data.canary_files import Canaries, sha256
from divulge.data.noise import SeenNoise
from divulge.data.sampling import SeenBatches
from divulge.errors import DataError, SpecError, StoreError

GradNorm = Annotated[float, pydantic.Field(gt=0)]
"""What a record's gradient is clipped to."""

Box = Literal["white", "black"]
_BOXES: tuple[Box, ...] = ("white", "black")


@dataclass(frozen=True, slots=True)
class CanaryScores:
    """One score a canary; higher means more likely inserted."""

    score: Float64[np.ndarray, " canaries"]
    box: Box
    """``white``, from gradients and updates of each step or round, or ``black``, from the model at
    the end."""
    canaries: str
    """SHA-256 digest of the canaries."""
    model: str
    """Fingerprint of the trained model; empty where it has none."""
    steps: int
    """How many steps or rounds were seen; 0 for the black box."""
    rounds: Float64[np.ndarray, "rounds canaries"] | None = None
    """Scores of each round of a federation, where there are several."""
    stated: tuple[float, float] | None = None
    """The ε and the δ that the mechanism of a federation states."""
    rounding: float | None = None
    """How large rounding by secure aggregation is, as a share of the change of a round, at most."""
    batches: SeenBatches | None = None
    """The batches that were seen, where it is known what the accountant was told of them."""
    statistics: tuple[str, ...] = ()
    """Layers that kept running statistics of records while the training was watched."""
    noise: SeenNoise | None = None
    """What steps or rounds show of their noise, each held against those before."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """By name, the versions of the libraries that the model and its training come from."""

    @property
    def digest(self) -> str:
        """SHA-256 digest of the scores."""
        parts = [self.score, np.array([self.box, self.canaries, self.model])]
        more = [] if self.rounds is None else [self.rounds]
        more += [] if self.batches is None else list(self.batches.as_arrays().values())
        more += [np.array(self.statistics)] if self.statistics else []
        more += [] if self.noise is None else list(self.noise.as_arrays().values())
        return sha256(*parts, *more)


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
    if scores.rounds is not None:
        named["rounds"] = scores.rounds.ravel()
    if scores.stated is not None:
        named["stated"] = np.array(scores.stated)
    if scores.rounding is not None:
        named["rounding"] = np.array([scores.rounding])
    if scores.batches is not None:
        named |= scores.batches.as_arrays()
    if scores.statistics:
        named["statistics"] = np.array(scores.statistics)
    if scores.noise is not None:
        named |= scores.noise.as_arrays()
    if scores.libraries:
        named["libraries"] = np.array([each for pair in scores.libraries.items() for each in pair])
    atomic.write_arrays(path, named | more)


def read_scores(path: Path, canaries: Canaries) -> CanaryScores:
    """The scores of these canaries.

    Raises:
        StoreError: the file is missing or damaged.
        DataError: a score is missing, all are equal, or they are scores of other canaries.
    """
    stored = read_arrays(path, "score", "about", "steps", more=True)
    score, about, steps = stored["score"], stored["about"], stored["steps"]
    readable = about.dtype.kind == "U" and len(about) == 3 and about[0] in _BOXES
    if not readable or steps.dtype.kind not in "iu" or len(steps) != 1 or steps[0] < 0:
        raise atomic.damaged_file_error(path, ValueError("it does not say what it holds"))
    box = _BOXES[about[0] == "black"]
    if about[1] != canaries.digest:
        raise DataError(
            f"expected scores of the canaries {canaries.digest[:16]}..., got those of "
            f"{str(about[1])[:16]}... in {path}: score the canaries of this folder"
        )
    score = _check_score(path, score, len(canaries.y))
    try:
        rounds, stated, rounding = _read_rounds(stored, len(score))
        batches, statistics = SeenBatches.from_arrays(stored), read_statistics(stored)
        libraries = _read_libraries(stored)
        noise = SeenNoise.from_arrays(stored)
    except (SpecError, ValueError) as error:
        raise atomic.damaged_file_error(path, error) from error
    return CanaryScores(
        score,
        box,
        str(about[1]),
        str(about[2]),
        int(steps[0]),
        rounds.reshape(-1, len(score)) if len(rounds) else None,
        (float(stated[0]), float(stated[1])) if len(stated) else None,
        float(rounding[0]) if len(rounding) else None,
        batches,
        statistics,
        noise,
        libraries,
    )


def _check_score(path: Path, score: np.ndarray, count: int) -> Float64[np.ndarray, " canaries"]:
    """The scores in float64.

    Raises:
        DataError: one is missing, or all are equal.
    """
    missing = None
    if score.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what is beyond float64 counts as missing
            score = score.astype(np.float64)
        missing = count - int(np.isfinite(score).sum())
    if missing is None or missing or len(score) != count:
        raise DataError(
            f"expected {count:,} finite scores in {path}, got "
            f"{'no numbers' if missing is None else f'{count - missing:,}'}: score every "
            "canary; a missing score is no low score"
        )
    if score.min() == score.max():
        raise DataError(
            f"expected scores that differ between canaries in {path}, got {score[0]:g} for each of "
            f"{len(score):,}: they tell nothing of what was inserted; score the model that was "
            "trained on them"
        )
    return score


def _read_rounds(
    stored: Mapping[str, np.ndarray], canaries: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of rounds, what a mechanism states of them, and how far rounding may put an entry.

    Raises:
        ValueError: they are not of so many canaries.
    """
    rounds, stated, rounding = (
        stored.get(name, np.zeros(0)) for name in ("rounds", "stated", "rounding")
    )
    numbers = (rounds, stated, rounding)
    if (
        any(array.dtype != np.float64 or not np.isfinite(array).all() for array in numbers)
        or len(rounds) % canaries
        or len(stated) not in (0, 2)
        or len(rounding) > 1
        or (rounding < 0).any()
    ):
        raise ValueError("its rounds are not of these canaries")
    return rounds, stated, rounding


def read_statistics(stored: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The layers that kept running statistics, from the arrays of a file of scores.

    Raises:
        ValueError: they are no names.
    """
    return _read_texts(stored, "statistics")


def _read_libraries(stored: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Names and versions in turn.

    Raises:
        ValueError: they are no texts.
    """
    texts = [make_showable(text) for text in _read_texts(stored, "libraries")]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _read_texts(stored: Mapping[str, np.ndarray], name: str) -> tuple[str, ...]:
    texts = stored.get(name, np.zeros(0, "U1"))
    if texts.dtype.kind != "U":
        raise ValueError(f"its {name} are no names")
    return tuple(map(str, texts))


def read_arrays(path: Path, *names: str, more: bool = False) -> dict[str, np.ndarray]:
    """Arrays of one dimension from a file that a user named.

    Args:
        path: the file.
        names: of the arrays.
        more: whether to read all others, too.

    Raises:
        StoreError: the file is missing or damaged.
    """
    try:
        stored = arrays.read_npz(path, None if more else names, error=StoreError)
    except arrays.DamagedArrays as error:
        raise atomic.damaged_file_error(path, error) from error
    if missing := [name for name in names if name not in stored]:
        raise atomic.damaged_file_error(path, ValueError(f"no array {missing[0]!r}"))
    if any(array.ndim != 1 for array in stored.values()):
        raise atomic.damaged_file_error(path, ValueError("an array has more than one dimension"))
    return stored
