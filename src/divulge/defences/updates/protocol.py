"""Exchange the messages of one round: announcements, updates, and the server's view of them."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from divulge._util.arguments import Seed, check_arguments
from divulge._util.random import stream
from divulge.core import (
    ClientContext,
    ClientUpdates,
    Message,
    RoundContext,
    ServerView,
    Update,
    UpdateDefence,
)
from divulge.defences.noise import SeededNoise
from divulge.defences.updates import vectors
from divulge.errors import DataError, SpecError


@check_arguments
def begin_round(
    defence: UpdateDefence,
    number: int,
    weights: Update,
    shares: Mapping[int, float],
    seed: Seed,
) -> dict[int, ClientContext]:
    """Let every participant announce, and give each its context of the round, in a simulation.

    The noise is seeded. Where clients are programs of their own, each makes its context itself,
    with `divulge.defences.noise.SecureNoise`: noise whose seed is known can be taken off again.

    Args:
        defence: the defence, the same for all participants.
        number: the number of the round.
        weights: the global weights as they were sent out.
        shares: the weight of each participant's update, such as its share of all records.
        seed: the seed of the run; each client and round has a stream of its own.

    Raises:
        SpecError: there is no participant, or a share is not above 0.
    """
    for client, share in shares.items():
        if not 0 < share < float("inf"):
            raise SpecError(
                f"expected the share of client {client} above 0, got {share}: leave a client "
                "without records out of the round"
            )
    if not shares:
        raise SpecError("expected at least one participant, got none: choose clients first")
    announced = {client: defence.announce() for client in sorted(map(int, shares))}
    context = RoundContext(
        number,
        tuple(announced),
        {name: value.shape for name, value in weights.items()},
        {client: public for client, (_, public) in announced.items() if public},
        SeededNoise(stream(seed, "defence of the server", number)),
    )
    return {
        client: ClientContext(
            context,
            client,
            SeededNoise(stream(seed, "defence", number, client)),
            shares[client],
            secret,
        )
        for client, (secret, _) in announced.items()
    }


def session_fingerprint(context: RoundContext) -> bytes:
    """Fingerprint of all that is known about a round: 32 bytes (SHA-256)."""
    known = (
        context.number,
        context.participants,
        sorted((name, tuple(shape)) for name, shape in context.shapes.items()),
        sorted((client, public.hex()) for client, public in context.announced.items()),
    )
    return hashlib.sha256(repr(known).encode()).digest()


@check_arguments
def send(defence: UpdateDefence, update: Update, context: ClientContext) -> Message:
    """What a client sends: its update behind the client hook, with the round that it is for.

    Where the defence promises something, an update that is not finite counts as zeros.

    Raises:
        DataError: the update is not of the round's shapes or not of floating point; or it is not
            finite, and nothing is promised.
    """
    owner, promises = f"the update of client {context.client}", defence.promises
    vectors.check_update(update, owner, context.round.shapes, finite=not promises)
    finite = vectors.zeros_unless_finite(update) if promises else update
    values = defence.on_client(finite, context)
    return Message(context.round.number, context.client, session_fingerprint(context.round), values)


@check_arguments
def receive(
    defence: UpdateDefence, messages: Iterable[Message], context: RoundContext
) -> ServerView:
    """What the server may see of the messages that arrived.

    Where the defence promises something, a message that is not finite counts as zeros.

    Raises:
        DataError: a message is of another round or sender, came twice, or is not of the round's
            shapes; or it is not finite, and nothing is promised; or a message is missing that the
            defence cannot do without.
    """
    arrived: dict[int, Update] = {}
    lenient = defence.promises and not defence.masks
    fingerprint = session_fingerprint(context)
    for message in messages:
        sender = f"the message of client {message.client}"
        if message.round != context.number or message.session != fingerprint:
            raise DataError(
                f"expected messages of round {context.number}, got {sender} for round "
                f"{message.round} of "
                f"{'this' if message.session == fingerprint else 'another'} session: "
                "drop what is late"
            )
        if message.client not in context.participants:
            raise DataError(
                f"expected messages of clients {format_clients(context.participants)}, got "
                f"{sender}: drop what nobody asked for"
            )
        if message.client in arrived:
            raise DataError(f"expected {sender} once, got it twice: drop the second one")
        vectors.check_update(
            message.values, sender, context.shapes, masked=defence.masks, finite=not lenient
        )
        finite = vectors.zeros_unless_finite(message.values) if lenient else message.values
        arrived[message.client] = finite
    return defence.on_server(ClientUpdates(arrived), context)


def format_clients(clients: Sequence[int]) -> str:
    """Clients as a list in words, cut off where it gets long."""
    shown = ", ".join(map(str, clients[:10]))
    return shown if len(clients) <= 10 else f"{shown} and {len(clients) - 10} more"
