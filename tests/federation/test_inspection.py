"""What an inspection tells of a transcript, and what of it is odd."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divulge.core import Guarantee, MaskedSum, ReceivedUpdate, Round
from divulge.federation.transcript.inspect import Inspection, inspect
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.reader import Transcript
from divulge.federation.transcript.writer import Writer

HEADER = Header("t", "weights", {"w": (2,), "steps": ()})
SENT = {"w": np.zeros(2, np.float32), "steps": np.array(0)}


def sends(*numbers: float, records: int | None = 10) -> ReceivedUpdate:
    return ReceivedUpdate({"w": np.array(numbers, np.float32), "steps": np.array(3)}, records)


def played(number: int = 0, **received: ReceivedUpdate) -> Round:
    return Round(number, "weights", SENT, received)


def told(*rounds: Round) -> Inspection:
    return inspect(Transcript(HEADER, rounds))


def flags(*rounds: Round) -> list[tuple[int, str | None, str]]:
    return [(flag.round, flag.client, flag.text) for flag in told(*rounds).flags]


def test_rounds_and_clients_are_counted_and_measured() -> None:
    first = replace(
        played(0, a=sends(3, 4), b=sends(0, 1, records=None)),
        aggregated={"w": np.array([0, 2], np.float32), "steps": np.array(3)},
        metrics={"accuracy": 0.5},
    )
    claimed = replace(sends(6, 8), guarantee=Guarantee(2.0, 1e-5))
    found = told(first, played(1, a=claimed))
    assert [(r.clients, r.records, r.step, r.hidden) for r in found.rounds] == [
        (2, 10, 2.0, False),
        (1, 10, None, False),
    ]
    assert found.rounds[0].metrics == {"accuracy": 0.5}
    assert [(c.client, c.rounds, c.records, c.norm) for c in found.clients] == [
        ("a", 2, 10, 7.5),
        ("b", 1, None, 1.0),
    ]
    assert found.clients[0].guarantee == Guarantee(2.0, 1e-5)
    assert (found.tensors, found.parameters) == (2, 3)
    assert found.flags == ()


def test_of_a_secure_sum_only_the_sum_is_told() -> None:
    masked = MaskedSum(("a", "b"), {"w": np.ones(2), "steps": np.array(0)}, 20)
    found = told(replace(played(), masked=masked))
    assert (found.rounds[0].clients, found.rounds[0].records, found.rounds[0].hidden) == (
        2,
        20,
        True,
    )
    assert [(c.client, c.norm, c.records) for c in found.clients] == [
        ("a", None, None),
        ("b", None, None),
    ]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_flagged_wherever_it_is(bad: float) -> None:
    text = "NaN or infinity in 1 of 2 numbers in "
    broken = {"w": np.array([bad, 1], np.float32), "steps": np.array(0)}
    assert flags(played(a=sends(bad, 1))) == [(0, "a", text + "what it sent")]
    assert flags(replace(played(a=sends(1, 1)), aggregated=broken)) == [
        (0, None, text + "the aggregated weights")
    ]
    masked = MaskedSum(("a",), broken, 1)
    assert (0, None, text + "the sum") in flags(replace(played(), masked=masked))
    assert (0, None, text + "the weights sent out") in flags(
        replace(played(a=sends(1, 1)), sent=broken)
    )


def test_numbers_too_large_to_square_are_no_crash() -> None:
    assert told(played(a=sends(3e38, 3e38))).clients[0].norm == pytest.approx(3e38 * 2**0.5)


@pytest.mark.parametrize("claim", [0, -7])
def test_a_client_without_records_is_flagged(claim: int) -> None:
    assert flags(played(a=sends(1, 1, records=claim))) == [(0, "a", f"says it has {claim} records")]


def test_a_client_that_outweighs_the_others_is_flagged() -> None:
    honest = {name: sends(1, 1, records=10) for name in "abc"}
    heavy = replace(played(), received=honest | {"eve": sends(1, 1, records=1000)})
    absurd = replace(played(), received=honest | {"eve": sends(1, 1, records=10**30)})
    assert flags(heavy) == []
    assert flags(absurd) == [
        (0, "eve", f"says it has {10**30} records, where the median of the round is 10")
    ]


def test_a_changing_number_of_records_is_flagged() -> None:
    rounds = [played(k, a=sends(1, 1, records=n)) for k, n in enumerate([10, 10, 12])]
    assert flags(*rounds) == [(2, "a", "says it has 12 records, and said 10 before")]


def test_a_client_that_trained_nothing_is_flagged() -> None:
    assert flags(played(a=sends(0, 0))) == [
        (0, "a", "sent back what it was sent: nothing was trained")
    ]


def test_a_round_that_cannot_be_read_is_flagged_and_the_rest_is_told(tmp_path: Path) -> None:
    writer = Writer.begin(tmp_path / "t", HEADER)
    for number in range(3):
        writer.add(played(number, a=sends(1, 1)))
    path = tmp_path / "t" / "round-0001.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    found = inspect(Transcript.open(tmp_path / "t"))
    assert [line.number for line in found.rounds] == [0, 2]
    (flag,) = found.flags
    assert flag.round == 1
    assert "cannot be read" in flag.text
    assert found.clients[0].rounds == 2
