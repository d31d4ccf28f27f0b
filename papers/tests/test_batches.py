"""Long work whose finished batches survive."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from divulge._util.progress import as_track
from divulge.errors import SpecError, StoreError
from divulge_papers.batches import map_batches

ROWS = np.arange(20, dtype=np.uint8).reshape(10, 2)


def test_batches_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    made: list[int] = []

    def work(batch: np.ndarray, start: int) -> np.ndarray:
        if start == 8 and len(made) == 2:
            raise KeyboardInterrupt
        made.append(start)
        return batch[:, :, None] + np.uint8(1)

    with pytest.raises(KeyboardInterrupt):
        map_batches(tmp_path / "new", "x", ROWS, 4, work)
    shown: list[tuple[list[int], int]] = []

    def note(items: Sequence[int], text: str, done: int = 0) -> Iterable[int]:
        assert text
        shown.append((list(items), done))
        made.append(-1)
        return items

    found = map_batches(tmp_path / "new", "x", ROWS, 4, work, as_track(note))
    np.testing.assert_array_equal(found, ROWS[:, :, None] + 1)
    assert found.dtype == np.uint8
    assert made == [0, 4, -1, 8]
    assert shown == [([8], 2)]
    map_batches(tmp_path / "new", "y", ROWS, 4, work)  # other work
    map_batches(tmp_path / "new", "x", ROWS + np.uint8(1), 4, work)  # other rows
    assert made == [0, 4, -1, 8, 0, 4, 8, 0, 4, 8]


def test_damage_is_seen(tmp_path: Path) -> None:
    map_batches(tmp_path, "x", ROWS, 4, lambda batch, _: batch)
    victim = sorted(tmp_path.glob("*.npz"))[1]
    np.savez(victim, values=np.zeros(3), shape=np.array([2, 2]))
    with pytest.raises(StoreError, match="do not have the shape"):
        map_batches(tmp_path, "x", ROWS, 4, lambda batch, _: batch)
    victim.write_bytes(b"nothing")
    with pytest.raises(StoreError, match="restore it"):
        map_batches(tmp_path, "x", ROWS, 4, lambda batch, _: batch)


def test_nothing_to_do_is_refused(tmp_path: Path) -> None:
    for rows, size in ((ROWS, 0), (ROWS[:0], 2)):
        with pytest.raises(SpecError, match="rows and a batch size"):
            map_batches(tmp_path, "x", rows, size, lambda batch, _: batch)
