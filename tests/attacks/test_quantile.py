"""How many reference records a regression of quantiles needs."""

import numpy as np
import pytest

from divulge.attacks.membership.quantile import FEWEST, Quantile
from divulge.core import ModelView, Records
from divulge.errors import NotApplicable
from divulge.targets.function import FunctionTarget


def test_as_many_reference_records_as_it_says_are_enough() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    target = FunctionTarget(lambda asked: np.exp(asked) / np.exp(asked).sum(axis=1, keepdims=True))
    candidates = Records(x[FEWEST:], y[FEWEST:])
    for known in (FEWEST, FEWEST - 1):
        view = ModelView(target, candidates, Records(x[:known], y[:known]))
        if known == FEWEST:
            assert len(Quantile()(view, rng).score) == len(candidates)
        else:
            with pytest.raises(NotApplicable, match="at least 50 reference records"):
                Quantile()(view, rng)
