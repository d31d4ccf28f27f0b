"""Which values of a column mean a member: words that everybody knows, or one that is named."""

from pathlib import Path

import pytest

from divulge.errors import DataError
from divulge.targets.member_column import read_members

PATH = Path("t.csv")


@pytest.mark.parametrize(
    ("cells", "value", "member", "said"),
    [
        (["1", "0", "1.0"], None, [1, 0, 1], "'1' means a member, and '0' a non-member"),
        (["Train", "test "], None, [1, 0], "'Train' means a member, and 'test' a non-member"),
        (["yes", "OUT", "in"], None, [1, 0, 1], "'in' or 'yes' means a member, and 'OUT'"),
        (["a", "b", "a"], "a", [1, 0, 1], "'a' means a member, and 'b' a non-member"),
        (["1", "2", "2"], "2.0", [0, 1, 1], "'2' means a member, and '1' a non-member"),
        (["train", "test"], "test", [0, 1], "'test' means a member, and 'train'"),
        (["a", "a"], "a", [1, 1], "'a' means a member, and no value a non-member"),
    ],
)
def test_members_are_read(
    cells: list[str], value: str | None, member: list[int], said: str
) -> None:
    found, sentence = read_members(PATH, "set", cells, value)
    assert found.tolist() == [bool(one) for one in member]
    assert sentence.startswith("In column 'set', " + said)


@pytest.mark.parametrize(
    ("cells", "value", "said"),
    [
        (["a", "b", "c"], "a", "expected 'a' and one other value in t.csv, column 'set', got"),
        (["a", "b"], "c", "expected 'c' and one other value in t.csv, column 'set', got"),
        (["a", "b"], None, "pass member_value='a' or member_value='b'"),
        (["1", "0", "x"], None, "1 or 0, true or false, train or test"),
        (["a"], None, "1 or 0, true or false, train or test"),
        (["1", " "], None, "a value that says who is a member"),
        ([], None, "one row per record"),
    ],
)
def test_what_nobody_can_know_is_refused(cells: list[str], value: str | None, said: str) -> None:
    with pytest.raises(DataError) as error:
        read_members(PATH, "set", cells, value)
    assert said in str(error.value)


def test_the_first_row_that_is_not_understood_is_named() -> None:
    with pytest.raises(DataError, match="row 3 below the header"):
        read_members(PATH, "set", ["1", "0", "maybe", "1", "perhaps"], None)
