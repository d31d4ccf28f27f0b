"""The order in which labels of any kind become classes."""

from typing import Any

import pytest

from divulge.data.class_names import match_classes
from divulge.data.labels import encode_labels, sort_labels
from divulge.errors import DataError


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        ({3, 10, 2}, (2, 3, 10)),
        ({"b", "10", "2"}, ("10", "2", "b")),
        ({2, "1", "b"}, (2, "1", "b")),  # of several types: one type after another
        ({1, "1"}, (1, "1")),
    ],
)
def test_labels_are_in_their_own_order_or_by_type_and_text(
    labels: set[Any], order: tuple[Any, ...]
) -> None:
    assert sort_labels(labels) == order


def test_labels_of_several_types_are_numbered_in_that_order() -> None:
    numbers, classes = encode_labels(["b", 2, "1", 2], "members")
    assert classes == (2, "1", "b")
    assert numbers.tolist() == [2, 0, 1, 0]


@pytest.mark.parametrize(("label", "shown"), [("Anna", True), ("annabel", False)])
def test_of_many_unknown_labels_only_one_that_is_a_class_is_shown(
    label: str, *, shown: bool
) -> None:
    """More than ten may be the names of people, where the wrong column was taken for labels."""
    labels = [label, *(f"person {at}" for at in range(20))]
    with pytest.raises(DataError, match=r"there is 'anna'") as error:
        match_classes(labels, ("anna", "bob"))
    assert (label in str(error.value)) == shown
