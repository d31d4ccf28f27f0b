"""Find the rounds of which nothing can be computed: NaN, infinity, or a false number of records.

One client's broken update costs that client alone. Where the server averaged it, the weights that
it sent out afterwards are broken too, and those rounds are lost for all clients.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from divulge.core import Round, Rounds, Tensors
from divulge.errors import DataError

MOST_RECORDS = 10**8
"""The most records that a client may claim: attacks draw so many, and none trains on more."""


class BrokenRounds(NamedTuple):
    """The rounds that cannot be used."""

    sent: frozenset[int]
    """Positions of rounds of which nobody's update can be used: the weights sent out are broken."""
    by_client: dict[str, frozenset[int]]
    """Positions of rounds, for each client that some cannot be used of."""
    unusable: frozenset[str]
    """Clients of whom no round is left."""
    notes: tuple[str, ...]
    """What is left out, in sentences."""

    def of(self, client: str) -> frozenset[int]:
        """Positions of the rounds of this client that are left out."""
        return self.by_client.get(client, frozenset())


class UsableRounds:
    """Rounds without the updates that cannot be used; they are still read one at a time."""

    def __init__(self, rounds: Rounds, broken: BrokenRounds) -> None:
        self._rounds, self._broken = rounds, broken
        self._whole = [k for k in range(len(rounds)) if k not in broken.sent]

    def __len__(self) -> int:
        return len(self._whole)

    def __getitem__(self, index: int) -> Round:
        position = self._whole[index]
        played = self._rounds[position]
        received = {
            client: got
            for client, got in played.received.items()
            if position not in self._broken.of(client)
        }
        return replace(played, received=received)

    def __iter__(self) -> Iterator[Round]:
        return map(self.__getitem__, range(len(self)))


class _Claims(NamedTuple):
    """In which rounds clients claim records that cannot be, or say nothing of them."""

    false: dict[str, set[int]]
    silent: dict[str, set[int]]

    def unusable(self, *, stated: bool) -> dict[str, set[int]]:
        """Positions by client; silence counts where others state how many they have."""
        return {c: at | (self.silent[c] if stated else set()) for c, at in self.false.items()}


def is_finite(tensors: Tensors) -> bool:
    """Whether all numbers are finite."""
    return all(
        bool(np.isfinite(array).all()) for array in tensors.values() if array.dtype.kind == "f"
    )


def find_broken_rounds(
    rounds: Rounds, clients: Sequence[str], *, need_records: bool = False
) -> BrokenRounds:
    """The rounds to leave out of the views of clients; each round is read once.

    Args:
        rounds: all rounds of a federation.
        clients: names of the clients.
        need_records: whether a round is of no use without the number of records that a client
            claims. Where no client claims any, that is for the attack to say.

    Raises:
        DataError: no round of any client can be used.
    """
    sent_out: set[int] = set()
    own, every = _by_client(clients), _by_client(clients)
    claims, stated = _Claims(_by_client(clients), _by_client(clients)), False
    for position, played in enumerate(rounds):
        if not is_finite(played.sent):
            sent_out.add(position)
        for client in every.keys() & set(played.clients):
            every[client].add(position)
            got = played.received.get(client)
            if got is None or position in sent_out:
                continue
            if not is_finite(got.tensors):
                own[client].add(position)
            elif got.records is None:
                claims.silent[client].add(position)
            elif not 1 <= got.records <= MOST_RECORDS:
                claims.false[client].add(position)
            else:
                stated = True
    empty = claims.unusable(stated=stated) if need_records else _by_client(clients)
    lost = {c: frozenset(every[c] & (own[c] | empty[c] | sent_out)) for c in clients}
    unusable = frozenset(c for c in clients if every[c] and every[c] == lost[c])
    notes = []
    if sent_out:
        where = _list_rounds(sent_out)
        notes.append(f"The server sent out NaN or infinity in {where}, left out for everybody.")
    notes += [client_note(c, own[c], unusable=c in unusable) for c in clients if own[c]]
    notes += [
        _note(f"Client {c} claims no {_POSSIBLE}", empty[c], unusable=c in unusable)
        for c in clients
        if empty[c]
    ]
    notes += [
        f"No round is left of client {c}, and nothing is said about it."
        for c in clients
        if c in unusable and not own[c] and not empty[c]
    ]
    refuse_none_left(clients, unusable)
    by_client = {c: at for c, at in lost.items() if at}
    return BrokenRounds(frozenset(sent_out), by_client, unusable, tuple(notes))


_POSSIBLE = f"number of records from 1 to {MOST_RECORDS:,}"


def _by_client(clients: Sequence[str]) -> dict[str, set[int]]:
    return {client: set() for client in clients}


def client_note(client: str, rounds: set[int], *, unusable: bool) -> str:
    """Say that a client sent what is not finite, and what that costs."""
    return _note(f"Client {client} sent NaN or infinity", rounds, unusable=unusable)


def _note(fault: str, rounds: set[int], *, unusable: bool) -> str:
    cost = "so nothing is said about it" if unusable else "left out"
    return f"{fault} in {_list_rounds(rounds)}, {cost}."


def refuse_none_left(clients: Sequence[str], unusable: frozenset[str]) -> None:
    """Refuse an audit of nobody.

    Raises:
        DataError: no client is left.
    """
    if len(unusable) == len(clients):
        raise DataError(
            f"expected finite updates of records from some client, got NaN, infinity or no "
            f"{_POSSIBLE} from all {len(clients)}: look for the round in which training diverged, "
            "and at what clients claim to have"
        )


def refuse_equal_updates(rounds: Rounds, clients: Sequence[str]) -> None:
    """Refuse rounds in which all clients sent the same, as nobody does who trains on own records.

    No attack finds a leak there, whatever the clients hold. Few tensors are read: the first
    difference ends the comparison.

    Args:
        rounds: all rounds of a federation.
        clients: names of the clients that are attacked.

    Raises:
        DataError: they did, in every round, and two or more sent something.
    """
    most = 0
    for played in rounds:
        sent = [played.received[c].tensors for c in clients if c in played.received]
        if any(not np.array_equal(a[n], sent[0][n]) for a in sent[1:] for n in sent[0]):
            return
        most = max(most, len(sent))
    if most > 1:
        raise DataError(
            f"expected updates of each client's own training, got the same of all {most} clients "
            "in every round: record what each client sent, before the server averages it"
        )


def _list_rounds(positions: set[int]) -> str:
    first, *others = sorted(positions)
    if not others:
        return f"round {first}"
    return f"{len(positions)} rounds, the first of them round {first}"
