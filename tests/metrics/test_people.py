"""A person's score, and figures by record whose intervals take people for what was drawn."""

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
from scipy import special, stats

from divulge.metrics import people
from divulge.metrics.membership import auc
from tests.slow import slow


def draw(
    rng: np.random.Generator, count: int, most: int, alike: float
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of people with 1 to so many records, of this correlation, and whose each is."""
    person = np.repeat(np.arange(count), rng.integers(1, most + 1, count))
    own = rng.normal(size=count)[person] * np.sqrt(alike)
    return own + np.sqrt(1 - alike) * rng.normal(size=len(person)), person


@pytest.mark.parametrize("rule", get_args(people.Rule))
def test_a_rule_says_the_same_as_numpy_one_person_at_a_time(rule: people.Rule) -> None:
    score, person = draw(np.random.default_rng(0), 40, 7, 0.3)
    order = np.random.default_rng(1).permutation(len(person))
    shuffled = people.combine(score[order], person[order], rule)
    rules: dict[str, Callable[[np.ndarray], Any]] = {
        "mean": np.mean,
        "max": np.max,
        "sum": np.sum,
        "median": np.median,
        "quantile": partial(np.quantile, q=people.QUANTILE),
    }
    expected = [rules[rule](score[person == each]) for each in range(40)]
    np.testing.assert_allclose(shuffled, expected, rtol=1e-12)


def test_one_record_a_person_gives_the_ordinary_auc() -> None:
    rng = np.random.default_rng(0)
    score, member = rng.normal(size=300) + 0.5 * (np.arange(300) < 150), np.arange(300) < 150
    ours, usual = people.record_auc(score, np.arange(300), member), auc(score, member)
    assert ours.value == pytest.approx(usual.value, abs=1e-12)
    # Student's quantile with about 298 degrees of freedom is .4 % above the normal one
    assert ours.low == pytest.approx(usual.low, abs=1e-3)
    assert ours.high == pytest.approx(usual.high or 1, abs=1e-3)


def test_repeating_every_record_changes_neither_the_auc_by_record_nor_its_interval() -> None:
    score, person = draw(np.random.default_rng(3), 60, 4, 0.5)
    member = (person % 2).astype(bool)
    once = people.record_auc(score, person, member)
    thrice = people.record_auc(np.tile(score, 3), np.tile(person, 3), np.tile(member, 3))
    assert thrice.value == pytest.approx(once.value, abs=1e-12)
    # records beyond the ends weigh a third as much, the rest is equal
    assert thrice.low == pytest.approx(once.low, abs=0.02)


def test_the_variance_by_record_is_that_of_obuchowski_by_hand() -> None:
    # members: one person with scores 3 and 1, one with 2; others: one with 0 and 2.5, one with 0.5
    score = np.array([3.0, 1.0, 2.0, 0.0, 2.5, 0.5])
    person, member = np.array([0, 0, 1, 2, 2, 3]), np.array([1, 1, 1, 0, 0, 0], bool)
    value, low, high = people._clustered_auc(score, person, member, 0.95)
    assert value == pytest.approx(7 / 9)  # 3 beats all three, 1 and 2 beat 0 and 0.5
    # by person the components sum to 5/3 and 2/3 where 14/9 and 7/9 are expected; 4/3 and 1 there
    inside, outside = 2 * (2 * (1 / 9) ** 2) / 9, 2 * (2 * (2 / 9) ** 2) / 9
    freedom = (inside + outside) ** 2 / (inside**2 + outside**2)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(inside + outside) / (7 / 9 * 2 / 9)
    assert (special.logit(high) - special.logit(low)) / 2 == pytest.approx(half)


@pytest.mark.parametrize("count", [40, slow(20), slow(200)])
@pytest.mark.parametrize("most", [1, 10])
def test_intervals_by_record_cover_as_often_as_they_say(count: int, most: int) -> None:
    """And are not much wider than that takes.

    The records beyond the ends widen intervals where people are few, up to a coverage of 1, so that
    no binomial bound holds from above. On the same draws they stay narrower than intervals of 99 %
    without those records.
    """
    covered, width, wider, draws = 0, 0.0, 0.0, 600
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        score, person = draw(rng, count, most, 0.6)
        member = person < count // 2
        found = people.record_auc(score, person, member)
        assert found.high is not None
        covered += found.low <= 0.5 <= found.high
        width += found.high - found.low
        _, low, high = people._clustered_auc(score, person, member, 0.99)
        wider += high - low
    assert covered >= stats.binom.ppf(0.005, draws, 0.95)
    assert width < wider


def test_the_mean_by_record_has_the_interval_of_people() -> None:
    score, person = draw(np.random.default_rng(5), 50, 6, 0.9)
    alone = people.mean_by_record(score, None)
    grouped = people.mean_by_record(score, person)
    assert grouped.value == alone.value == pytest.approx(score.mean())
    wider = (grouped.high or 0) - grouped.low
    assert wider > 1.5 * ((alone.high or 0) - alone.low)


def test_records_that_are_alike_are_told() -> None:
    rng = np.random.default_rng(2)
    for alike in (0.0, 0.5, 0.9):
        score, person = draw(rng, 2000, 5, alike)
        assert people.intraclass_correlation(score, person) == pytest.approx(alike, abs=0.05)
    assert people.intraclass_correlation(rng.normal(size=9), np.arange(9)) == 0.0
