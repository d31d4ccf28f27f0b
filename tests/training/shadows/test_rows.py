"""The file of what shadows say: what was written counts, and nothing else does."""

import json
from pathlib import Path

import numpy as np
import pytest

from divulge.errors import StoreError
from divulge.training.shadows.store import RowFile


def row(k: int, width: int = 7) -> np.ndarray:
    return np.arange(width) / 3 + k


def test_rows_come_back_as_they_were_written_in_any_order(tmp_path: Path) -> None:
    file = RowFile(tmp_path, "a", 3, 7)
    for k in (2, 0):
        file.put(k, row(k))
    again = RowFile(tmp_path, "a", 3, 7)
    assert again.missing == [1]
    again.put(1, row(1))
    np.testing.assert_array_equal(again.matrix(), [row(0), row(1), row(2)])
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), again.matrix())
    assert not again.matrix().flags.writeable


@pytest.mark.parametrize("width", [1, 7, 10_000_000 - 1])
def test_a_file_grows_and_may_be_read_in_part(tmp_path: Path, width: int) -> None:
    """With the header rewritten in its place, the rows that were there stay where they are."""
    RowFile(tmp_path, "a", 9, width)  # reserved, which costs no room on disk
    small = RowFile(tmp_path, "b", 1, 7)
    small.put(0, row(0))
    large = RowFile(tmp_path, "b", 12345, 7)
    assert large.missing == list(range(1, 12345))
    large.put(12344, row(5))
    assert np.load(tmp_path / "b.npy", mmap_mode="r").shape == (12345, 7)
    np.testing.assert_array_equal(
        np.load(tmp_path / "b.npy", mmap_mode="r")[[0, -1]], [row(0), row(5)]
    )
    np.testing.assert_array_equal(RowFile(tmp_path, "b", 1, 7).matrix(), [row(0)])
    assert (
        len(
            {RowFile(tmp_path, "a", n, width)._place(0) for n in (1, 10, 10**9)}
            if width < 8
            else {0}
        )
        == 1
    )


@pytest.mark.parametrize("damage", ["changed", "short", "gone", "list"])
def test_damage_is_said(tmp_path: Path, damage: str) -> None:
    RowFile(tmp_path, "a", 2, 7).put(1, row(1))
    data, listed = tmp_path / "a.npy", tmp_path / "a.json"
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    if damage == "changed":
        data.write_bytes(content)
    elif damage == "short":
        data.write_bytes(content[:-8])
    elif damage == "gone":
        data.unlink()
    else:
        listed.write_text("[]")
    with pytest.raises(StoreError, match=r"a\.(npy|json)"):
        RowFile(tmp_path, "a", 2, 7)


def test_the_list_is_readable(tmp_path: Path) -> None:
    RowFile(tmp_path, "a", 2, 7).put(1, row(1))
    assert list(json.loads((tmp_path / "a.json").read_text())["rows"]) == ["1"]
    assert {path.name for path in tmp_path.iterdir()} == {"a.npy", "a.json"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
