"""Images that clients were handed, beside what the server made them of."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from divulge.core import Tensors
from divulge.errors import SpecError, StoreError
from divulge.federation.transcript import Transcript

NAMES = ("original", "image")
"""What a transcript calls them."""


class Pair(NamedTuple):
    """One client's."""

    original: UInt8[np.ndarray, "images channels height width"]
    shown: UInt8[np.ndarray, "images channels height width"]


def pairs(transcript: Transcript, clients: Sequence[str], most: int) -> tuple[Pair, ...]:
    """The first images of each client, of the first round in which it was handed items.

    Args:
        transcript: of the federation.
        clients: whose.
        most: images a client.

    Raises:
        SpecError: a client was handed no images, or the originals are not in the transcript.
        StoreError: what is there is no pair of images.
    """
    return tuple(_pair(transcript, client, most) for client in clients)


def _pair(transcript: Transcript, client: str, most: int) -> Pair:
    empty: Tensors = {}
    rounds = (played for played in transcript.rounds if client in played.clients)
    told = next((played.handed[client] for played in rounds if client in played.handed), empty)
    if missing := [name for name in NAMES if name not in told]:
        raise SpecError(
            f"expected images that client {client!r} was handed, the transcript has no "
            f"{' and no '.join(missing)}: record them, or ask for none"
        )
    original, shown = (told[name] for name in NAMES)
    types = {original.dtype, shown.dtype}
    if original.shape != shown.shape or original.ndim != 4 or types != {np.dtype(np.uint8)}:
        raise StoreError(
            f"expected images of 8 bits with their originals for client {client!r}, got "
            f"{shown.dtype} of shape {shown.shape} and {original.dtype} of shape "
            f"{original.shape}: restore the transcript"
        )
    return Pair(original[:most], shown[:most])
