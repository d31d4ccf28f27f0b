"""Whose record each is: in any form, missing nowhere, and never in a file."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from divulge import Records
from divulge.data import groups
from divulge.errors import DataError, SpecError


def records(count: int, label: int | None = None) -> Records:
    rng = np.random.default_rng(count)
    y = rng.integers(0, 2, count) if label is None else np.full(count, label)
    return Records(rng.normal(size=(count, 2)), y)


@pytest.mark.parametrize(
    "values",
    [
        np.array([7, 7, 12]),
        np.array([7.0, 7.0, 12.0]),
        ["7", "7", "12"],
        ["7.0", "7", "12.0"],
        [7, "7", 12.0],
        pd.Series([7, 7, 12], dtype="Int64"),
        pd.Categorical(["7", "7", "12"]),
        pl.Series(["7", " 7", "12"]),
        np.array(["7", "7", "12"], dtype=object),
    ],
    ids=lambda values: type(values).__name__,
)
def test_one_person_has_one_number_however_it_is_written(values: Any) -> None:
    expected = groups.number_groups(["7", "7", "12"], 3, "groups")
    np.testing.assert_array_equal(groups.number_groups(values, 3, "groups"), expected)
    assert expected[0] == expected[1] != expected[2]


@pytest.mark.parametrize(
    "missing",
    [None, np.nan, "", "  ", pd.NA, pd.NaT, "nan", "None", " NA"],
    ids=["None", "nan", "''", "'  '", "NA", "NaT", "'nan'", "'None'", "' NA'"],
)
def test_a_record_of_nobody_is_refused_with_the_count(missing: Any) -> None:
    with pytest.raises(DataError, match=r"no value, .* for 1 records, the first at index 1"):
        groups.number_groups([1, missing, 2], 3, "groups of members")


def test_letters_may_be_composed_otherwise_and_codes_may_begin_with_zeros() -> None:
    composed, apart = groups.number_groups(["Jos\u00e9", "Jose\u0301"], 2, "groups")
    assert composed == apart
    assert len(set(groups.number_groups(["7", "07", "7.5", "7.50"], 4, "groups"))) == 4


@pytest.mark.parametrize("values", [[1, 2], [[1, 2, 3]], "abc", [[1], [2, 3], 4]])
def test_values_that_are_not_one_a_record_are_refused(values: Any) -> None:
    with pytest.raises(DataError, match="expected 3 values in groups, one a record"):
        groups.number_groups(values, 3, "groups")


def test_numbers_say_nothing_of_names() -> None:
    found = groups.number_groups([1, 2, 3, 1000], 4, "groups")
    assert not set(found.tolist()) & {1, 2, 3, 1000}
    assert (found >= 0).all()


def test_every_set_says_whose_its_records_are() -> None:
    sets = {"members": records(4), "nonmembers": records(3), "reference": None}
    found, names = groups.attach(sets, {"members": [1, 1, 2, 2], "nonmembers": [3, 4, 4]}, None)
    assert names == ()
    assert found["reference"] is None
    assert found["members"] is not None
    assert found["members"].people is not None
    assert found["members"].people.tolist() == [0, 0, 1, 1]
    with pytest.raises(DataError, match="got none for nonmembers"):
        groups.attach(sets, {"members": [1, 1, 2, 2]}, None)
    with pytest.raises(SpecError, match="got some for reference: there are no such records"):
        groups.attach(sets, {"members": [1] * 4, "nonmembers": [2] * 3, "reference": []}, None)


def test_the_column_of_classes_is_no_column_of_people() -> None:
    both = Records(np.zeros((6, 1)), np.array([0, 1, 0, 1, 0, 1]))
    with pytest.raises(DataError, match="says the same as the labels"):
        groups.attach({"members": both}, {"members": ["b", "a", "b", "a", "b", "a"]}, None)


def test_strata_are_named_once_for_all_sets_and_may_be_missing() -> None:
    sets = {"members": records(3), "nonmembers": records(2)}
    found, names = groups.attach(
        sets, None, {"members": ["f", "m", None], "nonmembers": ["m", "f"]}
    )
    assert names == ("f", "m", groups.NOT_GIVEN)
    assert found["members"] is not None
    assert found["nonmembers"] is not None
    assert found["members"].subpopulation is not None
    assert found["members"].subpopulation.tolist() == [0, 1, 2]
    assert found["nonmembers"].subpopulation is not None
    assert found["nonmembers"].subpopulation.tolist() == [1, 0]


def test_ages_are_no_strata() -> None:
    ages = np.arange(60.0)
    with pytest.raises(DataError, match="at most 50 strata, got 60 different values"):
        groups.attach({"members": records(60)}, None, {"members": ages})


@pytest.mark.slow
def test_a_million_people_are_numbered() -> None:
    found = groups.number_groups(np.arange(1_000_000), 1_000_000, "groups")
    assert len(np.unique(found)) == 1_000_000


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_the_column_of_a_frame_is_no_feature(kind: Any) -> None:
    frame = kind({"age": [1.0, 2.0], "who": ["a", "b"]})
    left, values = groups.take_column(
        {"members": (frame, [0, 1]), "reference": None}, "who", "groups"
    )
    assert list(left["members"][0].columns) == ["age"]
    assert list(values["members"]) == ["a", "b"]
    assert left["reference"] is None
    with pytest.raises(DataError, match=r"expected a column 'whom' in members.*got age, who"):
        groups.take_column({"members": (frame, [0, 1])}, "whom", "groups")
    with pytest.raises(DataError, match="expected data frames beside groups='who', got ndarray"):
        groups.take_column({"members": (np.zeros((2, 1)), [0, 1])}, "who", "groups")
