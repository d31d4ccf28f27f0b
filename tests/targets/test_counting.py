import numpy as np
import pytest

from divulge.errors import BudgetSpent
from divulge.targets.budget import CountingTarget
from divulge.targets.function import FunctionTarget

from . import tiny_models as tiny


def test_records_are_counted() -> None:
    target = CountingTarget(FunctionTarget(tiny.probabilities))
    target.predict(tiny.X)
    target.predict(tiny.X[:2])
    assert target.query_count == 9


def test_the_budget_is_checked_before_asking() -> None:
    inner = tiny.Recording(FunctionTarget(tiny.probabilities))
    target = CountingTarget(inner, budget=10)
    target.predict(tiny.X)
    with pytest.raises(BudgetSpent, match="at most 10 questions, got 7 more after 7"):
        target.predict(tiny.X)
    assert inner.rows == target.query_count == 7
    target.predict(tiny.X[:3])
    assert target.query_count == 10


def test_answers_that_got_lost_are_counted() -> None:
    target = CountingTarget(tiny.Recording(FunctionTarget(tiny.probabilities), fail_after=0))
    with pytest.raises(KeyboardInterrupt):
        target.predict(np.zeros((2, 4)))
    assert target.query_count == 2
