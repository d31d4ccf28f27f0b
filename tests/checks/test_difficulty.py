"""The difficulty baseline: what it notices, how often it is wrong, and on which records it runs."""

import numpy as np
import pytest
from scipy import stats

from divulge._util.random import stream
from divulge.checks.difficulty import check_difficulty, measure_ease, recall_ease
from divulge.core import Check, Records, Verdict
from tests.golden import golden

RULE = np.random.default_rng(5).normal(size=(6, 3))


def draw(count: int, seed: int, *, noisy: float = 0.0, numbers: bool = False) -> Records:
    """Members and as many non-members, of which a share has a label drawn anew."""
    rng = np.random.default_rng([seed, count])
    x = rng.normal(size=(2 * count, 6))
    y = (x @ RULE + rng.gumbel(size=(2 * count, 3))).argmax(1)
    lost = (np.arange(2 * count) >= count) & (rng.random(2 * count) < noisy)
    y = np.where(lost, rng.integers(0, 3, 2 * count), y)
    if not numbers:
        return Records(x, y)
    return Records(x, x @ RULE[:, 0] + rng.normal(size=2 * count) * (1 + 3 * lost))


def check(records: Records, seed: int = 0) -> Check:
    rng, member = np.random.default_rng(seed), np.arange(len(records)) < len(records) // 2
    return check_difficulty(measure_ease(records, member, rng), member, records.stratum, rng)


@pytest.mark.parametrize(("numbers", "auc"), [(False, 0.5808), (True, 0.6663)])
def test_noisier_non_members_are_harder(numbers: bool, auc: float) -> None:
    found = check(draw(300, 1, noisy=0.5, numbers=numbers))
    assert found.verdict is Verdict.WARNING
    assert "non-members are the harder ones" in found.text
    assert found.estimates["auc"].value == golden(auc)


@pytest.mark.slow
def test_one_population_is_as_hard_in_both_sets() -> None:
    """It warns with a probability of .005: more than twice in 20 in 1 of 10,000 runs."""
    warned = [check(draw(60, k), k).verdict is Verdict.WARNING for k in range(20)]
    assert sum(warned) <= stats.binom.ppf(1 - 1e-4, 20, 0.005)


def test_a_record_is_scored_by_models_that_did_not_learn_from_it() -> None:
    """Labels without a rule are guessed as badly for members as for others."""
    rng = np.random.default_rng(3)
    records = Records(rng.normal(size=(600, 4)), rng.integers(0, 2, 600))
    member = np.arange(600) < 300
    ease = measure_ease(records, member, rng)
    assert ease is not None
    assert ease.shape == (2, 600)
    for row in ease:
        low, high = (stats.binom.ppf(share, 300, 0.5) for share in (5e-5, 1 - 5e-5))
        assert low <= np.sum(row[member] > 0.5) <= high


def test_a_class_that_no_other_member_has_is_as_hard_as_can_be() -> None:
    records = draw(100, 4)
    y = records.y.copy()
    y[0] = 7
    ease = measure_ease(Records(records.x, y), np.arange(200) < 100, np.random.default_rng(0))
    assert ease is not None
    assert (ease[:, 0] == 0).all()


def test_members_of_one_class_alone_are_scored() -> None:
    records = Records(np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) // 60)
    ease = measure_ease(records, np.arange(80) < 40, np.random.default_rng(0))
    assert ease is not None
    assert np.isfinite(ease).all()


def test_few_records_are_not_measured() -> None:
    assert measure_ease(draw(9, 0), np.arange(18) < 9, np.random.default_rng(0)) is None


def test_the_ease_of_the_same_records_alone_is_recalled() -> None:
    records, member = draw(20, 6), np.arange(40) < 20
    first = recall_ease(records, member, 0)
    assert first is not None
    assert recall_ease(Records(records.x.copy(), records.y.copy()), member.copy(), 0) is first
    assert not first.flags.writeable
    x, y = records.x.copy(), records.y.copy()
    x[7], y[7] = 9.0, (y[7] + 1) % 3
    others = [
        (records, member, 1),
        (records, ~member, 0),
        (Records(x, records.y), member, 0),
        (Records(records.x, y), member, 0),
    ]
    for one, inside, seed in others:
        expected = measure_ease(one, inside, stream(seed, "difficulty baseline"))
        assert expected is not None
        assert not np.array_equal(expected, first)
        recall_ease(records, member, 0)  # only the last ones are kept
        np.testing.assert_array_equal(recall_ease(one, inside, seed), expected)


@pytest.mark.parametrize("each", [2, 4])
def test_near_copies_do_not_make_members_easy(each: int) -> None:
    """A model that learned from a near copy knows the record, label and all."""
    aucs = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        records = draw(240 // each, seed)
        x = np.repeat(records.x, each, axis=0)
        x += 0.1 * rng.normal(size=x.shape)
        copies = Records(x, np.repeat(records.y, each))
        aucs.append(check(copies, seed).estimates["auc"].value)
    # records in groups of one score each are as few as the groups: DeLong's deviation without a
    # difference is sqrt((m + n + 1) / (12 m n)), and the mean of 6 is within 4 of its own
    groups = 240 // each
    deviation = np.sqrt((2 * groups + 1) / (12 * groups**2))
    assert abs(np.mean(aucs) - 0.5) < 4 * deviation / np.sqrt(6)
