"""The test of all attacks at once: exact, blind to nothing that it promises, quick."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from divulge.errors import DataError
from divulge.metrics import max_test as module
from divulge.metrics.max_test import (
    LEVEL,
    LEVEL_BELOW,
    SHARES,
    STATISTICS,
    join_small_strata,
    max_test,
    max_test_of_models,
    members_on_top,
)
from tests.uneven_tables import TABLES


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test is exact with any number of draws; many only make its p-value finer."""
    monkeypatch.setattr(module, "DRAWS", 199)


def correlated(
    rng: np.random.Generator, attacks: int, records: int, correlation: float = 0.8
) -> np.ndarray:
    common = math.sqrt(correlation) * rng.standard_normal(records)
    return common + math.sqrt(1 - correlation) * rng.standard_normal((attacks, records))


def halves(size: int) -> np.ndarray:
    return np.arange(2 * size) < size


def naive(score: np.ndarray, member: np.ndarray) -> list[float]:
    """The six statistics by their definition: pairs for the AUC, counted tops."""
    inside, outside = score[member], score[~member]
    wins = (inside[:, None] > outside).sum() + 0.5 * (inside[:, None] == outside).sum()
    ranked = member[np.argsort(-score)]
    return [wins, *(ranked[: max(1, round(s * len(score)))].sum() for s in SHARES)]


def test_deviations_are_those_of_all_permutations() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(9) < 4
    score = rng.permutation(9).astype(float)
    every = []
    for chosen in itertools.combinations(range(9), 4):
        labels = np.isin(np.arange(9), chosen)
        every.append(naive(score, labels))
    mean, spread = np.mean(every, 0), np.std(every, 0)
    expected = (np.array(naive(score, member)) - mean) / spread
    np.testing.assert_allclose(max_test(score[None], member).deviation[0], expected)


@pytest.mark.parametrize("name", TABLES)
def test_the_deviation_of_an_auc_is_that_of_mann_whitney_with_ties(
    name: str, few_draws: None
) -> None:
    table = TABLES[name]
    for score, deviation in zip(
        table.scores, max_test(table.scores, table.member).deviation, strict=True
    ):
        wins, records = naive(score, table.member)[0], len(score)
        pairs = table.members * table.nonmembers
        _, tied = np.unique(score, return_counts=True)
        less = (tied**3 - tied).sum() / (records * (records - 1))
        variance = pairs / 12 * (records + 1 - less)
        assert deviation[0] == pytest.approx((wins - pairs / 2) / math.sqrt(variance), abs=1e-9)


def test_the_p_value_is_that_of_all_permutations() -> None:
    rng = np.random.default_rng(1)
    member = np.arange(10) < 5
    scores = correlated(rng, 3, 10) + 0.7 * member
    labels = [np.isin(np.arange(10), chosen) for chosen in itertools.combinations(range(10), 5)]
    maxima = np.array([max_test(scores, each).deviation.max() for each in labels])
    exact = np.mean(maxima >= max_test(scores, member).deviation.max() - 1e-9)
    drawn = max_test(scores, member).p_value
    error = math.sqrt(exact * (1 - exact) / module.DRAWS)
    assert abs(drawn - exact) < 4 * error + 1 / module.DRAWS


def test_false_alarms_are_as_rare_as_promised(few_draws: None) -> None:
    rng = np.random.default_rng(2)
    runs = 400
    alarms = sum(
        max_test(correlated(rng, 6, 100), rng.permutation(halves(50))).p_value <= LEVEL
        for _ in range(runs)
    )
    assert alarms <= stats.binom.isf(1e-3, runs, LEVEL)


def test_false_alarms_stay_rare_where_scores_tie_and_groups_are_unequal(few_draws: None) -> None:
    rng = np.random.default_rng(3)
    runs = 400
    alarms = 0
    for _ in range(runs):
        scores = np.maximum(rng.normal(size=(3, 120)), 0.5).round(1)
        alarms += max_test(scores, rng.permutation(np.arange(120) < 30)).p_value <= LEVEL
    assert alarms <= stats.binom.isf(1e-3, runs, LEVEL)


@pytest.mark.parametrize(
    ("size", "exposed", "shift", "least"),
    [
        (200, 0.05, 0.0, 0.85),
        (200, 0.08, 0.0, 0.95),
        (200, 0.12, 0.0, 0.99),
        (200, 0.0, 0.3, 0.85),
        (1000, 0.02, 0.0, 0.99),
        (1000, 0.0, 0.1, 0.6),
    ],
)
def test_leaks_are_seen_with_the_power_that_was_asked_for(
    size: int, exposed: float, shift: float, least: float, few_draws: None
) -> None:
    rng = np.random.default_rng(4)
    member, runs = halves(size), 60
    found = 0
    for _ in range(runs):
        lifted = member & (rng.random(2 * size) < exposed)
        scores = correlated(rng, 12, 2 * size) + shift * member + 10 * lifted
        found += max_test(scores, member).p_value <= LEVEL
    assert found >= stats.binom.ppf(1e-3, runs, least)


def test_the_p_value_below_chance_is_that_of_reversed_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(8)
    member = halves(100)
    scores = correlated(rng, 4, 200) - np.array([0.1, 0.2, 0.3, 0.4])[:, None] * member
    test = max_test(scores, member)
    shifts = test.deviation[:, 0]
    assert list(np.argsort(test.p_below, kind="stable")) == list(np.argsort(shifts, kind="stable"))
    monkeypatch.setattr(module, "DRAWS", 19)  # deviations, which need no draws
    drawn = np.array([
        max_test(scores, rng.permutation(member)).deviation[:, 0].min() for _ in range(400)
    ])  # fmt: skip
    for shift, p in zip(shifts, test.p_below, strict=True):
        share = np.mean(drawn <= shift)
        assert abs(share - p) <= 4 * math.sqrt(max(p, 0.01) * (1 - p) / 400)


def test_chance_seldom_ranks_members_below_non_members(few_draws: None) -> None:
    rng = np.random.default_rng(9)
    runs = 400
    alarms = sum(
        bool((max_test(correlated(rng, 6, 100), halves(50)).p_below <= LEVEL_BELOW).any())
        for _ in range(runs)
    )
    assert stats.binom.ppf(1e-3, runs, LEVEL_BELOW) <= alarms
    assert alarms <= stats.binom.isf(1e-3, runs, LEVEL_BELOW)


def test_the_critical_deviation_is_where_p_crosses_the_level(few_draws: None) -> None:
    rng = np.random.default_rng(5)
    member = halves(60)
    for shift in np.linspace(0, 1, 15):
        test = max_test(correlated(rng, 4, 120) + shift * member, member)
        assert (test.p_value <= LEVEL) == (test.deviation.max() > test.critical)


def test_the_normal_limit_agrees_with_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    member = halves(5500)
    scores = correlated(rng, 5, 11000) + 0.03 * member
    limit = max_test(scores, member)
    monkeypatch.setattr(module, "LARGE", 20_000)
    exact = max_test(scores, member)
    # one is exactly at its mean: what is left there is the rounding of a sum over all records
    rounding = 11_000 * np.finfo(np.float64).eps
    np.testing.assert_allclose(limit.deviation, exact.deviation, atol=rounding)
    # each is a share of DRAWS draws, so they differ by four standard errors of a difference
    error = np.sqrt(2 * exact.p * (1 - exact.p) / module.DRAWS)
    assert (np.abs(limit.p - exact.p) < 4 * error + 2 / module.DRAWS).all()
    assert abs(limit.critical - exact.critical) < 0.15


def test_few_members_among_many_records_are_permuted_whatever_the_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(module, "_draw_from_limit", refuse)
    member = np.arange(12_000) < 100
    max_test(np.random.default_rng(7).normal(size=(1, 12_000)), member)


def test_evidence_of_models_adds_up() -> None:
    rng = np.random.default_rng(8)
    members = [rng.permutation(halves(200)) for _ in range(8)]
    scores = [correlated(rng, 3, 400) + 0.15 * member for member in members]
    each = [max_test(score, member).p_value for score, member in zip(scores, members, strict=True)]
    together = max_test_of_models(scores, members)
    assert together.p_value < np.median(each)
    single = max_test(scores[0], members[0])
    np.testing.assert_array_equal(max_test_of_models(scores[:1], members[:1]).p, single.p)
    np.testing.assert_allclose(
        together.deviation,
        sum(max_test(s, m).deviation for s, m in zip(scores, members, strict=True)) / math.sqrt(8),
    )


def test_constant_scores_say_nothing() -> None:
    test = max_test(np.zeros((2, 40)), halves(20))
    assert test.p_value == 1.0
    assert not test.deviation.any()


def test_tied_records_share_the_places_at_the_top() -> None:
    score, member = np.array([1.0, 1, 1, 1, 0]), np.array([True, False, False, False, True])
    assert members_on_top(score, member, 2) == 0.5
    assert members_on_top(score, member, 4) == 1.0


def test_the_order_of_attacks_and_records_does_not_matter() -> None:
    rng = np.random.default_rng(9)
    scores, member = correlated(rng, 3, 80) + 0.4 * halves(40), halves(40)
    order = rng.permutation(80)
    test, other = max_test(scores, member), max_test(scores[::-1, order], member[order])
    np.testing.assert_allclose(test.deviation, other.deviation[::-1], atol=1e-12)


def test_broken_scores_are_refused() -> None:
    with pytest.raises(DataError, match="NaN or infinite"):
        max_test(np.array([[0.0, np.nan]]), np.array([True, False]))


def test_every_statistic_has_a_name() -> None:
    assert max_test(np.arange(8.0)[None], halves(4)).deviation.shape == (1, len(STATISTICS))


# Within strata.


def test_one_stratum_is_as_good_as_none(few_draws: None) -> None:
    rng = np.random.default_rng(20)
    member = rng.permutation(halves(60))
    scores = correlated(rng, 3, 120) + 0.4 * member
    alone = max_test(scores, member, np.full(120, 7))
    np.testing.assert_array_equal(alone.p, max_test(scores, member).p)


def test_deviations_within_strata_are_those_of_all_permutations_within_them() -> None:
    rng = np.random.default_rng(21)
    member = np.array([1, 1, 0, 0, 0, 1, 1, 1, 0], dtype=bool)
    strata = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    score = rng.permutation(9).astype(float)
    parts = [np.flatnonzero(strata == each) for each in range(3)]
    some = [itertools.combinations(part, int(member[part].sum())) for part in parts]
    labels = [np.isin(np.arange(9), np.concatenate(one)) for one in itertools.product(*some)]
    every = [naive(score, one) for one in labels]
    mean, spread = np.mean(every, 0), np.std(every, 0)
    expected = (np.array(naive(score, member)) - mean) / np.where(spread > 1e-9, spread, np.inf)
    found = max_test(score[None], member, strata).deviation[0]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_another_mix_of_classes_alone_is_no_leak(few_draws: None) -> None:
    rng = np.random.default_rng(22)
    member, runs = halves(150), 300
    alarms = np.zeros(2)
    for _ in range(runs):
        labels = (rng.random(300) < np.where(member, 0.65, 0.35)).astype(int)
        score = (labels + rng.standard_normal(300))[None]
        strata = join_small_strata(labels, score)
        alarms += (
            max_test(score, member).p_value <= LEVEL,
            (max_test(score, member, strata).p_value <= LEVEL),
        )
    assert alarms[0] >= runs / 2
    assert alarms[1] <= stats.binom.isf(1e-3, runs, LEVEL)


def test_small_classes_cost_no_power_where_scores_do_not_depend_on_them(few_draws: None) -> None:
    rng = np.random.default_rng(23)
    member, runs, found = halves(100), 200, np.zeros(2)
    for _ in range(runs):
        labels = rng.integers(0, 60, 200)
        score = (rng.standard_normal(200) + 0.4 * member)[None]
        strata = join_small_strata(labels, score)
        found += (
            max_test(score, member).p_value <= LEVEL,
            (max_test(score, member, strata).p_value <= LEVEL),
        )
    assert found[1] >= found[0] - 0.05 * runs


def test_the_limit_within_strata_is_that_of_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(24)
    records = 12_000
    labels = rng.integers(0, 3, records)
    member = rng.random(records) < np.array([0.3, 0.5, 0.7])[labels]
    scores = rng.standard_normal((2, records)) + labels + 0.03 * member
    limit = max_test(scores, member, labels)
    monkeypatch.setattr(module, "LARGE", records)
    monkeypatch.setattr(module, "DRAWS", 499)
    exact = max_test(scores, member, labels)
    np.testing.assert_allclose(limit.deviation, exact.deviation, atol=1e-9)
    error = math.sqrt(0.25 / 499)
    np.testing.assert_allclose(limit.p, exact.p, atol=4 * error)


def test_joined_strata_are_alike_and_large_enough() -> None:
    rng = np.random.default_rng(25)
    labels = rng.integers(0, 30, 200)
    scores = (labels % 3 * 10 + rng.standard_normal(200))[None]
    joined = join_small_strata(labels, scores)
    assert np.bincount(joined).min() >= module.SMALLEST_STRATUM
    for each in np.unique(joined):  # classes with scores of one level, but at the borders
        levels = np.bincount(labels[joined == each] % 3, minlength=3)
        assert levels.max() >= 0.5 * levels.sum()
    large = rng.integers(0, 4, 400)
    assert len(np.unique(join_small_strata(large, scores[:, :1] + np.zeros((1, 400))))) == 4
