"""Find the rounds whose weights or updates are NaN or infinite: nothing can be computed from them.

One client's broken update costs that client alone. Where the server averaged it, the weights that
it sent out afterwards are broken too, and those rounds are lost for all clients.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from divulge.core import Rounds, Tensors
from divulge.errors import DataError


class BrokenRounds(NamedTuple):
    """The rounds that cannot be used."""

    by_client: dict[str, frozenset[int]]
    """Positions of rounds, for each client that some cannot be used of."""
    unusable: frozenset[str]
    """Clients of whom no round is left."""
    notes: tuple[str, ...]
    """What is left out, in sentences."""

    def of(self, client: str) -> frozenset[int]:
        """Positions of the rounds of this client that are left out."""
        return self.by_client.get(client, frozenset())


def is_finite(tensors: Tensors) -> bool:
    """Whether all numbers are finite."""
    return all(
        bool(np.isfinite(array).all()) for array in tensors.values() if array.dtype.kind == "f"
    )


def find_broken_rounds(rounds: Rounds, clients: Sequence[str]) -> BrokenRounds:
    """The rounds to leave out of the views of clients; each round is read once.

    Args:
        rounds: all rounds of a federation.
        clients: names of the clients.

    Raises:
        DataError: no round of any client can be used.
    """
    sent_out: set[int] = set()
    own: dict[str, set[int]] = {client: set() for client in clients}
    seen: dict[str, set[int]] = {client: set() for client in clients}
    for position, played in enumerate(rounds):
        if not is_finite(played.sent):
            sent_out.add(position)
        for client in seen.keys() & set(played.clients):
            seen[client].add(position)
            got = played.received.get(client)
            if got is not None and position not in sent_out and not is_finite(got.tensors):
                own[client].add(position)
    lost = {c: frozenset(seen[c] & (own[c] | sent_out)) for c in clients}
    unusable = frozenset(c for c in clients if seen[c] and seen[c] == lost[c])
    notes = []
    if sent_out:
        where = _list_rounds(sent_out)
        notes.append(f"The server sent out NaN or infinity in {where}, left out for everybody.")
    notes += [client_note(c, own[c], unusable=c in unusable) for c in clients if own[c]]
    notes += [
        f"No round is left of client {c}, and nothing is said about it."
        for c in clients
        if c in unusable and not own[c]
    ]
    refuse_none_left(clients, unusable)
    return BrokenRounds({c: at for c, at in lost.items() if at}, unusable, tuple(notes))


def client_note(client: str, rounds: set[int], *, unusable: bool) -> str:
    """Say that a client sent what is not finite, and what that costs."""
    cost = "so nothing is said about it" if unusable else "left out"
    return f"Client {client} sent NaN or infinity in {_list_rounds(rounds)}, {cost}."


def refuse_none_left(clients: Sequence[str], unusable: frozenset[str]) -> None:
    """Refuse an audit of nobody.

    Raises:
        DataError: no client is left.
    """
    if len(unusable) == len(clients):
        raise DataError(
            f"expected finite updates of some client, got NaN or infinity from all {len(clients)}: "
            "look for the round in which training diverged"
        )


def _list_rounds(positions: set[int]) -> str:
    first, *others = sorted(positions)
    if not others:
        return f"round {first}"
    return f"{len(positions)} rounds, the first of them round {first}"
