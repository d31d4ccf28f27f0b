"""Whoever deals keeps the sets apart, and each record is asked about once."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from divulge.core import NOBODY, Need, Records, Target
from divulge.errors import DataError
from divulge.federation import local_models

POOL = Records(np.arange(400)[:, None], np.arange(400) % 3)
SIZES = (60, 40, 30)


class _Remembers:
    """Trains models that know their members by heart, and counts what they are asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.subsets = np.zeros((0, 0), bool)

    def many(self, pool: Records, subsets: np.ndarray, seeds: Sequence[int]) -> Iterator[Target]:
        del pool, seeds
        self.subsets = subsets
        return (_Model(self, subset) for subset in subsets)


class _Model:
    offers = Need.PROBABILITIES | Need.HARD_LABELS

    def __init__(self, trainer: _Remembers, member: np.ndarray) -> None:
        self.trainer, self.member = trainer, member

    def predict(self, x: np.ndarray) -> np.ndarray:
        self.trainer.asked += len(x)
        right = np.where(self.member[x[:, 0]], 0.98, 0.5)[:, None]
        return np.hstack([right, (1 - right) / 2, (1 - right) / 2])


def played(seed: int = 0) -> tuple[local_models.AssignmentGame, _Remembers]:
    trainer = _Remembers()
    return local_models.simulate_local_models(
        POOL, trainer, SIZES, np.random.default_rng(seed)
    ), trainer


def test_the_truth_is_what_models_were_trained_on() -> None:
    game, trainer = played()
    view = game.challenge.view
    assert trainer.subsets.sum(axis=1).tolist() == list(SIZES)
    assert trainer.subsets.sum(axis=0).max() == 1
    for k, subset in enumerate(trainer.subsets):
        np.testing.assert_array_equal(subset[view.records.x], game.challenge.truth.client == k)
        np.testing.assert_array_equal(subset[view.relevant[k].x], game.relevant[k])
        assert not subset[view.external[k].x].any()
        np.testing.assert_array_equal(view.targets[k].predict(view.records.x)[:, 0] > 0.9,
                                      game.challenge.truth.client == k)  # fmt: skip


def test_sizes_are_those_of_the_challenge() -> None:
    game, _ = played()
    view = game.challenge.view
    assert [len(r) for r in view.relevant] == [48, 32, 24]
    assert [int(m.sum()) for m in game.relevant] == [24, 16, 12]
    assert [len(e) for e in view.external] == [42, 28, 21]
    counts = np.bincount(game.challenge.truth.client - NOBODY)
    assert counts.tolist() == [20, 6, 4, 3]  # half a non-member is dropped


def test_sets_of_a_client_do_not_overlap() -> None:
    view = played()[0].challenge.view
    for relevant, external in zip(view.relevant, view.external, strict=True):
        rows = np.concatenate([view.records.x, relevant.x, external.x])
        assert len(np.unique(rows)) == len(rows)


def test_every_record_is_asked_about_once() -> None:
    _, trainer = played()
    assert trainer.asked == len(POOL) * len(SIZES)


@pytest.mark.parametrize("records", [100, 209])
def test_says_when_the_pool_is_too_small(records: int) -> None:
    with pytest.raises(DataError, match=f"a pool of 210, got 30 and {records}"):
        local_models.simulate_local_models(
            POOL.take(np.arange(records)), _Remembers(), SIZES, np.random.default_rng(0)
        )


def test_the_pool_that_is_expected_is_enough() -> None:
    pool = POOL.take(np.arange(210))
    game = local_models.simulate_local_models(pool, _Remembers(), SIZES, np.random.default_rng(0))
    assert [len(e) for e in game.challenge.view.external] == [42, 28, 21]
