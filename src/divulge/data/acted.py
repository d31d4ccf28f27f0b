"""Who acted on what, as a file of pairs: the truth of an audit of interactions."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Int

from divulge.data import lines
from divulge.errors import DataError

HEADER = "client,item"
LARGEST = 2**31
"""Beyond any number of an item."""

Acted = Mapping[str, Int[np.ndarray, " items"]]
"""By client, the numbers of items, sorted."""


def read(path: Path) -> Acted:
    """The pairs in a CSV file of two columns, ``client`` and ``item``, perhaps with ``.xz``.

    Raises:
        DataError: the file is missing or damaged, or a line is no such pair.
    """
    pairs: dict[str, set[int]] = {}
    for number, text in lines.read(path):
        if number == 1:
            if text.removeprefix("\ufeff") != HEADER:
                raise DataError(f"expected {HEADER!r} as the first line of {path}, got another one")
            continue
        client, _, item = text.partition(",")
        whole = item.isascii() and item.isdigit() and len(item) <= len(str(LARGEST))
        if not client or not whole or int(item) >= LARGEST:
            raise DataError(
                f"expected a client and the number of an item in {path}, got something else in "
                f"line {number}"
            )
        pairs.setdefault(client, set()).add(int(item))
    return {client: np.array(sorted(items), np.int64) for client, items in pairs.items()}


def write(path: Path, acted: Acted) -> None:
    """What `read` reads."""
    pairs = [f"{client},{item}" for client, items in acted.items() for item in items]
    path.write_text("\n".join([HEADER, *pairs, ""]), encoding="utf-8")
