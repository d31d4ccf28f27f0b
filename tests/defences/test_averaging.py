"""Averages of models, each of which learned a part of the records."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from divulge.core import Need, Records, Target
from divulge.defences import Averaging
from divulge.errors import SpecError
from divulge.targets.function import FunctionTarget
from divulge.training.trainers import EstimatorTrainer

X = np.random.default_rng(0).normal(size=(60, 3))
POOL = Records(X, np.arange(60) % 2)
HALF = np.arange(60) < 40


class Counting:
    """Models that answer with the share of the pool that they learned."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []

    def many(self, pool: Records, subsets: np.ndarray, seeds: Sequence[int]) -> Iterator[Target]:
        """One model a row."""
        assert len(pool) == len(subsets[0])
        for subset, _ in zip(subsets, seeds, strict=True):
            self.rows.append(subset)
            share = float(subset.mean())
            yield FunctionTarget(lambda x, share=share: np.full((len(x), 2), [share, 1 - share]))


def test_each_model_learns_a_share_of_the_records_of_its_average() -> None:
    inner = Counting()
    averaged = Averaging(inner, models=4, share=0.25)
    models = list(averaged.many(POOL, np.stack([HALF, ~HALF]), [1, 2]))
    assert len(models) == 2
    assert [int(rows.sum()) for rows in inner.rows] == [10] * 4 + [4] * 4  # 2 of 10 of a class
    assert all(not (rows & ~HALF).any() for rows in inner.rows[:4])
    assert len({rows.tobytes() for rows in inner.rows}) == 8
    np.testing.assert_allclose(models[0].predict(X[:2]), [[1 / 6, 5 / 6]] * 2)
    assert averaged.work == 1.0


def test_an_average_is_the_mean_of_its_models_and_follows_from_the_seed() -> None:
    averaged = Averaging(EstimatorTrainer(DecisionTreeClassifier(), jobs=1), models=3, share=0.5)
    first, again = (next(averaged.many(POOL, HALF[None], [7])) for _ in range(2))
    answers = first.predict(X)
    np.testing.assert_array_equal(answers, again.predict(X))
    np.testing.assert_allclose(answers.sum(axis=1), 1)
    assert set(np.round(3 * answers[:, 0]).tolist()) <= {0, 1, 2, 3}
    assert Need.PROBABILITIES in first.offers


def test_an_average_hides_more_than_a_single_tree() -> None:
    """Labels are drawn at random: all that is right beyond a half is learned by heart."""
    y = np.random.default_rng(1).integers(0, 2, 60)
    pool = Records(X, y)
    plain = EstimatorTrainer(DecisionTreeClassifier(), jobs=1)
    (alone,) = plain.many(pool, HALF[None], [3])
    (averaged,) = Averaging(plain, models=20, share=0.1).many(pool, HALF[None], [3])
    right = [one.predict(X)[np.arange(60), y][HALF].mean() for one in (alone, averaged)]
    assert right[0] == 1.0
    assert right[1] < 0.9


@pytest.mark.parametrize("settings", [{"models": 1}, {"share": 0.0}, {"share": 1.0}])
def test_averages_of_nothing_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(SpecError, match="models from 2"):
        Averaging(Counting(), **settings)  # type: ignore[arg-type]
