"""Rounds that cannot be used are left out for whom they cannot be used of, and for nobody else."""

from collections.abc import Mapping

import numpy as np
import pytest

from divulge.core import ReceivedUpdate, Round
from divulge.errors import DataError
from divulge.federation.transcript.finite import MOST_RECORDS, UsableRounds, find_broken_rounds

WHOLE, NAN = {"w": np.ones(2)}, {"w": np.array([1.0, np.nan])}


def played(
    number: int, records: Mapping[str, int | None], *, sent: Mapping[str, np.ndarray] = WHOLE,
    broken: str = "",
) -> Round:  # fmt: skip
    received = {c: ReceivedUpdate(NAN if c in broken else WHOLE, n) for c, n in records.items()}
    return Round(number, "weights", sent, received)


def test_who_claims_no_records_is_left_out_where_they_are_needed() -> None:
    rounds = (played(0, {"a": 5, "b": 0, "c": 1}), played(1, {"a": 5, "b": 3, "c": 0}))
    found = find_broken_rounds(rounds, ("a", "b", "c"), need_records=True)
    assert found.by_client == {"b": {0}, "c": {1}}
    assert not found.unusable
    assert not find_broken_rounds(rounds, ("a", "b", "c")).by_client


@pytest.mark.parametrize("records", [-1, MOST_RECORDS + 1, 10**30])
def test_who_claims_what_cannot_be_costs_nobody_else_the_audit(records: int) -> None:
    """Attacks draw so many records: memory ends, or the integers of NumPy."""
    rounds = (played(0, {"a": MOST_RECORDS, "b": records}),)
    found = find_broken_rounds(rounds, ("a", "b"), need_records=True)
    assert found.unusable == {"b"}
    assert found.notes[0].startswith("Client b claims no number of records from 1 to 100,000,000")


def test_silence_counts_where_others_state_how_many_they_have() -> None:
    some = (played(0, {"a": 5, "b": None}),)
    assert find_broken_rounds(some, ("a", "b"), need_records=True).unusable == {"b"}
    silent = (played(0, {"a": None, "b": None}),)
    assert not find_broken_rounds(silent, ("a", "b"), need_records=True).by_client
    none = (played(0, {"a": 0, "b": None}),)
    assert find_broken_rounds(none, ("a", "b"), need_records=True).unusable == {"a"}
    with pytest.raises(DataError, match="from all 1"):
        find_broken_rounds(none, ("a",), need_records=True)


def test_of_a_round_that_was_sent_out_broken_no_client_is_accused() -> None:
    rounds = (
        played(0, {"a": 5, "b": 5}, broken="b"),
        played(1, {"a": 5, "b": 5}, sent=NAN, broken="ab"),
        played(2, {"a": 5, "b": 5}),
    )
    found = find_broken_rounds(rounds, ("a", "b"))
    assert found.sent == {1}
    assert found.by_client == {"a": {1}, "b": {0, 1}}
    assert [note for note in found.notes if "sent NaN" in note] == [
        "Client b sent NaN or infinity in round 0, left out."
    ]


def test_usable_rounds_leave_out_by_their_place_in_the_transcript() -> None:
    """Round 2 is the second that is left: b is left out of it, and not of the first."""
    rounds = (
        played(0, {"a": 1, "b": 1}, sent=NAN),
        played(1, {"a": 1, "b": 1}),
        played(2, {"a": 1, "b": 1}, broken="b"),
    )
    left = UsableRounds(rounds, find_broken_rounds(rounds, ("a", "b")))
    assert [one.number for one in left] == [1, 2]
    assert [sorted(one.received) for one in left] == [["a", "b"], ["a"]]
    assert left[1].number == 2
