"""Members and non-members of unlike types are refused in every container, and named."""

import datetime as dt
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from divulge.core import Records
from divulge.data.records import as_records, make_alike
from divulge.errors import DataError

NUMBERS = np.random.default_rng(0).normal(size=(6, 2))
STRUCTURE = np.zeros(6, [("a", "f8"), ("b", "i4")])
STRUCTURE["a"] = NUMBERS[:, 0]
KINDS: dict[str, np.ndarray] = {
    "numbers": NUMBERS,
    "dates": (NUMBERS * 1e6).astype("datetime64[s]"),
    "durations": (NUMBERS * 1e6).astype("timedelta64[s]"),
    "complex numbers": NUMBERS + 1j,
    "texts": np.array([["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"], ["i", "j"], ["k", "l"]]),
    "bytes": np.array([[b"a", b"b"], [b"c", b"d"], [b"e", b"f"], [b"g", b"h"], [b"i", b"j"]] * 2)[
        :6
    ],
}
ALIKE: list[tuple[Any, Any]] = [
    (NUMBERS, NUMBERS[::-1].astype(np.float32)),
    (NUMBERS > 0, NUMBERS),
    (NUMBERS.astype(object), KINDS["texts"].astype(object)),
    (NUMBERS, KINDS["texts"].astype(object)),
    (KINDS["dates"], KINDS["dates"].astype("datetime64[ms]") + 5),
]


def _join(one: Any, other: Any) -> tuple[Records, Records | None]:
    labels = [0, 1] * 3
    return make_alike(as_records((one, labels), "members"), as_records((other, labels), "others"))


def _frame(package: str, values: np.ndarray) -> Any:
    module = pytest.importorskip(package)
    first = values[:, 0]
    plain = first.tolist() if package == "polars" and first.dtype.kind in "ScMm" else first
    return module.DataFrame({"a": plain, "b": NUMBERS[:, 1]})


CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda values: values,
    "flat array": lambda values: values[:, 0],
    "pandas": lambda values: _frame("pandas", values),
    "pandas column": lambda values: _frame("pandas", values)["a"],
    "polars": lambda values: _frame("polars", values),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(("one", "other"), list(permutations(KINDS, 2)))
def test_unlike_types_are_refused(container: str, one: str, other: str) -> None:
    wrap = CONTAINERS[container]
    with pytest.raises(DataError, match=r"expected .* (of one type|in one kind of container)"):
        _join(wrap(KINDS[one]), wrap(KINDS[other]))


def test_the_message_names_the_column_and_both_types() -> None:
    frames = [_frame("pandas", KINDS[kind]) for kind in ("dates", "numbers")]
    with pytest.raises(DataError, match=r"column 'a' of one type .*, got dates and numbers: "):
        _join(*frames)


@pytest.mark.parametrize("other", KINDS)
def test_records_with_fields_are_of_a_type_of_their_own(other: str) -> None:
    with pytest.raises(DataError, match=r"expected .* (of one type|in one kind of container)"):
        _join(STRUCTURE, KINDS[other][:, 0])


def test_a_list_of_objects_beside_numbers_is_refused() -> None:
    days = [dt.date(2020, 1, day) for day in range(1, 7)]
    with pytest.raises(DataError, match=r"of one type .*, got a list and numbers"):
        _join(days, NUMBERS[:, 0].tolist())


def test_arrays_by_name_of_unlike_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="expected arrays 'a' of one shape"):
        _join({"a": NUMBERS}, {"a": NUMBERS[:, :1]})


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("zones", [("UTC", "Asia/Tokyo"), ("UTC", None), (None, "Asia/Tokyo")])
def test_time_zones_that_differ_are_refused(
    package: str, zones: tuple[str | None, str | None]
) -> None:
    module = pytest.importorskip(package)

    def frame(zone: str | None, month: int = 1) -> Any:
        days = [dt.datetime(2020, month, day) for day in range(1, 7)]
        if package == "pandas":
            return module.DataFrame({"a": module.to_datetime(days).tz_localize(zone)})
        column = module.Series("a", days)
        return module.DataFrame([column if zone is None else column.dt.replace_time_zone(zone)])

    with pytest.raises(DataError, match=r"column 'a' of one type.* dates in the time zone"):
        _join(frame(zones[0]), frame(zones[1], 2))
    _join(frame(zones[0]), frame(zones[0], 2))


def test_days_and_periods_are_no_points_in_time() -> None:
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range("2020-01-01", periods=6)
    for days, kind in ((times.date, "dates without a time"), (times.to_period("D"), "periods")):
        frames = [pandas.DataFrame({"a": column}) for column in (days, times)]
        with pytest.raises(DataError, match=rf"of one type.*, got {kind} and dates: "):
            _join(*frames)
        _join(frames[0], frames[0])


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_types_that_go_together_stay_what_they_are(one: np.ndarray, other: np.ndarray) -> None:
    first, second = _join(one, other)
    assert second is not None
    for records, given in ((first, one), (second, other)):
        np.testing.assert_array_equal(np.asarray(records.rows(), given.dtype), given)


def test_a_column_without_any_value_goes_with_every_type() -> None:
    pandas = pytest.importorskip("pandas")
    empty = pandas.DataFrame({"a": np.full(6, np.nan), "b": NUMBERS[:, 1]})
    for kind in ("dates", "texts"):
        _join(_frame("pandas", KINDS[kind]), empty)
