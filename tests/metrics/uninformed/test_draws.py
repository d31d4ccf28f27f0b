"""What all tests of attacks on federations share."""

import numpy as np
import pytest

from divulge.metrics.uninformed.draws import (
    RandomisationTest,
    log_arrangements,
    permute_within_groups,
)


def test_values_change_places_within_groups_alone() -> None:
    values, group = np.arange(7), np.array([0, 0, 0, 1, 1, 2, 1])
    drawn = permute_within_groups(values, group, np.random.default_rng(0), 200)
    assert drawn[0].tolist() == values.tolist()
    for each in range(3):
        own = group == each
        assert set(np.unique(drawn[:, own])) == set(values[own])
    assert (drawn[:, 5] == 5).all()
    assert {tuple(row) for row in drawn[:, :3]} == {
        (0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)
    }  # fmt: skip


def test_arrangements_are_counted() -> None:
    assert np.exp(log_arrangements([2, 1, 1])) == pytest.approx(12)
    assert log_arrangements([4]) == pytest.approx(0)


def test_of_several_ways_of_drawing_the_less_certain_one_counts() -> None:
    low, high = np.arange(20.0)[::-1, None], np.array([5.0, 9.0, 9.0, 1.0])[:, None]
    assert RandomisationTest(((0, "auc"),), (low,), 0.01).p == 1 / 20
    assert RandomisationTest(((0, "auc"),), (low, high), 0.01).p == 3 / 4


def test_the_strongest_attack_is_the_one_furthest_above_chance() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(100, 3)) * [1, 10, 1]
    table[0] = [3.0, 20.0, 5.0]  # deviations: 3, 2 and 5
    made = RandomisationTest(((0, "auc"), (1, "auc"), (2, "accuracy")), (table,), 0.001)
    assert made.strongest == (2, "accuracy")
    assert made.of([0, 1]).strongest == (0, "auc")
    assert made.of([]).strongest is None
    assert made.observed_value(1, "auc") == 20.0
    assert made.null_mean(1, "auc") == pytest.approx(table[:, 1].mean())


def test_what_never_varies_has_no_size_that_could_be_found() -> None:
    table = np.column_stack([np.full(50, 0.6), np.random.default_rng(0).normal(size=50)])
    made = RandomisationTest(((0, "accuracy"), (1, "accuracy")), (table,), 0.001)
    assert made.of([0]).detectable_value("accuracy") is None
    assert made.detectable_value("auc") is None
    needed = made.detectable_value("accuracy")
    assert needed is not None
    assert 1.645 < needed < 4  # at least the one-sided limit of one statistic
