"""Read from a transcript the items shown to clients, as attack views and pairs of images.

A transcript calls the items that a client was shown ``handed``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from divulge.core import Learner, ReceivedUpdate, Round, Tensors, UpdateView
from divulge.errors import SpecError, StoreError
from divulge.federation.transcript import layout
from divulge.federation.transcript.reader import Transcript

IMAGE_FIELDS = ("original", "image")
"""Names under which a transcript holds original and shown images."""


class ImagePair(NamedTuple):
    """Images that one client was shown, and their originals, of 8 bits a channel."""

    original: UInt8[np.ndarray, "images channels height width"]
    shown: UInt8[np.ndarray, "images channels height width"]


def image_pairs(transcript: Transcript, clients: Sequence[str], most: int) -> tuple[ImagePair, ...]:
    """Read the first images of each client, in the first round in which it was shown items.

    Args:
        transcript: transcript of the federation.
        clients: names of the clients.
        most: largest number of images a client.

    Raises:
        SpecError: a client was shown no images, or the originals are not in the transcript.
        StoreError: what is there is no pair of images.
    """
    return tuple(_image_pair(transcript, client, most) for client in clients)


def _image_pair(transcript: Transcript, client: str, most: int) -> ImagePair:
    empty: Tensors = {}
    rounds = (played for played in transcript.rounds if client in played.clients)
    arrays = next((played.handed[client] for played in rounds if client in played.handed), empty)
    if missing := [name for name in IMAGE_FIELDS if name not in arrays]:
        raise SpecError(
            f"expected images that client {client!r} was handed, the transcript has no "
            f"{' and no '.join(missing)}: record them, or ask for none"
        )
    original, shown = (arrays[name] for name in IMAGE_FIELDS)
    types = {original.dtype, shown.dtype}
    if original.shape != shown.shape or original.ndim != 4 or types != {np.dtype(np.uint8)}:
        raise StoreError(
            f"expected images of 8 bits with their originals for client {client!r}, got "
            f"{shown.dtype} of shape {shown.shape} and {original.dtype} of shape "
            f"{original.shape}: restore the transcript"
        )
    return ImagePair(original[:most], shown[:most])


ItemArrays = Mapping[str, np.ndarray]
"""Arrays about the items that one client was shown, by name, one row an item."""


@dataclass(frozen=True, slots=True)
class ClientImpressions:
    """The server's view of one client, and the numbers of the items that the client was shown."""

    view: UpdateView
    item: Int[np.ndarray, " items"]
    """Row of each item in the tensor of items; without such a tensor, numbers from 0."""


def client_views(
    transcript: Transcript,
    clients: Sequence[str],
    learner: Callable[[ItemArrays], Learner] | None = None,
) -> tuple[ClientImpressions, ...]:
    """Build the server's view of each client, from the first round in which it was shown items.

    Where items have rows in a tensor of the weights, a view has only the rows of the items shown.

    Args:
        transcript: transcript of the federation.
        clients: names of the clients.
        learner: function from the items that a client was shown to its local training.

    Raises:
        SpecError: a client was shown nothing; or ``learner`` made no learner.
        StoreError: the transcript is damaged, or does not describe items.
    """
    impressions: dict[str, ClientImpressions] = {}
    for played in transcript.rounds:
        new = [
            c
            for c in clients
            if c in played.handed and c in played.clients and c not in impressions
        ]
        if not new:
            continue
        sent = dict(played.sent)  # read once for all of them
        for client in new:
            impressions[client] = _client_view(
                played, sent, transcript.header.items, client, learner
            )
    for client in clients:
        if client not in impressions:
            raise SpecError(
                f"expected items that client {client!r} was handed, the transcript has none: "
                "record them, or name other clients"
            )
    return tuple(impressions[client] for client in clients)


def _client_view(
    played: Round,
    sent: Tensors,
    table: str | None,
    client: str,
    learner: Callable[[ItemArrays], Learner] | None,
) -> ClientImpressions:
    handed = played.handed[client]
    arrays = {name: handed[name] for name in handed if name not in IMAGE_FIELDS}
    where = f"what client {client!r} was handed in round {played.number}"
    received = played.received.get(client)
    if table is None:
        features, item = arrays.get("features"), np.arange(len(arrays.get("features", ())))
        if features is None or features.ndim < 2 or not len(features):
            raise StoreError(f"expected features of items in {where}, got none: restore it")
    else:
        item = _item_rows(arrays, sent, table, where)
        features = sent[table][item]
        sent = {**sent, table: features}
        if received is not None:
            cut = {**received.tensors, table: received.tensors[table][item]}
            received = ReceivedUpdate(cut, received.records, received.guarantee)
    if any(len(array) != len(item) for array in arrays.values()):
        raise StoreError(f"expected an entry an item in {where}, got other lengths: restore it")
    only = {} if received is None else {client: received}
    attacked = replace(played, sent=sent, received=only, aggregated=None, handed={})
    made = None if learner is None else learner(arrays)
    if made is not None and not isinstance(made, Learner):
        raise SpecError(
            f"expected a learner, got {type(made).__name__}: it needs `private` and `update`"
        )
    return ClientImpressions(UpdateView(client, (attacked,), inputs=features, learner=made), item)


def _item_rows(
    arrays: ItemArrays, sent: Tensors, table: str, where: str
) -> Int[np.ndarray, " items"]:
    """Rows of the items in their tensor."""
    if table not in sent or sent[table].ndim < 2:
        raise StoreError(
            f"expected a tensor {table!r} with a row an item, there is none: restore it"
        )
    return layout.check_item_rows(arrays.get("item", np.zeros(0)), len(sent[table]), where)
