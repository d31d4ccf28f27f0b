"""Norms at all magnitudes: where squares are numbers those of NumPy, elsewhere right as well."""

import math

import numpy as np
import pytest

from divulge._util.norms import clip_to_norm, euclidean_norm


def test_where_nothing_overflows_it_is_the_norm_of_numpy_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    for size in (1e-100, 1e-3, 1.0, 7e5, 1e100):
        values = rng.normal(0, size, (30, 17))
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(
                euclidean_norm(values, axis), np.linalg.norm(values, axis=axis)
            )


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-160, 1e160, 5e307])
def test_where_squares_are_no_numbers_it_is_right_all_the_same(size: float) -> None:
    values = np.full((2, 4), size)
    assert float(euclidean_norm(values[0])) == pytest.approx(2 * size)
    np.testing.assert_allclose(euclidean_norm(values, axis=1), [2 * size] * 2)


def test_zeros_nothing_and_what_is_not_finite() -> None:
    assert euclidean_norm(np.zeros(3)) == 0
    assert euclidean_norm(np.zeros(0)) == 0
    assert euclidean_norm(np.array([1.0, -math.inf])) == math.inf
    assert np.isnan(euclidean_norm(np.array([1.0, math.nan])))
    for value in (math.nan, math.inf, -math.inf):
        assert clip_to_norm(np.array([3.0, value]), 1.0).tolist() == [0.0, 0.0]
    assert clip_to_norm(np.zeros(0), 1.0).size == 0


@pytest.mark.parametrize("clip", [1e-300, 1e-30, 1.0, 1e300])
@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-30, 1.0, 1e20, 1e200, 1.7e308])
def test_a_clipped_vector_has_the_norm_that_it_should(size: float, clip: float) -> None:
    for order, whole in ((2, 2.0), (1, 4.0)):  # of four entries alike
        found = clip_to_norm(np.array([size, -size, size, size]), clip, order)
        assert np.abs(found).max() == pytest.approx(min(size, clip / whole), rel=1e-14)
        assert np.sign(found).tolist() == [1, -1, 1, 1]
