"""LT-IQR beside a slow twin of its formula."""

import numpy as np
import pytest

from divulge.attacks.membership.loss_trace import LossTraceIQR
from divulge.core import ModelView
from divulge.testing import networks


def quantile(values: list[float], share: float) -> float:
    """The value at this share of the way through the sorted list, between neighbours in a line."""
    ordered, place = sorted(values), share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@pytest.mark.parametrize("moments", [1, 2, 5, 8])
def test_the_range_of_the_quartiles_less_the_loss_at_the_end(moments: int) -> None:
    seen = networks.seen_in_training(0, learned=True).view
    trace = np.random.default_rng(moments).exponential(size=(len(seen.records), moments))
    view = ModelView(seen.target, seen.records, loss_trace=trace)
    dice = np.random.default_rng(0)
    found, published = (LossTraceIQR(minus)(view, dice).score for minus in (True, False))
    for k, losses in enumerate(trace.tolist()):
        wide = quantile(losses, 0.75) - quantile(losses, 0.25)
        assert published[k] == pytest.approx(wide)
        assert found[k] == pytest.approx(wide - losses[-1])
