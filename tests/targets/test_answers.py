from typing import Any

import numpy as np
import pytest

from divulge.core import Need
from divulge.errors import TargetError
from divulge.targets.answer_arrays import _read_decimals
from divulge.targets.outputs import MOST_CLASSES, Output, access_of, to_probabilities


def test_softmax_keeps_tiny_probabilities_exact() -> None:
    answers = to_probabilities([[0.0, -300.0, -700.0]], "logits", 1)
    assert answers.dtype == np.float64
    np.testing.assert_allclose(answers[0, 1:], np.exp([-300.0, -700.0]), rtol=1e-12)


def test_softmax_survives_huge_logits_and_ruled_out_classes() -> None:
    answers = to_probabilities([[1e30, 0.0], [-np.inf, 3.0]], "logits", 2)
    np.testing.assert_array_equal(answers, [[1, 0], [0, 1]])


def test_float16_and_float32_are_read_without_losing_more() -> None:
    raw = np.array([[0.1, 0.2, 0.7]])
    for dtype in (np.float16, np.float32):
        answers = to_probabilities(raw.astype(dtype), "probabilities", 1)
        assert answers.dtype == np.float64
        np.testing.assert_allclose(answers.sum(axis=1), 1, rtol=1e-15)


def test_rows_of_decimals_are_read_as_such_beside_rows_of_other_numbers() -> None:
    third = np.float32(1) / 3
    raw = np.array([[0.1, 0.2, 0.7], [third, third, third]] * 2, np.float32)
    expected = [[0.1, 0.2, 0.7], [float(third)] * 3] * 2
    np.testing.assert_array_equal(_read_decimals(raw), expected)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_one_column_means_class_one_of_two(shape: tuple[int, ...]) -> None:
    p = np.array([0.0, 0.25, 1.0])
    expected = np.column_stack([1 - p, p])
    np.testing.assert_array_equal(to_probabilities(p.reshape(shape), "probabilities", 3), expected)
    z = np.array([-40.0, 0.0, 2.0])
    expected = np.column_stack([1 / (1 + np.exp(z)), 1 / (1 + np.exp(-z))])
    answers = to_probabilities(z.reshape(shape), "logits", 3)
    np.testing.assert_allclose(answers, expected, rtol=1e-13)


def test_rounding_is_repaired() -> None:
    answers = to_probabilities([[-1e-7, 1.0005]], "probabilities", 1)
    np.testing.assert_array_equal(answers, [[0, 1]])


def test_the_raw_answers_are_not_changed() -> None:
    raw = np.array([[0.2, 0.8004]])
    to_probabilities(raw, "probabilities", 1)[:] = 7
    np.testing.assert_array_equal(raw, [[0.2, 0.8004]])


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_labels_become_one_hot(dtype: type[np.generic]) -> None:
    answers = to_probabilities(np.array([1, 0], dtype=dtype), "labels", 2, classes=3)
    np.testing.assert_array_equal(answers, [[0, 1, 0], [1, 0, 0]])


def test_no_records_no_answers() -> None:
    assert to_probabilities(np.empty((0, 4)), "probabilities", 0).shape == (0, 4)
    assert to_probabilities(np.empty((0, 1)), "probabilities", 0).shape == (0, 2)


LOGITS = [[3.0, -1.0], [0.5, 2.0]]


@pytest.mark.parametrize(
    ("raw", "output", "message"),
    [
        (LOGITS, "probabilities", r'sums from 2 to 2\.5: .* pass output="logits"'),
        ([-3.0, 2.0], "probabilities", 'pass output="logits"'),
        ([[0.4, 0.4], [0.5, 0.5]], "probabilities", r"sums from 0\.8 to 1"),
        ([[-0.1, 1.1], [0.5, 0.5]], "probabilities", r"got -0\.1 to 1\.1"),
        ([[np.nan, 1.0], [0.5, 0.5]], "probabilities", "NaN"),
        ([[np.nan, 1.0], [0.5, 0.5]], "logits", "NaN"),
        ([[np.inf, 1.0], [0.5, 0.5]], "logits", "infinity"),
        ([[-np.inf, -np.inf], [0.5, 0.5]], "logits", "infinity"),
        ([[0.5, 0.5]], "probabilities", "each of 2 records"),
        (0.5, "probabilities", "each of 2 records"),
        (np.zeros((2, 3, 1)), "logits", r"shape \(2, classes\)"),
        (np.zeros((2, 0)), "logits", r"shape \(2, classes\)"),
        (["yes", "no"], "probabilities", "row of numbers"),
        ([[1, 2], [3]], "logits", "NumPy cannot read"),
        ([0.5, 1.0], "labels", 'pass output="probabilities"'),
        (["yes", "no"], "labels", "place among the classes"),
        ([[1, 1, 0], [0, 0, 1]], "labels", "flat array of integers"),
        ([[0], [1]], "labels", "flat array of integers"),
        ([0, 3], "labels", "from 0 to 2, got 0 to 3"),
        ([-1, 1], "labels", "from 0 to 2, got -1 to 1"),
    ],
)
def test_wrong_answers_are_refused(raw: Any, output: Output, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        to_probabilities(raw, output, 2, classes=3)


def test_labels_may_be_of_as_many_classes_as_there_can_be() -> None:
    assert to_probabilities([0], "labels", 1, MOST_CLASSES).shape == (1, MOST_CLASSES)


@pytest.mark.parametrize("classes", [None, 1, MOST_CLASSES + 1, 10**9])
def test_labels_need_the_number_of_classes(classes: int | None) -> None:
    with pytest.raises(TargetError, match="pass classes="):
        to_probabilities([0, 1], "labels", 2, classes)


def test_offers() -> None:
    assert access_of("logits") == Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES
    assert access_of("probabilities") == access_of("logits")
    assert access_of("labels") == Need.HARD_LABELS | Need.FEATURES
