"""What every answer defence must do, written once; each function asserts one property."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from divulge.core import AnswerDefence, Need
from divulge.defences import catalog
from divulge.errors import SpecError
from divulge.targets.defended import DefendedTarget
from divulge.targets.function import FunctionTarget
from divulge.targets.outputs import access_of, to_probabilities

Property = Callable[[AnswerDefence], None]
RECORDS = 500


def drawn(classes: int, sharp: float, seed: int = 0) -> np.ndarray:
    logits = sharp * np.random.default_rng([seed, classes]).normal(size=(RECORDS, classes))
    return to_probabilities(logits, "logits", RECORDS)


def locked(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


X = locked(np.random.default_rng(0).normal(size=(RECORDS, 3)))
LABELS = np.random.default_rng(1).integers(0, 4, RECORDS)
ANSWERS = tuple(
    map(
        locked,
        (
            drawn(2, 1.0),
            drawn(10, 5.0),
            drawn(100, 0.1),
            np.eye(4)[LABELS],
            np.full((RECORDS, 3), 1 / 3),
        ),
    )
)
"""They cannot be written to, so that no defence can change what it is given."""


def check_distributions(before: np.ndarray, after: np.ndarray) -> None:
    assert after.shape == before.shape
    assert after.dtype == np.float64
    assert (after >= 0).all()
    np.testing.assert_allclose(after.sum(axis=1), 1, atol=1e-9)


def gives_distributions(defence: AnswerDefence) -> None:
    for before in ANSWERS:
        check_distributions(before, defence.change(before, X, 7))


def keeps_the_label_where_promised(defence: AnswerDefence) -> None:
    for before in ANSWERS:
        after = defence.change(before, X, 7)
        if defence.keeps_label:
            np.testing.assert_array_equal(after.argmax(axis=1), before.argmax(axis=1))


def takes_whatever_the_answers_are(defence: AnswerDefence) -> None:
    @given(
        rows=arrays.arrays(
            np.float64, (7, 5), elements=st.floats(0, 1, allow_subnormal=False) | st.just(0.5)
        )
    )
    def check(rows: np.ndarray) -> None:
        rows = rows + (rows.sum(axis=1, keepdims=True) == 0)
        before = rows / rows.sum(axis=1, keepdims=True)
        after = defence.change(before, X[:7], 0)
        check_distributions(before, after)
        # of classes that are equally likely, up to what rounding leaves, any may be the label
        top = before[np.arange(7), after.argmax(axis=1)]
        np.testing.assert_allclose(top, before.max(axis=1), atol=1e-12)

    check()


def repeats_itself_whenever_a_record_comes(defence: AnswerDefence) -> None:
    before = ANSWERS[1]
    whole = defence.change(before, X, 7)
    order = np.random.default_rng(2).permutation(RECORDS)
    np.testing.assert_array_equal(defence.change(before[order], X[order], 7), whole[order])
    np.testing.assert_array_equal(defence.change(before[3:4], X[3:4], 7), whole[3:4])
    assert defence.change(before[:0], X[:0], 7).shape == (0, 10)


def has_settings_that_json_can_hold(defence: AnswerDefence) -> None:
    told: dict[str, Any] = asdict(defence)  # type: ignore[call-overload]
    assert json.loads(json.dumps(told)) == told
    assert catalog.answer_defence(defence.name, **told) == defence
    assert hash(catalog.answer_defence(defence.name, **told)) == hash(defence)


def lets_nobody_look_inside(defence: AnswerDefence) -> None:
    class Open(FunctionTarget):
        @property
        def offers(self) -> Need:
            return access_of("probabilities") | Need.AUTOGRAD

    target = DefendedTarget(Open(lambda x: ANSWERS[4][: len(x)]), defence)
    assert Need.AUTOGRAD not in target.offers
    assert Need.HARD_LABELS | Need.FEATURES in target.offers
    assert (Need.PROBABILITIES in target.offers) == (defence.name != "top-1")
    check_distributions(X[:4], target.predict(X[:4]))


def promises_no_more_than_there_was(defence: AnswerDefence) -> None:
    for before in (Need.NONE, Need.HARD_LABELS, Need.PROBABILITIES | Need.HARD_LABELS):
        assert defence.offers(before) in before


def is_none_for_labels(defence: AnswerDefence) -> None:
    labels = FunctionTarget(lambda x: np.zeros(len(x), int), "labels", classes=2)
    with pytest.raises(SpecError, match="got labels: leave"):
        DefendedTarget(labels, defence)


def refuses_unknown_settings_in_words(defence: AnswerDefence) -> None:
    with pytest.raises(SpecError, match=r"expected .*, got 'nonsense'"):
        catalog.answer_defence(defence.name, nonsense=1)


def names_its_paper(defence: AnswerDefence) -> None:
    assert any(character.isdigit() for character in defence.paper)
    assert len((type(defence).__doc__ or "").splitlines()[0]) > 20


PROPERTIES: tuple[Property, ...] = (
    gives_distributions,
    keeps_the_label_where_promised,
    takes_whatever_the_answers_are,
    repeats_itself_whenever_a_record_comes,
    has_settings_that_json_can_hold,
    lets_nobody_look_inside,
    promises_no_more_than_there_was,
    is_none_for_labels,
    refuses_unknown_settings_in_words,
    names_its_paper,
)
