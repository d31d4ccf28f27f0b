"""Logits where a model gives them, and what probabilities tell of them elsewhere."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from divulge.core import Need, Records, Target
from divulge.errors import TargetError
from divulge.secrets.control_targets.shuffled import ShuffledTarget
from divulge.targets.function import FunctionTarget
from divulge.targets.logits import read_logits
from divulge.targets.recorded import TableTarget

from . import tiny_models as tiny

TOLD = tiny.logits(tiny.X).astype(np.float64) + np.arange(len(tiny.X))[:, None]
"""Logits with a constant a record, which no probability tells."""
ROWS = np.arange(len(TOLD))


def torch_target(output: str) -> Target:
    torch = pytest.importorskip("torch")
    from divulge.targets.torch import TorchTarget

    told = TOLD if output == "logits" else special.softmax(TOLD, axis=1)
    module = torch.nn.Embedding.from_pretrained(torch.tensor(told))
    return TorchTarget(module, output)  # type: ignore[arg-type]


def function_target(output: str) -> Target:
    told = TOLD if output == "logits" else special.softmax(TOLD, axis=1)
    return FunctionTarget(lambda x: told[x], output)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [torch_target, function_target])
def test_logits_come_as_they_are_and_else_up_to_a_constant(make: Callable[[str], Target]) -> None:
    np.testing.assert_allclose(read_logits(make("logits"), ROWS), TOLD, atol=1e-12)
    centred = TOLD - TOLD.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(read_logits(make("probabilities"), ROWS), centred, atol=1e-9)


def test_a_table_keeps_the_logits_that_it_recorded() -> None:
    table = TableTarget.record(function_target("logits"), ROWS)
    np.testing.assert_array_equal(table.logits(ROWS[2:4]), TOLD[2:4])
    np.testing.assert_allclose(table.predict(ROWS), special.softmax(TOLD, axis=1))
    assert TableTarget.record(function_target("probabilities"), ROWS).logits(ROWS) is None


def test_one_column_is_class_one_of_two_and_a_class_that_is_ruled_out_stays_finite() -> None:
    one = FunctionTarget(lambda x: x, "logits")
    np.testing.assert_array_equal(read_logits(one, np.array([[2.0]])), [[0.0, 2.0]])
    ruled_out = FunctionTarget(lambda _: [[-np.inf, 5.0]], "logits")
    ((low, high),) = read_logits(ruled_out, np.zeros((1, 1)))
    assert high == 5
    assert -105 < low < -95


@pytest.mark.parametrize(
    "told",
    [TOLD[:-1], np.full_like(TOLD, np.nan), np.full_like(TOLD, -np.inf), TOLD[None], TOLD[:, :0]],
    ids=["a row less", "NaN", "no class left", "three axes", "no class"],
)
def test_what_are_no_logits_of_the_records_is_refused(told: np.ndarray) -> None:
    target = FunctionTarget(lambda _: told, "logits")
    with pytest.raises(TargetError, match="expected"):
        read_logits(target, ROWS)
    with pytest.raises(TargetError, match="expected"):
        TableTarget.record(target, ROWS)


def test_shuffled_logits_go_with_shuffled_probabilities() -> None:
    y = np.arange(len(TOLD)) % TOLD.shape[1]
    table = TableTarget(special.softmax(TOLD, axis=1), Need.PROBABILITIES, TOLD)
    records = Records(ROWS, y)
    shuffled = ShuffledTarget(table, (records,), np.random.default_rng(1))
    for asked in (records.x, records.x.copy()):
        got = read_logits(shuffled, asked)
        np.testing.assert_allclose(special.softmax(got, axis=1), shuffled.predict(asked))
        np.testing.assert_array_equal(np.sort(got.max(axis=1)), np.sort(TOLD.max(axis=1)))
        assert not np.array_equal(got, TOLD)
