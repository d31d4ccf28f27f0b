"""The interval of an exposure stays where exposures can be."""

import numpy as np
import pytest

from divulge.metrics.exposure import measure_exposure


def test_no_exposure_is_below_0_or_above_that_of_the_first_rank() -> None:
    score, inserted = np.array([3.0, 0.0, 2.0, 1.0]), np.array([True, True, False, False])
    found = measure_exposure(score, inserted)  # of ranks 1 and 3: log2(3) and 0 bits
    assert found.value == pytest.approx(np.log2(3) / 2)
    assert found.low == 0.0
    assert found.high == pytest.approx(np.log2(3))


def test_all_inserted_ones_leading_is_the_highest_exposure_there_is() -> None:
    inserted = np.arange(10) < 3
    found = measure_exposure(-np.arange(10.0), inserted)
    assert found.value == found.high == pytest.approx(3.0)  # log2(7 + 1)
    assert measure_exposure(np.arange(10.0), inserted).value == pytest.approx(0.0)
