"""What models of an audit's own are trained with: the labels that its model was trained with."""

from typing import Any

import pytest

from divulge.audits import matching
from divulge.data.class_names import ClassMatch


@pytest.mark.parametrize(
    ("match", "names", "own", "expected"),
    [
        # plain numbers of classes stay what they are
        (ClassMatch({0: 0, 1: 1}, (), ()), (0, 1), True, ()),
        (ClassMatch({"0": 0, 1: 1}, (), ()), (0, 1), True, ()),
        # the labels of the records, which the model has too
        (
            ClassMatch({"cat": 0, "dog": 1}, ("cat", "dog"), ()),
            ("cat", "dog"),
            True,
            ("cat", "dog"),
        ),
        # another spelling of the model's own label gives way to that
        (ClassMatch({"1.0": 0, "2": 1}, ("1", "2"), ()), (1, 2), True, (1, 2)),
        # another name does not: a booster calls its classes 0 and 1
        (ClassMatch({"cat": 0, "dog": 1}, ("cat", "dog"), ()), (0, 1), True, ("cat", "dog")),
        # a class of the model that no record has
        (ClassMatch({"cat": 0}, ("cat", "dog"), ()), ("cat", "dog"), True, ("cat", "dog")),
        (ClassMatch({1: 1}, (), ()), (0, 1, 2), True, ()),
        # names of the user's are none of the model's own
        (ClassMatch({"1.0": 0, "2": 1}, ("1", "2"), ()), (1, 2), False, ("1.0", "2")),
        (ClassMatch({"cat": 0}, ("cat", "dog"), ()), (), False, ("cat",)),
        # numbers that were taken for positions; the others are those left, in their order
        (ClassMatch({0: 1}, (), (), by_position=True), ("a", "b", "c"), True, (1, 0, 2)),
        (ClassMatch({0: 0, 2: 2}, (), (), by_position=True), ("a", "b", "c"), True, ()),
        # a class that the model does not know
        (ClassMatch({0: 0, 1: 1, 2: 2}, (), (), further=1), (0, 1), True, (0, 1, 2)),
    ],
)
def test_models_of_the_audit_s_own_are_trained_with_the_model_s_labels(
    match: ClassMatch, names: tuple[Any, ...], own: bool, expected: tuple[Any, ...]
) -> None:
    names = names or ("cat",)
    found = matching._training_labels(match, names, own)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))
