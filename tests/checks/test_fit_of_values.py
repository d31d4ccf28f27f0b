"""True values in another unit, or of other records, are doubted; those of poor models are not."""

import numpy as np
import pytest

from divulge.checks.fit_of_labels import check_values

RNG = np.random.default_rng(0)
TRUTH = RNG.normal(50, 10, 300)
ANSWERS = TRUTH + RNG.normal(0, 3, 300)
OTHERS = {
    "thousands": TRUTH * 1000,
    "thousandths, centred": (TRUTH - 50) / 1000,
    "inches": TRUTH / 2.54,
    "another zero": TRUTH + 273.15,
    "another sign": -TRUTH,
    "logarithms": np.log(TRUTH),
    "standardised": (TRUTH - 50) / 10,
    "other records": np.roll(TRUTH, 1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_true_values_that_do_not_fit_are_doubted(name: str) -> None:
    assert check_values(ANSWERS, OTHERS[name]) is not None


def test_answers_in_another_unit_keep_their_order() -> None:
    found = check_values((ANSWERS - 50) / 1000, TRUTH - 50)
    assert found is not None
    assert found.text.endswith("they look like another unit.")


POOR = {
    "exact": TRUTH,
    "noisy": TRUTH + RNG.normal(0, 9, 300),
    "nothing learned": np.full(300, TRUTH.mean()),
    "hardly anything learned": TRUTH.mean() + RNG.normal(0, 2, 300),
    "shrunk to a tenth": TRUTH.mean() + (TRUTH - TRUTH.mean()) / 10,
    "one outlier": np.where(np.arange(300) == 4, 1e9, ANSWERS),
}


@pytest.mark.parametrize("name", POOR)
def test_poor_models_are_not_doubted(name: str) -> None:
    assert check_values(POOR[name], TRUTH) is None


@pytest.mark.parametrize("explained", [0.05, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("sd", [0.5, 1.0])
def test_right_models_of_the_mean_of_skewed_values_are_not_doubted(
    explained: float, sd: float
) -> None:
    """Log-normal values: the expected value is far above most of them."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        known, rest = rng.normal(0, sd * np.sqrt([[explained], [1 - explained]]), (2, 300))
        expected = np.exp(known + (1 - explained) * sd**2 / 2)
        assert check_values(expected, np.exp(known + rest)) is None


def test_nothing_is_said_of_few_or_equal_true_values() -> None:
    assert check_values(ANSWERS[:19], -TRUTH[:19]) is None
    assert check_values(ANSWERS[:20], -TRUTH[:20]) is not None
    assert check_values(ANSWERS, np.zeros(300)) is None
