"""Permutation p-values against all permutations, and what they promise where nothing is found."""

import itertools

import numpy as np
import pytest
from scipy import stats

from divulge.metrics import membership
from divulge.metrics.permutation import (
    combine_p_values,
    matches_p,
    membership_p,
    permutation_p_value,
    rank_sum_p,
    signs_p,
)


def test_comes_close_to_all_permutations() -> None:
    score = np.array([0.9, 0.8, 0.3, 0.2, 0.1])
    member = np.array([True, False, True, False, False])

    def statistic(labels: np.ndarray) -> float:
        return float(score[labels].sum())

    every = [score[list(chosen)].sum() for chosen in itertools.combinations(range(5), 2)]
    exact = np.mean([total >= statistic(member) for total in every])
    p = permutation_p_value(
        statistic, member, np.zeros(5, np.int64), np.random.default_rng(0), times=4000
    )
    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000))


def test_labels_stay_in_their_group() -> None:
    member, group = np.array([True, True, False, False]), np.array([0, 0, 1, 1])
    seen: list[list[bool]] = []

    def statistic(labels: np.ndarray) -> float:
        seen.append(labels.tolist())
        return 0.0

    assert permutation_p_value(statistic, member, group, np.random.default_rng(0), times=20) == 1.0
    assert seen == [member.tolist()] * 21


def test_a_score_that_only_knows_the_set_is_no_find() -> None:
    """Members are in the first of two sets alone: that set's mark has a high AUC, and no p."""
    rng = np.random.default_rng(1)
    group = np.repeat([0, 1], [20, 60])
    member = np.concatenate([rng.permutation(20) < 10, np.zeros(60, bool)])
    score = (group == 0).astype(float)

    def auc(labels: np.ndarray) -> float:
        return membership.auc(score, labels).value

    assert auc(member) > 0.9
    assert permutation_p_value(auc, member, group, rng, times=99) == 1.0
    everywhere = np.zeros(80, np.int64)
    assert permutation_p_value(auc, member, everywhere, rng, times=99) == 0.01


def test_is_small_as_rarely_as_it_says_where_a_pipeline_fits_noise() -> None:
    """The statistic is fitted to the labels: in-sample it looks good, and p is not fooled."""
    rng, found = np.random.default_rng(2), []
    for _ in range(200):
        x, member = rng.normal(size=(16, 5)), rng.permutation(16) < 8

        def fitted(labels: np.ndarray, x: np.ndarray = x) -> float:
            weights, *_ = np.linalg.lstsq(x, labels - 0.5, rcond=None)
            return float(((x @ weights > 0) == labels).mean())

        found.append(permutation_p_value(fitted, member, np.zeros(16, np.int64), rng, times=19))
    # at most the promised error: 5 % of 200 is 10, and 21 or more have a chance of 0.1 %
    assert sum(p <= 0.05 for p in found) <= 20


def test_p_values_are_combined_as_fisher_did_and_keep_their_size() -> None:
    drawn = np.random.default_rng(0).random((2000, 5))
    for row in drawn[:20]:
        assert combine_p_values(row.tolist()) == pytest.approx(stats.combine_pvalues(row).pvalue)
    coarse = np.ceil(drawn * 20) / 20  # permutation p-values have few levels
    for levels in (drawn, coarse):
        called = np.mean([combine_p_values(row) <= 0.05 for row in levels.tolist()])
        assert called <= 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5
    assert combine_p_values([1.0] * 5) == 1.0


def test_signs_come_close_to_all_signs() -> None:
    values = np.array([0.5, 1.5, -0.25, 2.0, 1.0])
    every = [values @ signs for signs in itertools.product([-1, 1], repeat=5)]
    exact = float(np.mean([total >= values.sum() - 1e-9 for total in every]))
    p = np.mean([signs_p(values, np.random.default_rng(seed)) for seed in range(200)])
    assert p == pytest.approx(exact, abs=0.02)
    assert signs_p(-values, np.random.default_rng(0)) > 0.8  # low sums are no find


def test_as_few_as_sixteen_units_can_be_as_rare_as_a_false_alarm() -> None:
    p_values = [signs_p(np.ones(16), np.random.default_rng(seed)) for seed in range(20)]
    assert np.mean(np.array(p_values) <= 1e-4) >= 0.8
    assert all(signs_p(np.ones(8), np.random.default_rng(seed)) > 1e-4 for seed in range(20))


def test_right_guesses_come_close_to_all_permutations() -> None:
    truth, guess = np.array([0, 1, 2, 3]), np.array([0, 2, 1, 1])
    right = [(np.array(moved) == guess).sum() for moved in itertools.permutations(truth)]
    wanted = np.mean(np.array(right) >= 1)  # as many as there are
    group, runs = np.zeros(4, np.int64), 200
    found = np.mean([matches_p(guess, truth, group, np.random.default_rng(k)) for k in range(runs)])
    # each counts until 20 are as many: a share that is on average too high by p (1 - p) / 20
    error = wanted * np.sqrt((1 - wanted) / 20 / runs)
    assert found == pytest.approx(wanted + wanted * (1 - wanted) / 20, abs=4 * error)


def test_one_sided_rank_sums_are_held_against_high_ones() -> None:
    """One member among five: whether it stands alone on top is a chance of one in five."""
    score, member = np.array([0.0, 0, 0, 0, 10]), np.arange(5) == 4
    groups = np.zeros(5, np.int64)
    high, low = (
        np.mean([
            rank_sum_p(one, member, groups, np.random.default_rng(seed), two_sided=False)
            for seed in range(50)
        ])
        for one in (score, -score)
    )  # fmt: skip
    # 20 permutations as high are waited for, so each p errs by a fifth of itself, rounded up
    assert high == pytest.approx(0.2, abs=4 * 0.2 / 5 / 50**0.5)
    assert low == 1.0


def test_membership_shows_in_an_auc_below_one_half_too() -> None:
    """All ten members below all ten others: one of 184,756 orders, as rare as the exchanged one."""
    member, group = np.arange(20) < 10, np.zeros(20, np.int64)
    for score in (np.arange(20.0), -np.arange(20.0)):
        assert membership_p(score, member, group, np.random.default_rng(0)) < 0.001
