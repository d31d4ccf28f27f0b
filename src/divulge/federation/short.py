"""Updates of item tables stored short: the rows of items handed out alone, as all others are 0."""

import numpy as np
from jaxtyping import Int, Shaped

from divulge.core import Round, Tensors
from divulge.errors import StoreError
from divulge.federation.layout import Entry, Header


def shortened(seen: Round, client: str, items: str) -> Tensors:
    """What a client sent, short where nothing is lost by it."""
    tensors, told = seen.received[client].tensors, seen.handed[client]
    if "item" not in told or items not in tensors:
        return tensors
    whole = tensors[items]
    try:
        rows = numbers(told["item"], len(whole), "what a client was handed")
    except StoreError:
        return tensors  # written as it is; whoever reads it is told
    if len(rows) == len(whole) or np.delete(whole, rows, axis=0).any():
        return tensors
    return {**tensors, items: whole[rows]}


def shapes(header: Header, entry: Entry) -> dict[str, tuple[int, ...]]:
    """By name in the file of a round, the shapes that tensors may have besides their own."""
    if header.items is None or header.items not in header.shapes or header.kind == "weights":
        return {}
    _, *width = header.shapes[header.items]
    return {
        f"received/{got.client}/{header.items}": (*entry.handed[got.client]["item"], *width)
        for got in entry.received
        if "item" in entry.handed.get(got.client, {})
    }


def lengthened(
    part: Shaped[np.ndarray, "..."], rows: Shaped[np.ndarray, "..."], shape: tuple[int, ...]
) -> Shaped[np.ndarray, "..."]:
    """The whole of what was stored short.

    Raises:
        StoreError: the rows are not those of items.
    """
    # no larger than what was sent, which is in the same file
    whole = np.zeros(shape, part.dtype)
    whole[numbers(rows, shape[0], "what a client was handed")] = part
    return whole


def numbers(rows: Shaped[np.ndarray, "..."], many: int, where: str) -> Int[np.ndarray, " items"]:
    """Rows of a table of so many items.

    Raises:
        StoreError: they are no numbers, none, not distinct, or out of range.
    """
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows):
        raise StoreError(f"expected numbers of items in {where}, got none: restore it")
    found = rows.astype(np.int64)
    if found.min() < 0 or found.max() >= many or len(np.unique(found)) < len(found):
        raise StoreError(
            f"expected distinct items from 0 to {many - 1} in {where}, got others: restore it"
        )
    return found
