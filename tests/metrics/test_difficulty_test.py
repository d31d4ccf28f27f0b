"""The verdict's test given difficulty: its size, what it takes off, and what it leaves."""

import numpy as np
import pytest
from scipy import stats

from divulge.metrics.difficulty_test import (
    join_measures,
    max_test_given_difficulty,
    measure_agreement,
)
from divulge.metrics.max_test import LEVEL, max_test

MEMBER = np.arange(400) < 200
ONE = np.zeros(400, np.int64)


def draw(seed: int, *, easier: float = 0.0, leak: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two attacks' scores, and two measures of the ease on which they depend."""
    rng = np.random.default_rng(seed)
    easy = rng.normal(size=400) + easier * MEMBER
    ease = easy + 0.5 * rng.normal(size=(2, 400))
    return easy + 0.5 * rng.normal(size=(2, 400)) + leak * MEMBER, ease


def rate(trials: int, **world: float) -> tuple[int, int]:
    """In how many trials the test finds a leak given difficulty, and without it."""
    tests = [max_test_given_difficulty(*pair(k, **world)) for k in range(trials)]
    return tuple(
        sum(getattr(test, name).p_value <= LEVEL for test in tests) for name in ("given", "alone")
    )


def pair(seed: int, **world: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    scores, ease = draw(seed, **world)
    return scores, MEMBER, ONE, ease


def test_where_nothing_differs_it_errs_as_rarely_as_promised() -> None:
    given, _ = rate(60)
    assert given <= stats.binom.ppf(1 - 1e-4, 60, LEVEL)


def test_easier_members_are_no_leak() -> None:
    given, alone = rate(40, easier=0.3)
    assert given <= stats.binom.ppf(1 - 1e-4, 40, LEVEL)
    assert alone >= stats.binom.ppf(1e-4, 40, 0.6)  # power of a shift of .27 deviations: 76 %


def test_a_leak_is_found_beside_easier_members_and_without() -> None:
    """The shift of .31 deviations has a power of .85 alone; two shared views make it higher."""
    assert min(rate(30, leak=0.35)) >= stats.binom.ppf(1e-4, 30, 0.8)
    given, _ = rate(30, leak=0.6, easier=0.3)
    assert given >= stats.binom.ppf(1e-4, 30, 0.9)


def test_alone_is_the_test_of_the_attacks() -> None:
    scores, _, _, ease = pair(3, leak=0.2)
    alone, plain = (
        max_test_given_difficulty(scores, MEMBER, ONE, ease).alone,
        max_test(scores, MEMBER),
    )
    np.testing.assert_array_equal(alone.p, plain.p)
    np.testing.assert_allclose(alone.deviation, plain.deviation)


@pytest.mark.parametrize("change", [np.exp, lambda ease: 7 * ease - 3])
def test_only_the_order_of_the_ease_counts(change: object) -> None:
    scores, member, strata, ease = pair(5, easier=0.2)
    found = max_test_given_difficulty(scores, member, strata, ease).given
    again = max_test_given_difficulty(scores, member, strata, change(ease)).given  # type: ignore[operator]
    np.testing.assert_array_equal(found.p, again.p)


def test_how_hard_a_record_is_serves_as_well() -> None:
    scores, member, strata, ease = pair(6, easier=0.3)
    found, again = (
        max_test_given_difficulty(scores, member, strata, e).given for e in (ease, -ease)
    )
    np.testing.assert_array_equal(found.p, again.p)


def test_a_constant_ease_takes_nothing_off() -> None:
    scores, member, strata, _ = pair(7, leak=0.5)
    found = max_test_given_difficulty(scores, member, strata, np.zeros((1, 400)))
    np.testing.assert_allclose(found.given.deviation, found.alone.deviation)


def test_many_records_take_the_normal_limit() -> None:
    rng = np.random.default_rng(8)
    member = np.arange(20_000) < 10_000
    easy = rng.normal(size=20_000) + 0.1 * member
    ease = easy + 0.5 * rng.normal(size=(2, 20_000))
    score = easy + 0.5 * rng.normal(size=(1, 20_000))
    found = max_test_given_difficulty(score, member, np.zeros(20_000, np.int64), ease)
    assert found.alone.p_value < 0.01
    assert found.given.p_value > LEVEL


def test_agreement_is_the_correlation_of_ranks_within_strata() -> None:
    ease = np.random.default_rng(9).normal(size=(2, 400))
    ease[1] += ease[0]
    expected = stats.spearmanr(*ease).statistic
    assert measure_agreement(ease, ONE) == pytest.approx(expected)
    apart = ease + 10 * MEMBER
    assert measure_agreement(apart, MEMBER.astype(np.int64)) < measure_agreement(apart, ONE)
    assert measure_agreement(ease[:1], ONE) == 0


def test_measures_are_joined_by_their_ranks() -> None:
    joined = join_measures(np.array([[0.0, 5.0, 9.0], [1.0, 3.0, 2.0]]))
    np.testing.assert_array_equal(joined, [1.0, 2.5, 2.5])
