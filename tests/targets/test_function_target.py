import numpy as np
import pytest

from divulge.core import Need
from divulge.errors import BudgetSpent, TargetError
from divulge.targets.function import FunctionTarget

from . import tiny_models as tiny


def test_a_failure_names_its_cause() -> None:
    def broken(x: np.ndarray) -> np.ndarray:
        raise ConnectionError("no route to the model")

    with pytest.raises(TargetError, match="ConnectionError: no route to the model") as caught:
        FunctionTarget(broken).predict(tiny.X)
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_our_own_errors_pass_unchanged() -> None:
    def spent(x: np.ndarray) -> np.ndarray:
        raise BudgetSpent("nothing left")

    with pytest.raises(BudgetSpent, match="nothing left"):
        FunctionTarget(spent).predict(tiny.X)


def test_labels() -> None:
    target = FunctionTarget(lambda x: tiny.logits(x).argmax(axis=1), "labels", classes=3)
    assert target.offers == Need.HARD_LABELS | Need.FEATURES
    answers = target.predict(tiny.X)
    np.testing.assert_array_equal(answers.argmax(axis=1), tiny.logits(tiny.X).argmax(axis=1))
    np.testing.assert_array_equal(answers.sum(axis=1), 1)


def test_a_row_too_few_is_noticed() -> None:
    with pytest.raises(TargetError, match="each of 7 records"):
        FunctionTarget(lambda x: tiny.probabilities(x)[1:]).predict(tiny.X)


def test_the_function_may_write_into_what_it_is_given() -> None:
    def greedy(x: np.ndarray) -> np.ndarray:
        x[:] = 0
        return np.full((len(x), 2), 0.5)

    records = tiny.X.copy()
    records.flags.writeable = False
    FunctionTarget(greedy).predict(records)
    np.testing.assert_array_equal(records, tiny.X)
