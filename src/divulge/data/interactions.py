"""Read which users interacted with which items: MovieLens-100K, Steam-200K, files of pairs.

A file of pairs is the truth of an audit of interactions. A synthetic log stands in for real ones.
"""

import csv
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Int

from divulge.data import lines
from divulge.errors import DataError

HEADER = "client,item"

ITEM_LIMIT = 2**31
"""A number above every number of an item."""


ItemsByClient = Mapping[str, Int[np.ndarray, " items"]]
"""The sorted numbers of the items that each client interacted with, by client."""


def read_interactions(path: Path) -> ItemsByClient:
    """The pairs in a CSV file of two columns, ``client`` and ``item``, perhaps with ``.xz``.

    Raises:
        DataError: the file is missing or damaged, or a line is no such pair.
    """
    pairs: dict[str, set[int]] = {}
    for number, text in lines.read_lines(path):
        if number == 1:
            if text.removeprefix("\ufeff") != HEADER:
                raise DataError(f"expected {HEADER!r} as the first line of {path}, got another one")
            continue
        client, _, item = text.partition(",")
        whole = item.isascii() and item.isdigit() and len(item) <= len(str(ITEM_LIMIT))
        if not client or not whole or int(item) >= ITEM_LIMIT:
            raise DataError(
                f"expected a client and the number of an item in {path}, got something else in "
                f"line {number}"
            )
        pairs.setdefault(client, set()).add(int(item))
    return {client: np.array(sorted(items), np.int64) for client, items in pairs.items()}


def write_interactions(path: Path, acted: ItemsByClient) -> None:
    """Write pairs to a CSV file that `read_interactions` can read."""
    pairs = [f"{client},{item}" for client, items in acted.items() for item in items]
    path.write_text("\n".join([HEADER, *pairs, ""]), encoding="utf-8")


@dataclass(frozen=True)
class InteractionLog:
    """Pairs of a user and an item, each once; users and items are numbered from 0.

    Raises:
        DataError: there is no pair, or a number is out of range.
    """

    user: Int[np.ndarray, " pairs"]
    item: Int[np.ndarray, " pairs"]
    users: int
    items: int

    def __post_init__(self) -> None:
        for name, count in (("user", self.users), ("item", self.items)):
            numbers = getattr(self, name)
            if not len(numbers) or numbers.min() < 0 or numbers.max() >= count:
                raise DataError(
                    f"expected {name} numbers from 0 to {count - 1}, got others or none: number "
                    "them in order"
                )

    @cached_property
    def of_each(self) -> list[Int[np.ndarray, "_"]]:
        """The items of each user, sorted."""
        order = np.lexsort((self.item, self.user))
        ends = np.cumsum(np.bincount(self.user, minlength=self.users))
        return np.split(self.item[order], ends[:-1])


def movielens_100k(path: Path) -> InteractionLog:
    """Ratings of films, whatever the rating was.

    Args:
        path: ``u.data``, perhaps with ``.xz``: user, item, rating and time, separated by tabs.

    Raises:
        DataError: it cannot be read, or a row is of another kind.

    References:
        Harper and Konstan (2015), The MovieLens datasets: history and context.
    """
    pairs = []
    for number, text in lines.read_lines(path):
        fields = text.split("\t")
        if len(fields) != 4 or not all(field.isascii() and field.isdigit() for field in fields):
            raise _line_error(path, number, "four whole numbers separated by tabs")
        pairs.append((int(fields[0]), int(fields[1])))
    return _number_pairs(pairs, path)


def steam_200k(path: Path) -> InteractionLog:
    """Games bought or played on Steam, joined for each user and game.

    Args:
        path: ``steam-200k.csv``, perhaps with ``.xz``: user, game, ``purchase`` or ``play``,
            hours, and a constant.

    Raises:
        DataError: it cannot be read, or a row is of another kind.

    References:
        Tamber (2017), Steam video games.
    """
    pairs = []
    for number, text in lines.read_lines(path):
        try:
            fields = next(csv.reader([text]))
        except csv.Error:  # such as a carriage return within
            fields = []
        if (
            len(fields) != 5
            or not (fields[0].isascii() and fields[0].isdigit())
            or fields[2] not in ("purchase", "play")
        ):
            raise _line_error(path, number, "user, game, purchase or play, hours, 0")
        pairs.append((fields[0], fields[1]))
    return _number_pairs(pairs, path)


def synthetic_interactions(
    users: int, items: int, rng: np.random.Generator, mean: float = 10.0
) -> InteractionLog:
    """SYNTHETIC pairs: a few popular items, many rare ones, 1 to items / 4 of them a user.

    Args:
        users: how many users there are.
        items: how many items there are, 8 or more, so that every user leaves some alone.
        rng: the generator of all draws.
        mean: the approximate mean number of items that a user interacts with.
    """
    popularity = 1 / np.arange(1, items + 1)
    counts = np.clip(rng.geometric(1 / mean, users), 1, items // 4)
    chosen = [rng.choice(items, n, replace=False, p=popularity / popularity.sum()) for n in counts]
    return InteractionLog(np.repeat(np.arange(users), counts), np.concatenate(chosen), users, items)


def _number_pairs(pairs: Iterable[tuple[Hashable, Hashable]], path: Path) -> InteractionLog:
    """Each pair once; users and items numbered as they first occur."""
    users: dict[Hashable, int] = {}
    items: dict[Hashable, int] = {}
    once = {
        (users.setdefault(user, len(users)), items.setdefault(item, len(items)))
        for user, item in pairs
    }
    if not once:
        raise DataError(f"expected pairs of user and item in {path}, got none: check the file")
    user, item = np.array(sorted(once), np.int64).T
    return InteractionLog(user, item, len(users), len(items))


def _line_error(path: Path, number: int, wanted: str) -> DataError:
    return DataError(f"expected {wanted} in {path}, got something else in line {number}")
