"""What clients sent has to lead from the weights that they were sent to those of the next round."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from divulge.core import ReceivedUpdate, Round, UpdateKind
from divulge.errors import DataError
from divulge.federation import Transcript
from divulge.federation.transcript.consistency import refuse_misread_updates
from divulge.federation.transcript.inspect import inspect
from divulge.federation.transcript.layout import Header

SIZE, CLIENTS = 40, 5


class Weighted(NamedTuple):
    """So many times an update, the weights sent, and normal noise."""

    update: float
    sent: float = 0.0
    noise: float = 0.0


UPDATE, WEIGHTS, OPPOSITE = Weighted(1), Weighted(1, 1), Weighted(-1)

SERVERS = {
    "averages": Weighted(1),
    "goes half way": Weighted(0.5),
    "goes beyond": Weighted(3),
    "adds noise": Weighted(1, 0, 1),
    "shrinks": Weighted(1, -0.3),
    "stays": Weighted(0),
}
"""How a server changes its weights, by the mean update."""


def federation(
    kind: UpdateKind,
    says: Weighted,
    server: Weighted = SERVERS["averages"],
    *,
    rounds: int = 3,
    seed: int = 0,
    known: bool = True,
) -> tuple[Round, ...]:
    rng = np.random.default_rng(seed)
    sent, played = rng.normal(size=SIZE), []
    for number in range(rounds):
        updates = 0.1 * rng.standard_t(3, size=(CLIENTS, SIZE))
        records = rng.integers(1, 100, CLIENTS)
        received = {
            str(k): ReceivedUpdate(
                {"w": says.update * updates[k] + says.sent * sent}, int(records[k])
            )
            for k in range(CLIENTS)
        }
        new = sent + server.update * (records @ updates / records.sum()) + server.sent * sent
        new += server.noise * rng.normal(size=SIZE)
        after = {"w": new} if known else None
        played.append(Round(number, kind, {"w": sent}, received, aggregated=after))
        sent = new
    return tuple(played)


MISREAD = [
    ("update", OPPOSITE, "the other sign"),
    ("update", WEIGHTS, 'declare them as kind "weights"'),
    ("weights", UPDATE, 'declare them as kind "update"'),
    ("weights", Weighted(-1, 1), "the other sign"),
    ("gradient", UPDATE, 'declare them as kind "update"'),
    ("gradient", WEIGHTS, 'declare them as kind "weights"'),
]


@pytest.mark.parametrize(("kind", "says", "why"), MISREAD)
@pytest.mark.parametrize("known", [True, False])
def test_what_clients_sent_under_another_kind_or_sign_is_refused(
    kind: UpdateKind, says: Weighted, why: str, known: bool
) -> None:
    """Without the new weights, those that the next round sends out tell as much."""
    with pytest.raises(DataError, match=why):
        refuse_misread_updates(federation(kind, says, known=known), "fedavg")


@pytest.mark.parametrize(("kind", "says"), [("update", WEIGHTS), ("weights", UPDATE)])
def test_weights_are_told_from_updates_without_later_weights(
    kind: UpdateKind, says: Weighted
) -> None:
    with pytest.raises(DataError, match="in 1 of 1 rounds"):
        refuse_misread_updates(federation(kind, says, rounds=1, known=False))


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("kind", "says"), [("update", UPDATE), ("weights", WEIGHTS), ("gradient", OPPOSITE)]
)
def test_whatever_a_server_makes_of_right_updates_is_taken(
    server: str, kind: UpdateKind, says: Weighted
) -> None:
    for seed in range(20):
        for known in (True, False):
            refuse_misread_updates(
                federation(kind, says, SERVERS[server], rounds=2, seed=seed, known=known)
            )


@pytest.mark.parametrize("times", [0.05, 0.8, 1.25, 10])
def test_multiplied_updates_are_refused_where_the_server_averages(times: float) -> None:
    rounds = federation("update", Weighted(times))
    with pytest.raises(DataError, match=f"a mean {times:.3g} times as long in round 0"):
        refuse_misread_updates(rounds, "FedAvg")
    refuse_misread_updates(rounds, "fedavgm")
    refuse_misread_updates(federation("update", Weighted(1.02)), "fedavg")


def test_one_round_that_fits_is_enough() -> None:
    """A server may take back what it did, as after a round that failed."""
    right, wrong = federation("update", UPDATE), federation("update", OPPOSITE)
    refuse_misread_updates((wrong[0], right[1], wrong[2]), "fedavg")


def test_an_inspection_flags_each_such_round() -> None:
    wrong = federation("update", OPPOSITE, rounds=2)
    header = Header("x", "update", {"w": (SIZE,)})
    flagged = [flag for flag in inspect(Transcript(header, wrong)).flags if flag.client is None]
    assert [flag.round for flag in flagged] == [0, 1]
    assert all("the other sign" in flag.text for flag in flagged)
    right = inspect(Transcript(header, federation("update", UPDATE))).flags
    assert all(flag.client for flag in right)


def test_counters_are_not_compared() -> None:
    (played,) = federation("weights", WEIGHTS, rounds=1)
    received = {
        client: replace(got, tensors={**got.tensors, "steps": np.array(10**9)})
        for client, got in played.received.items()
    }
    sent = {**played.sent, "steps": np.array(7)}
    refuse_misread_updates((replace(played, sent=sent, received=received),), "fedavg")
