"""What Decaf's tables share: users, attacks, columns, and what differs from the paper."""

from collections.abc import Mapping, Sequence
from typing import Any

from divulge.experiments.table import Kind, Row, Size, Table

TEN = (
    (12, 12, 12, 12, 12, 12, 12, 12, 12, 12),
    (8, 12, 10, 9, 16, 19, 7, 12, 15, 12),
    (18, 19, 9, 6, 18, 15, 16, 8, 5, 6),
    (16, 4, 3, 22, 12, 16, 7, 2, 10, 28),
    (6, 22, 0, 10, 12, 15, 30, 10, 8, 7),
    (8, 13, 18, 6, 20, 0, 15, 10, 30, 0),
    (20, 9, 16, 0, 9, 30, 0, 0, 32, 4),
    (0, 0, 40, 6, 0, 0, 32, 4, 0, 38),
    (0, 0, 0, 50, 0, 10, 0, 0, 0, 60),
    (0, 0, 0, 0, 0, 0, 0, 120, 0, 0),
)
"""Mixes of the users of tables III, IV, XIV and XV, in parts of 120."""

COLUMNS = ("L1", "L2", "L∞", "null classes right")
LARGEST = {"L1": 2.0, "L2": 2**0.5}
"""Of distances between two sets of shares."""
KINDS: Mapping[str, Kind] = dict.fromkeys(("L1", "L2", "L∞"), "normal")
UNITS = "users"
"""Their class shares are the same in every seed; records and training differ."""
MNIST = dict(zip(COLUMNS, (0.1849, 0.0790, 0.0510, 1.0), strict=True))
"""The paper's means over the users of table III."""

ROUNDS: Mapping[Size, int] = {"small": 4, "medium": 2, "full": 2}
"""Which one is attacked, from 0; with half the records a round, so many more."""
RATES = {"adadelta": 1.0, "sgd": 0.1}
PUBLISHED = {"name": "decaf", "faithful": True}
BEST = {"name": "decaf", "level": "refined"}
BRIEF = BEST | {"clients": 60}
FEWER = "a quarter of the default number of virtual clients"
"""What differs where `BRIEF` is measured."""
UNIFORM = {"name": "label-counts", "method": "uniform"}
ATTACKS: Mapping[str, Mapping[str, Any]] = {
    "the paper's method": PUBLISHED,
    "divulge, refined": BEST,
    "divulge, biases": {"name": "decaf", "level": "bias"},
    "uniform over detected classes": UNIFORM,
    "iLRG": {"name": "label-counts", "method": "ilrg"},
    "random guess": {"name": "label-counts", "method": "random"},
}

_SIZES = {
    "small": "images averaged to about a quarter of their pixels, a smaller network whose first "
    "convolution has a stride, at most 600 records a user and so the fifth round for the third",
    "medium": "whole images, the paper's kinds of layers with channels of ours, the third round",
    "full": "whole images, the paper's kinds of layers with channels of ours, the third round",
}
_OPEN = (
    "pixels are from 0 to 1, of which the paper says nothing; optimiser settings that it leaves "
    "open are PyTorch's defaults, with batches of 64 and one local epoch"
)


def differs(seeds: Mapping[Size, int], *more: str) -> dict[Size, str]:
    """What every table of Decaf has to say of itself, and then this."""
    said = {
        size: f"{text}; seeds: {seeds[size]}; one round alone is attacked; {_OPEN}"  # type: ignore[index]
        for size, text in _SIZES.items()
    }
    return {size: "; ".join((text, *more)) + "." for size, text in said.items()}  # type: ignore[misc]


def users_table(
    number: str,
    who: str,
    published: Sequence[float],
    *more: str,
    extra: Mapping[str, Mapping[str, Any]] | None = None,
    minutes: int = 2,
    **federation: Any,
) -> Table:
    """Every attack on the users of one data set, under the paper's optimiser and plain SGD.

    Args:
        number: of the table.
        who: is attacked.
        published: the paper's mean L1, L2 and L∞ over users; its null classes are all right.
        more: what differs beside what always does.
        extra: rows more, by name what they change.
        minutes: at size small.
        federation: see `divulge.experiments.decaf_users.Setting`.
    """
    paper = dict(zip(COLUMNS, (*published, 1.0), strict=True))
    rows = [
        Row(
            f"{name}, {optimiser}",
            {"attack": attack, "optimiser": optimiser, **federation},
            paper if (optimiser, name) == ("adadelta", "the paper's method") else {},
        )
        for optimiser in RATES
        for name, attack in ATTACKS.items()
        if (optimiser, name) != ("adadelta", "divulge, biases")  # sgd's alone
    ]
    rows += [
        Row(name, {"optimiser": "adadelta", **federation, **settings})
        for name, settings in (extra or {}).items()
    ]
    seeds: dict[Size, int] = {"small": 2, "medium": 3, "full": 5}
    return Table(
        title=f"Decaf: class shares of {who}",
        source=f"Dai et al. 2024, table {number}",
        columns=COLUMNS,
        largest=LARGEST,
        rows=tuple(rows),
        work="divulge.experiments.decaf_users:measured",
        units=UNITS,
        kinds=KINDS,
        pairs=tuple(
            (f"{name}, {optimiser}", f"the paper's method, {optimiser}")
            for optimiser in RATES
            for name in ("divulge, refined", "uniform over detected classes")
        ),
        seeds=seeds,
        minutes={"small": minutes, "medium": 200, "full": 500},
        differs=differs(seeds, *more),
    )
