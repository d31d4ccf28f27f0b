"""What changes nothing about scores of canaries, and what turns them over."""

from pathlib import Path

import numpy as np
import pytest

from divulge import CanaryAudit, audit_canaries
from divulge.data import canary_files as files
from tests.canaries import sets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    return sets.make(tmp_path_factory.mktemp("canaries"))


def _judge(folder: Path, score: np.ndarray) -> CanaryAudit:
    """The verdict on these scores, as if it were the first look."""
    (folder / files.OPENED).unlink(missing_ok=True)
    return audit_canaries(folder, [sets.write_scores(folder, score)], epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("leak", [0.0, 2.0])
@pytest.mark.parametrize("factor", [1e-6, 1e9])
def test_scores_of_another_scale_and_level_give_the_same_bound(
    folder: Path, leak: float, factor: float
) -> None:
    """Only such changes: what a class has in common is taken off by a difference."""
    score = sets.leak(folder, leak)
    plain, changed = _judge(folder, score), _judge(folder, factor * (score + 3))
    assert changed.verdict == plain.verdict == ("contradicted" if leak else "consistent")
    assert changed.bound == plain.bound
    assert changed.results[0].auc == plain.results[0].auc


def test_coins_that_are_turned_give_no_bound_and_a_doubt(folder: Path) -> None:
    score = sets.leak(folder, 2.0)
    plain, turned = _judge(folder, score), _judge(folder, -score)
    assert turned.results[0].auc.value == pytest.approx(1 - plain.results[0].auc.value)
    assert turned.bound == 0
    assert turned.verdict == "inputs doubtful"
    assert turned.fails(["contradicted"]) is None


def test_more_canaries_can_show_more(tmp_path: Path) -> None:
    """Coins decide membership, so the highest bound rises with their number alone."""
    pytest.importorskip("torch")
    few, many = (
        _judge(folder, sets.leak(folder, 99.0))
        for folder in (sets.make(tmp_path, count, seed=count) for count in (100, 400))
    )
    assert many.bound > few.bound
