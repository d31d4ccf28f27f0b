"""What of an update counts as rounding, and inputs of nothing."""

import numpy as np
import pytest

from divulge.metrics.projection import projection_residual, row_space

EPSILON = 2.0**-23
"""The distance of single-precision numbers next to 1."""


@pytest.mark.parametrize("shape", [(2, 8), (8, 4)])
def test_a_direction_below_single_precision_is_rounding(shape: tuple[int, int]) -> None:
    """Its size is held against the largest one's, times epsilon, times the longer side."""
    for size, rank in ((1.01, 2), (0.99, 1)):
        change = np.zeros(shape)
        change[0, 0], change[1, 1] = 100.0, size * 100 * EPSILON * 8
        assert len(row_space(change)) == rank


def test_a_record_of_zeros_lies_in_every_span() -> None:
    basis = np.array([[1.0, 0.0]])
    assert projection_residual(np.array([[0.0, 0.0], [0.0, 1e-9]]), basis).tolist() == [0.0, 1.0]


def test_all_places_of_a_record_count() -> None:
    """Of squares 9 + 16 + 0 + 144 lie outside 16 + 144, and of the other record none."""
    places = np.array([[[3.0, 4.0], [0.0, 12.0]], [[1.0, 0.0], [2.0, 0.0]]])
    found = projection_residual(places, np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(found, [np.sqrt(160 / 169), 0.0])
