"""One p-value of many statistics."""

import numpy as np
import pytest
from scipy.stats import binom

from divulge.metrics.max_test import max_p_value

RNG = np.random.default_rng


def test_it_is_the_share_of_draws_that_are_as_high() -> None:
    column = np.array([5.0, 1.0, 9.0, 5.0, 2.0])  # the observed 5, one above it and one equal
    assert max_p_value(column[:, None]) == 3 / 5
    assert max_p_value(np.column_stack([column, column * 7 - 3])) == 3 / 5  # units mean nothing


def test_a_statistic_that_never_varies_is_left_out() -> None:
    column = np.arange(20.0)[::-1]
    constant = np.full(20, 0.1 + 0.2)
    assert max_p_value(np.column_stack([constant, column])) == 1 / 20
    assert max_p_value(constant[:, None]) == 1.0
    assert max_p_value(np.zeros((20, 0))) == 1.0


def test_rounding_is_no_find() -> None:
    column = np.array([0.1 + 0.2, 0.3, 0.3, 0.0])
    assert max_p_value(column[:, None]) == 3 / 4


@pytest.mark.parametrize("correlation", [0.0, 0.8, 1.0])
def test_it_keeps_its_error_however_statistics_are_correlated(correlation: float) -> None:
    rng, audits = RNG(1), 1000
    found = 0
    for _ in range(audits):
        common, own = rng.normal(size=(100, 1)), rng.normal(size=(100, 30))
        drawn = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
        found += max_p_value(drawn) <= 0.05
    # draws are exchangeable, so the rate is .05 exactly: both ends of 99.9 % of such counts
    assert binom.ppf(5e-4, audits, 0.05) <= found <= binom.isf(5e-4, audits, 0.05)
