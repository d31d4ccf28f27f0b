"""How many guesses are counted in a test of Gaussian differential privacy."""

import numpy as np
import pytest
from scipy import stats

from divulge.metrics.epsilon import sizes
from divulge.metrics.epsilon.testing import EpsilonTest


@pytest.mark.parametrize(
    ("mu", "records", "error"), [(0.3, 100, 0.01), (0.3, 300, 0.01), (2.0, 50, 0.05)]
)
def test_the_choice_allows_for_runs_of_every_probability(
    mu: float, records: int, error: float
) -> None:
    candidates, hits = sizes._candidate_sizes(records), []
    for size in candidates:
        allowed = []
        for chance in (1.0, *(min(1.0, times * error) for times in sizes._TOGETHER)):
            right = float(sizes._hit_probability(mu, np.array([chance * size / records]))[0])
            # the fewest hits that are rarer than the error in runs of this probability
            rare = stats.binom.sf(np.arange(size + 1), size, right) <= error / chance
            allowed.append(int(np.argmax(rare)) + 1)
        hits.append(max(allowed))
    needed = []
    for size, hit in zip(candidates.tolist(), hits, strict=True):
        right = min(max(hit / size, 0.5), 1 - 0.5 / size)  # half a guess is kept from both ends
        told = [float(stats.norm.ppf(p * size / records)) for p in (right, 1 - right)]
        needed.append(np.inf if hit > size else told[0] - told[1])
    chosen = sizes.choose_for_gaussian_dp(mu, records, error)
    assert chosen.size == candidates[np.argmin(needed)]


@pytest.mark.parametrize(("size", "ends"), [(9, (5, 4)), (10, (5, 5)), (1, (1, 0))])
def test_both_ends_hold_all_guesses_the_top_one_more_where_they_are_odd(
    size: int, ends: tuple[int, int]
) -> None:
    test = EpsilonTest("any", 1e-5, 1000, 0.05, 0.0, size)
    assert test.guessings[0][:2] == ends


def test_hits_that_chance_exceeds_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for records in (16, 500, 90_000):
        guesses = np.unique(np.geomspace(8, records, 20).astype(np.int64))
        for error in (1e-4, 0.03, 0.3):
            odds = rng.uniform(0.5, 1.0, len(guesses))
            expected = stats.binom.isf(error, guesses, odds)
            assert (sizes._most_by_chance(error, guesses, odds) == expected).all()
            one = stats.binom.isf(error, guesses, 0.9)
            assert (sizes._most_by_chance(error, guesses, 0.9) == one).all()
