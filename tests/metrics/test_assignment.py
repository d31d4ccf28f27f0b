"""Accuracy of assignments against counting by hand, and the tests of differences."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from divulge.core import NOBODY, Assignment, Collusion
from divulge.errors import DataError
from divulge.metrics import assignment
from divulge.metrics.membership import Unmeasurable


def given_to(*clients: int) -> Assignment:
    return Assignment(np.array(clients, np.int64))


TRUTH = given_to(0, 1, 2, NOBODY, NOBODY, NOBODY)


def test_counts_by_hand() -> None:
    guess = given_to(0, 2, NOBODY, NOBODY, NOBODY, 1)
    assert assignment.accuracy(guess, TRUTH).value == 3 / 6
    assert assignment.recall(guess, TRUTH).value == 1 / 3
    assert assignment.specificity(guess, TRUTH).value == 2 / 3


@given(st.lists(st.integers(NOBODY, 3), min_size=2, max_size=30), st.randoms())
def test_accuracy_is_the_mean_of_recall_and_specificity(
    truth: list[int], dice: random.Random
) -> None:
    guess = given_to(*(dice.choice([NOBODY, 0, 1, 2, 3]) for _ in truth))
    owner = given_to(*truth)
    total = 0.0
    for metric, mask in (
        (assignment.recall, owner.client != NOBODY),
        (assignment.specificity, owner.client == NOBODY),
    ):
        if mask.any():
            total += metric(guess, owner).value * mask.mean()
    assert assignment.accuracy(guess, owner).value == pytest.approx(total)


def test_the_best_constant_answer_knows_the_colluders_own_records() -> None:
    none = np.zeros(6, bool)
    assert assignment.best_constant(TRUTH, none).value == 3 / 6
    known = TRUTH.client == 2
    assert assignment.best_constant(TRUTH, known).value == 4 / 6


def test_chance_is_what_even_guesses_get() -> None:
    known = Collusion(3, np.zeros(0, bool), np.array([True, False, False, False]))
    assert assignment.chance_accuracy(known, clients=4) == pytest.approx(0.25 + 0.75 / 4)
    # a server may name any of four clients, or nobody
    assert assignment.chance_accuracy(Collusion.none(4), clients=4) == pytest.approx(1 / 5)


def test_two_proportions_equal_the_root_of_the_chi_squared_statistic() -> None:
    z, p = assignment.two_proportion_test((39, 22), (73, 73))
    chi = stats.chi2_contingency([[39, 34], [22, 51]], correction=False)
    assert z**2 == pytest.approx(chi.statistic)
    assert p == pytest.approx(chi.pvalue)


def test_two_equal_proportions_show_nothing() -> None:
    assert assignment.two_proportion_test((5, 5), (5, 5)) == (0.0, 1.0)


def test_pairs_by_hand() -> None:
    score = np.arange(18, dtype=np.float64).reshape(6, 3)
    known = Collusion(2, np.zeros(4, bool), TRUTH.client == 2)
    found = assignment.pairs(Assignment(TRUTH.client, score), TRUTH, known)
    np.testing.assert_array_equal(found.score, [0, 1, 3, 4, 9, 10, 12, 13, 15, 16])
    np.testing.assert_array_equal(np.flatnonzero(found.member), [0, 3])
    with pytest.raises(DataError, match="expected a score"):
        assignment.pairs(TRUTH, TRUTH, known)


def test_a_permutation_p_of_the_truth_is_small_and_of_a_constant_is_one() -> None:
    owner = given_to(*[0, 1, 2, NOBODY] * 5)
    known, rng = np.zeros(20, bool), np.random.default_rng(0)
    assert assignment.permutation_p_of_accuracy(owner, owner, known, rng) == 1 / 1000
    nobody = given_to(*[NOBODY] * 20)
    assert assignment.permutation_p_of_accuracy(nobody, owner, known, rng) == 1.0
    assert assignment.permutation_p_of_accuracy(owner, owner, ~known, rng) == 1.0


def test_a_permutation_p_is_uniform_where_the_guess_knows_nothing() -> None:
    rng, found = np.random.default_rng(1), []
    owner = given_to(*[0, 1, NOBODY, NOBODY] * 10)
    for _ in range(200):
        guess = given_to(*rng.permutation(owner.client).tolist())
        found.append(
            assignment.permutation_p_of_accuracy(guess, owner, np.zeros(40, bool), rng, times=99)
        )
    # at most the promised error: 5 % of 200 is 10, and 21 or more have a chance of 0.1 %
    assert sum(p <= 0.05 for p in found) <= 20


def test_says_when_there_is_nothing_to_measure() -> None:
    nothing = given_to()
    with pytest.raises(Unmeasurable, match="got none"):
        assignment.recall(given_to(NOBODY), given_to(NOBODY))
    with pytest.raises(Unmeasurable, match="got none"):
        assignment.specificity(given_to(0), given_to(0))
    with pytest.raises(Unmeasurable, match="got none"):
        assignment.chance_accuracy(Collusion.none(0), 2)
    with pytest.raises(Unmeasurable, match="got none"):
        assignment.accuracy(nothing, nothing)
    with pytest.raises(DataError, match="each of 6 records, got 1"):
        assignment.accuracy(given_to(0), TRUTH)
