"""Which candidate a perturbed record is about, and the same change of another one."""

import numpy as np
import pytest

from divulge.core import Records
from divulge.secrets.control_targets.neighbourhoods import NOBODY, Neighbourhoods
from divulge.secrets.control_targets.planted import PlantedTarget
from divulge.secrets.control_targets.shuffled import ShuffledTarget
from divulge.targets.cache import record_keys
from divulge.targets.function import FunctionTarget

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(40, 5)) * [1, 10, 100, 1, 0]
WIDE = RNG.normal(size=(40, 3, 8, 8))
BITS = (RNG.random((40, 90)) < 0.3).astype(np.float32)


def nearest(x: np.ndarray, anchors: np.ndarray, *others: np.ndarray) -> np.ndarray:
    return Neighbourhoods(anchors, others).nearest(x, record_keys(x))


def test_the_nearest_one_counts_each_feature_in_its_range() -> None:
    asked = RNG.normal(size=(200, 5)) * [1, 10, 100, 1, 5]
    width = np.ptp(NUMBERS, axis=0)
    width[4] = np.inf  # all the same: it tells nobody from anybody
    slow = [np.argmin(((row - NUMBERS) / width) ** 2 @ np.ones(5)) for row in asked]
    np.testing.assert_array_equal(nearest(asked, NUMBERS), slow)


@pytest.mark.parametrize("anchors", [WIDE, BITS], ids=["images", "bits"])
def test_small_changes_are_about_the_candidate(anchors: np.ndarray) -> None:
    changed = anchors.copy()
    changed[:, ..., 0] = 1 - changed[:, ..., 0]
    np.testing.assert_array_equal(nearest(changed, anchors), np.arange(40))


def test_records_that_are_no_candidates_are_about_nobody() -> None:
    other = NUMBERS[:3] + 0.001
    found = nearest(np.concatenate([other, other + 0.001]), NUMBERS, other)
    np.testing.assert_array_equal(found, [NOBODY] * 3 + [0, 1, 2])


def test_a_change_is_carried_over_to_another_record() -> None:
    around, two = Neighbourhoods(BITS, ()), np.array([0, 1])
    same = around.carry_over(BITS[two], two, two[::-1])
    np.testing.assert_array_equal(same, BITS[[1, 0]])
    flipped = BITS[:2].copy()
    flipped[:, 7] = 1 - flipped[:, 7]
    got = around.carry_over(flipped, two, two[::-1])
    np.testing.assert_array_equal(got != BITS[[1, 0]], np.arange(90) == [[7], [7]])
    assert got.dtype == np.float32
    numbers = Neighbourhoods(NUMBERS, ())
    got = numbers.carry_over(NUMBERS[:1] + 1e-3, two[:1], two[1:])
    inside = np.clip(NUMBERS[1:2] + 1e-3, NUMBERS.min(axis=0), NUMBERS.max(axis=0))
    np.testing.assert_allclose(got, inside, rtol=1e-12)


def test_whole_numbers_stay_whole_and_within_range() -> None:
    levels = RNG.integers(0, 4, size=(30, 6)).astype(np.uint8)
    got = Neighbourhoods(levels, ()).carry_over(levels + np.uint8(3), np.arange(30), np.arange(30))
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, 3)


def test_a_perturbed_candidate_is_answered_like_the_one_that_stands_for_it() -> None:
    records = Records(NUMBERS, np.zeros(40, np.int64))
    tell = FunctionTarget(lambda x: np.column_stack([(x[:, 0] + 5) / 10, 1 - (x[:, 0] + 5) / 10]))
    shuffled = ShuffledTarget(tell, (records,), np.random.default_rng(0), others=())
    changed = NUMBERS.copy()
    middle = np.abs(NUMBERS[:, 0]) < 1  # none leaves the range
    changed[:, 0] += 1e-3
    got = shuffled.predict(changed)[:, 0] - shuffled.predict(NUMBERS)[:, 0]
    # the difference is that of the model; which record it is told of is another one's
    assert np.isclose(got, 1e-4).sum() > 35 > middle.sum()
    assert (np.abs(shuffled.predict(changed) - tell.predict(changed))[:, 0] > 1e-3).sum() > 30
    other = NUMBERS[:2] + 0.5
    apart = ShuffledTarget(tell, (records,), np.random.default_rng(0), others=(other,))
    np.testing.assert_array_equal(apart.predict(other), tell.predict(other))


def test_what_was_memorised_is_told_around_the_record_too() -> None:
    y = np.arange(40) % 3
    flat = FunctionTarget(lambda x: np.full((len(x), 3), 1 / 3))
    memorised = np.arange(40) < 20
    planted = PlantedTarget(flat, NUMBERS, y, memorised, 0, others=(NUMBERS[:2] + 0.1,))
    around = planted.predict(NUMBERS + 1e-6)
    np.testing.assert_array_equal(around[:20].argmax(axis=1), y[:20])
    np.testing.assert_allclose(around, planted.predict(NUMBERS))
    told = planted.predict(NUMBERS + 1e-6)[20:].max(axis=1) > 0.5
    assert 0 < told.sum() < 12  # about three in ten, all of them wrong
    assert (around[20:].argmax(axis=1) != y[20:])[told].all()
    assert planted.predict(NUMBERS[:2] + 0.1).max() < 0.95
