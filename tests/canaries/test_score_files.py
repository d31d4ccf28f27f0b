"""Files of canary scores that say nothing, or hold something else, are refused by name."""

from pathlib import Path

import numpy as np
import pytest

from divulge.canaries.make import make_canaries
from divulge.data.canary_files import Canaries, read_candidates
from divulge.data.canary_scores import read_scores
from divulge.errors import DataError, StoreError

COUNT = 40


def canaries(folder: Path) -> Canaries:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3)).astype(np.float32)
    make_canaries((x, (x[:, 0] > 0).astype(np.int64)), folder / "canaries", COUNT)
    return read_candidates(folder / "canaries")


def write(folder: Path, held: Canaries, **changed: np.ndarray) -> Path:
    usual = {
        "score": np.arange(COUNT) / 7,
        "about": np.array(["black", held.digest, "model"]),
        "steps": np.array([0]),
    }
    np.savez(folder / "scores.npz", **(usual | changed))  # type: ignore[arg-type]
    return folder / "scores.npz"


def test_scores_that_differ_are_read(tmp_path: Path) -> None:
    held = canaries(tmp_path)
    assert read_scores(write(tmp_path, held), held).steps == 0


def test_equal_scores_contradict_nothing_and_are_refused(tmp_path: Path) -> None:
    held = canaries(tmp_path)
    path = write(tmp_path, held, score=np.full(COUNT, 0.5))
    with pytest.raises(DataError, match=r"differ between canaries in .*, got 0\.5 for each of 40"):
        read_scores(path, held)


@pytest.mark.parametrize("steps", [[np.nan], [np.inf], [1.5], [-5], ["a"], [True]])
def test_steps_are_a_number_of_steps(steps: list[float], tmp_path: Path) -> None:
    held = canaries(tmp_path)
    with pytest.raises(StoreError, match="as divulge wrote it"):
        read_scores(write(tmp_path, held, steps=np.array(steps)), held)


def test_a_share_of_rounding_is_not_negative(tmp_path: Path) -> None:
    held = canaries(tmp_path)
    with pytest.raises(StoreError, match="as divulge wrote it"):
        read_scores(write(tmp_path, held, rounding=np.array([-1.0])), held)


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(np.float64).max, reason="no more")
def test_scores_beyond_float64_are_missing(tmp_path: Path) -> None:
    held = canaries(tmp_path)
    score = np.arange(COUNT).astype(np.longdouble) * np.longdouble("1e4000")
    with pytest.raises(DataError, match=r"expected 40 finite scores in .*, got 1: "):
        read_scores(write(tmp_path, held, score=score), held)
