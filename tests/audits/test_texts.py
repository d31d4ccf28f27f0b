"""Data-set inference, against a slow and obvious version of it."""

import numpy as np
import pytest
from scipy import stats

from divulge._util.random import stream
from divulge.audits.texts import infer_collection


def draw(texts: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Signals of texts, of which a third are members, and who is one."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(texts) < texts // 3
    columns = rng.normal(size=(texts, 3)) * [1.0, 20.0, 1.0] + [0.0, 5.0, 0.0]
    columns[:, 0] += 0.5 * member
    columns[rng.integers(0, texts, 4), 2] = 1e4  # outliers are cut
    return columns, member


def naive(columns: np.ndarray, member: np.ndarray, seed: int) -> float:
    """Half of each set is learned from by ridge regression; the rest is compared."""
    rng = stream(seed, "collection")
    learned: list[int] = []
    for side in (True, False):
        rows = [k for k in range(len(member)) if member[k] == side]
        learned += [int(k) for k in rng.permutation(np.array(rows))[: len(rows) // 2]]
    tested = [k for k in range(len(member)) if k not in learned]
    mean, spread = columns[learned].mean(axis=0), columns[learned].std(axis=0)
    cut = np.clip((columns - mean) / spread, -3, 3)
    x, y = cut[learned], member[learned] - member[learned].mean()
    # one more record a column, that shows no slope: the ridge
    weight, *_ = np.linalg.lstsq(
        np.vstack([x, np.eye(x.shape[1])]), np.concatenate([y, np.zeros(x.shape[1])])
    )
    score = {side: [float(cut[k] @ weight) for k in tested if member[k] == side] for side in (1, 0)}
    means = {side: np.mean(each) for side, each in score.items()}
    parts = {side: np.var(each, ddof=1) / len(each) for side, each in score.items()}
    t = (means[1] - means[0]) / np.sqrt(parts[1] + parts[0])
    freedom = (parts[1] + parts[0]) ** 2 / sum(
        parts[side] ** 2 / (len(score[side]) - 1) for side in (1, 0)
    )
    return float(stats.t.sf(t, freedom))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_a_welch_test_of_the_other_half_by_a_score_learned_from_the_one(seed: int) -> None:
    columns, member = draw(150, seed)
    found = infer_collection(columns, member, None, seed)
    assert found is not None
    assert found.p_value == pytest.approx(naive(columns, member, seed), rel=1e-6)
    assert (found.learned, found.tested) == (25 + 50, 25 + 50)


def test_forty_of_each_are_enough_and_fewer_are_not() -> None:
    signals = np.random.default_rng(0).normal(size=(100, 2))
    assert infer_collection(signals[:80], np.arange(80) < 40, None, 0) is not None
    for members in (39, 61):
        assert infer_collection(signals, np.arange(100) < members, None, 0) is None
    person = np.arange(100) // 2  # 50 people, 20 of whom are members
    assert infer_collection(signals, np.arange(100) < 40, person, 0) is None


def test_signals_that_are_all_alike_tell_nothing() -> None:
    found = infer_collection(np.ones((100, 2)), np.arange(100) < 50, None, 0)
    assert found is not None
    assert found.p_value == 1.0


def test_what_is_known_without_the_model_is_tested_by_the_same_halves() -> None:
    columns, member = draw(150)
    found = infer_collection(columns, member, None, 3, lambda: columns)
    assert found is not None
    assert found.blind == found.p_value
