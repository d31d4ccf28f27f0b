"""What three of four audits would stay under, from limits that differ over targets."""

import pytest
from scipy import stats

from divulge.core import Estimate
from divulge.studies.harden import trials
from divulge.studies.harden.leaks import Leak, Look


def look(high: float, models: int, *, spread: float = 0.0, useful: bool = True) -> Look:
    leak = Leak(high - 0.1, high - 0.2, high, "loss", spread)
    return Look(3, "none", models, Estimate(0.5, 0.4, 0.6), {"auc": leak}, useful=useful)


@pytest.mark.parametrize("models", [1, 3])
def test_the_margin_is_a_quartile_of_what_one_more_audit_shows(models: int) -> None:
    """An audit and a mean of audits both vary: their variances add."""
    found = trials._with_margin(look(0.5, models), {"auc": 0.1}).leaks["auc"]
    deviation = 0.1 * (1 + 1 / models) ** 0.5
    assert found.likely == pytest.approx(0.5 * (1 + stats.norm.ppf(0.75) * deviation), rel=1e-5)
    assert trials._with_margin(look(0.99, models), {"auc": 0.1}).leaks["auc"].likely == 1.0
    assert trials._with_margin(look(0.5, models), {"auc": 0.0}).leaks["auc"].likely == 0.5
