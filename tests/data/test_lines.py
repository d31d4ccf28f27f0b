"""Lines of texts by their numbers, up to a size of the file and of a line."""

from pathlib import Path

import pytest

from divulge.data import lines
from divulge.errors import DataError


def test_lines_have_their_numbers_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\n  two \r\n \nthree")
    assert list(lines.read_lines(path)) == [(1, "one"), (3, "two"), (5, "three")]


@pytest.mark.parametrize(
    ("largest", "longest", "at"), [(9, 4, None), (8, 4, 3), (6, 4, 2), (9, 3, 2), (2, 4, 1)]
)
def test_files_and_lines_up_to_their_limits_are_read(
    largest: int, longest: int, at: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", longest)
    path = tmp_path / "a.txt"
    path.write_bytes(b"ab\ncde\nfg")  # lines of 3, 4 and 2 bytes
    if at is None:
        assert list(lines.read_lines(path, largest)) == [(1, "ab"), (2, "cde"), (3, "fg")]
        return
    said = f"at most {largest} bytes and {longest} a line in {path}, got more at line {at}:"
    with pytest.raises(DataError) as error:
        list(lines.read_lines(path, largest))
    assert said in str(error.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\n", None])
def test_what_is_no_text_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.txt"):
        list(lines.read_lines(path))
