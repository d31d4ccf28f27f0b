from collections.abc import Sequence

import numpy as np
import pytest

from divulge.checks import row_numbers
from divulge.checks.row_numbers import number_contents

RNG = np.random.default_rng(0)

PARTS = {
    "one number": [RNG.integers(0, 50, 200), RNG.integers(0, 50, 30)],
    "floats": [np.round(RNG.normal(size=(300, 3)), 0), np.array([[-0.0, 1.0, 0.0]])],
    "images": [RNG.integers(0, 2, (90, 1, 2, 2)).astype(np.float32)],
    "short rows": [RNG.integers(0, 2, (80, 3)).astype(np.uint8), np.zeros((2, 3), np.uint8)],
    "texts": [np.array([b"one", b"two", b"one"]), np.array([b"three", b"two"])],
    "order of words": [np.array([[1, 2, 3], [3, 2, 1], [2, 1, 3], [1, 2, 3]])],
    "no features": [np.zeros((4, 0))],
    "no rows": [np.zeros((0, 3)), np.zeros((2, 3))],
}


def naive(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The same with a dictionary of rows."""
    rows = [tuple(np.asarray(row).reshape(-1).tolist()) for part in parts for row in part]
    return np.array([rows.index(row) for row in rows], np.int64)


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("collide", [False, True])
def test_equal_rows_and_these_alone_have_the_same_number(
    parts: Sequence[np.ndarray], collide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if collide:  # all rows share a hash
        monkeypatch.setattr(row_numbers, "_mix", lambda words: words[:, :0].sum(axis=1))
    codes = number_contents(parts)
    assert [len(each) for each in codes] == [len(part) for part in parts]
    joined, expected = np.concatenate(codes), naive(parts)
    assert ((joined[:, None] == joined) == (expected[:, None] == expected)).all()


def test_rows_of_many_blocks_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_numbers, "_BLOCK", 4)
    x = RNG.normal(size=(100, 9))
    (codes,) = number_contents([np.concatenate([x, x[::-1]])])
    assert len(np.unique(codes)) == 100
    assert (codes[:100] == codes[100:][::-1]).all()
