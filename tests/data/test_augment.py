"""Candidates seen otherwise."""

from pathlib import Path

import numpy as np
import pytest

from divulge.core import Records
from divulge.data.augmentation import AUGMENTATIONS, augment
from divulge.data.records import resolve_augmentations
from divulge.errors import DataError, SpecError

IMAGE = np.arange(12).reshape(1, 1, 3, 4)


def records(x: np.ndarray) -> Records:
    return Records(x, np.zeros(len(x), int))


@pytest.mark.parametrize(
    ("way", "first_row", "first_column"),
    [
        ("mirror", [3, 2, 1, 0], [3, 7, 11]),
        ("shift-up", [4, 5, 6, 7], [4, 8, 8]),
        ("shift-down", [0, 1, 2, 3], [0, 0, 4]),
        ("shift-left", [1, 2, 3, 3], [1, 5, 9]),
        ("shift-right", [0, 0, 1, 2], [0, 4, 8]),
    ],
)
def test_named_ways(way: str, first_row: list[int], first_column: list[int]) -> None:
    (other,) = augment(records(IMAGE), [way])
    assert other.x.shape == IMAGE.shape
    assert other.x[0, 0, 0].tolist() == first_row
    assert other.x[0, 0, :, 0].tolist() == first_column


@pytest.mark.parametrize("way", AUGMENTATIONS)
def test_channels_change_nothing(way: str) -> None:
    grey = np.random.default_rng(0).normal(size=(5, 6, 4))
    (flat,) = augment(records(grey), [way])
    (coloured,) = augment(records(np.stack([grey, -grey], axis=1)), [way])
    np.testing.assert_array_equal(coloured.x[:, 0], flat.x)
    np.testing.assert_array_equal(coloured.x[:, 1], -flat.x)


def test_a_function_of_ones_own() -> None:
    (darker,) = augment(records(np.ones((3, 2))), [lambda x: x / 2])
    assert darker.x.tolist() == [[0.5, 0.5]] * 3


@pytest.mark.parametrize(
    ("shape", "way", "error", "message"),
    [
        ((5, 64), "mirror", DataError, "expected images"),
        ((5, 8, 1), "mirror", DataError, "expected images"),
        ((5, 32, 32, 3), "shift-up", DataError, "channels last"),
        ((5, 3, 8, 8), "miror", SpecError, "did you mean 'mirror'"),
        ((5, 3), lambda x: x[:, :2], DataError, "keep the shape"),
        ((5, 3), lambda x: x / "0", DataError, "TypeError"),
        ((5, 3), lambda x: x * np.nan, DataError, "finite"),
    ],
)
def test_what_cannot_be_seen_otherwise(
    shape: tuple[int, ...], way: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        augment(records(np.ones(shape)), [way])


def test_names_stay_and_functions_of_the_user_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def turn(x, rng):\n    return x\n")
    found = resolve_augmentations(["flip", "mine.py:turn"], tmp_path)
    assert found[0] == "flip"
    assert callable(found[1])
