"""Exact copies between and within sets of records."""

import numpy as np
import pytest

from divulge.checks import duplicates
from divulge.core import Records
from divulge.errors import DataError


def rows(*values: float) -> Records:
    return Records(np.array(values)[:, None], np.zeros(len(values), np.int64))


def test_copies_are_found_within_and_between_all_sets() -> None:
    found = duplicates.find_copies(rows(1, 2, 2, 3, 4), rows(2, 5, 6, 6), rows(3, 5, 7, 7, 8))
    assert found.members.tolist() == [0, 3, 4]
    assert found.nonmembers.tolist() == [1, 2, 3]
    assert found.reference.tolist() == [2, 3, 4]
    assert found.copies == duplicates.Copies(2, 1, 1, 1, (1, 1, 1), found.copies.left)
    assert found.copies.left[:2] == (0, 1)
    assert found.copies.left[2] == pytest.approx((3 / 9 + 5 / 9) / (1 / 3 + 1 / 3))
    assert found.copies.between == 5


def test_records_are_compared_by_value() -> None:
    """Not by type, and zero has one sign."""
    short = Records(np.array([[1], [0]], np.float32), np.zeros(2, np.int64))
    found = duplicates.find_copies(short, rows(1.0, -0.0, 2.0), None)
    assert found.copies.nonmembers == found.copies.members == 2


def test_distinct_records_stay_as_they_are() -> None:
    found = duplicates.find_copies(rows(1, 2), rows(3, 4), rows(5))
    assert found.copies.between == 0
    assert [len(kept) for kept in found[:3]] == [2, 2, 1]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ((rows(1, 2, 3), rows(1, 2, 3), None), "3 of 3 that are exact copies of members"),
        ((rows(1), rows(1, 2, 3, 4), None), "1 of 1 members that are copies"),
        ((rows(1, 2), rows(3, 4), rows(3, 4)), "2 of 2 that are exact copies of non-members"),
        ((rows(1, 2), rows(3, 4), rows(1, 2, 7)), "2 of 3 that are exact copies of members"),
    ],
)
def test_sets_that_are_mostly_one_are_refused(
    sets: tuple[Records, Records, Records | None], message: str
) -> None:
    copies = duplicates.find_copies(*sets).copies
    with pytest.raises(DataError, match=message):
        duplicates.check_copies(copies, *(0 if one is None else len(one) for one in sets))


def test_half_of_a_set_is_not_most_of_it() -> None:
    copies = duplicates.find_copies(rows(1, 2), rows(1, 3), rows(1, 3, 4, 5)).copies
    duplicates.check_copies(copies, 2, 2, 4)


def test_of_copies_in_a_pool_the_first_is_kept_whatever_its_label() -> None:
    pool = Records(np.array([[3], [1], [3], [2], [1], [3]]), np.arange(6))
    found = duplicates.find_copies_in_pool(pool, rows(2, 9, 9, 8, -0.0))
    assert found.records.tolist() == [0, 1, 3]
    assert found.reference.tolist() == [1, 2, 3, 4]
    assert found.copies == duplicates.PoolCopies(6, 3, 5, 1, 1)


def test_a_pool_without_copies_stays_as_it_is() -> None:
    found = duplicates.find_copies_in_pool(rows(2, 1, 3), None)
    assert found.records.tolist() == [0, 1, 2]
    assert found.copies == duplicates.PoolCopies(3, 0, 0, 0, 0)
    duplicates.check_pool(found.copies)


@pytest.mark.parametrize(
    ("pool", "reference", "message"),
    [
        (rows(1, 2, 3), rows(1, 2, 7), "got 2 of 3 that are exact copies of records"),
        (rows(4, 4, 4), None, "got 3 that are exact copies of one"),
    ],
)
def test_a_pool_of_one_record_and_a_reference_that_is_the_pool_are_refused(
    pool: Records, reference: Records | None, message: str
) -> None:
    copies = duplicates.find_copies_in_pool(pool, reference).copies
    with pytest.raises(DataError, match=message):
        duplicates.check_pool(copies)


def test_half_of_a_reference_may_stand_in_the_pool() -> None:
    found = duplicates.find_copies_in_pool(rows(1, 2, 2), rows(1, 3))
    duplicates.check_pool(found.copies)
