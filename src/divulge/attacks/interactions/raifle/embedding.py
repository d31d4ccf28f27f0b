"""The update of item embeddings shows interactions: items acted on move in one direction."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from divulge._util.digest import digest
from divulge.attacks.shared.simulated_user import POSITIVE_SHARE, SimulatedUser, row_names
from divulge.core import JointLearner, Learner, UpdateView
from divulge.errors import NotApplicable

SIMULATIONS = 16
"""Number of simulated trainings of each item. Twice as many add a few thousandths of AUC."""
_SIGN_ITEMS = 32
"""Number of items whose simulated trainings settle the sign of a direction."""
_SIGN_POOL = 1024
"""Number of shown items from which these are drawn."""


class ItemScores(NamedTuple):
    """How each item moved, and what that rests on."""

    score: Float[np.ndarray, " items"]
    how: str


class MovementSignal(NamedTuple):
    """How each item moved along the direction that most of the movements have in common."""

    along: Float[np.ndarray, " items"]
    """Cosine of the movement with that direction: positive where the item was acted on."""
    strength: float
    """Mean square of ``along``: near 1, all movements lie along the direction."""
    direction: Float[np.ndarray, " width"]
    """Unit vector of that direction."""
    noise: float
    """Strength that the main direction of equally many random movements would have."""

    @property
    def clear(self) -> bool:
        """Whether the direction is clearly stronger than that of noise alone."""
        return self.strength > 1.5 * self.noise


def main_direction_signal(moved: Float[np.ndarray, "items width"]) -> MovementSignal:
    """The first right singular direction of the movements' directions, with its sign settled.

    The gradient of the loss in an item's embedding is that of the network, which is much alike for
    all items of a user, times prediction less label: items acted on move one way, the others move
    the other way. Rows are given equal length, so that no item outweighs others. The sign is the
    one for which the directions sum up to less than 0: users act on fewer than half of the items
    that they are handed, which is part of the protocol, as is the share of negatives.

    Items that did not move count as neither.
    """
    direction = _directions(moved)
    # width by width, and not items by items: the same right singular directions
    values, vectors = np.linalg.eigh(direction.T @ direction)
    main = vectors[:, -1]
    along = direction @ main
    if along.sum() > 0:
        along, main = -along, -main
    strength = float(values[-1] / max(values.sum(), 1.0))
    # the edge of the spectrum of noise, as Marchenko and Pastur (1967) have it
    noise = (1 + np.sqrt(moved.shape[1] / len(moved))) ** 2 / moved.shape[1]
    return MovementSignal(along, strength, main, float(noise))


def score_items(views: Sequence[UpdateView], rng: np.random.Generator) -> list[ItemScores]:
    """Score the items of each client by how their rows moved, clients in order.

    What the simulated trainings show is shared by all clients who start from the same network:
    which sign a clear direction has, and, where noise hides directions, the way that acting on an
    item moves it.

    Raises:
        NotApplicable: an update has no row for each item.
    """
    names = [_rows_of(view) for view in views]
    signals = [main_direction_signal(_movements(v, n)) for v, n in zip(views, names, strict=True)]
    scores = [signal.along for signal in signals]
    for group in _group_by_network(views, names):
        first = views[group[0]]
        if first.learner is None:
            continue
        user = SimulatedUser(first.learner, first, names[group[0]])
        if clear := [n for n in group if signals[n].clear]:
            way = common_way(user, [_inputs(views[n]) for n in clear], rng)
            for n in clear:
                # a singular direction has no sign of its own
                scores[n] = np.copysign(1.0, signals[n].direction @ way) * scores[n]
        if noisy := [n for n in group if not signals[n].clear]:
            ways = item_ways(user, [_inputs(views[n]) for n in noisy], rng)
            for n, each in zip(noisy, ways, strict=True):
                scores[n] = (_movements(views[n], names[n]) * _directions(each)).sum(axis=1)
    return [
        ItemScores(score, _describe(name, signal, simulated=view.learner is not None))
        for score, name, signal, view in zip(scores, names, signals, views, strict=True)
    ]


def _rows_of(view: UpdateView) -> str:
    names = row_names(view)
    if not names:
        raise NotApplicable(
            "expected an update with a row for each item handed out, got none of that shape: "
            "choose method='auto'"
        )
    return names[0]


def _movements(view: UpdateView, name: str) -> Float[np.ndarray, "items width"]:
    return view.rounds[0].change(view.victim)[name].astype(np.float64)


def _inputs(view: UpdateView) -> Float[np.ndarray, "items width"]:
    assert view.inputs is not None
    return view.inputs


def _describe(name: str, signal: MovementSignal, *, simulated: bool) -> str:
    how = (
        f"embedding: {name!r} has a row for each item; its main direction holds "
        f"{signal.strength:.0%} of their movement"
    )
    if not simulated:
        return how
    trainings = f"the way that {SIMULATIONS} simulated trainings move items"
    if signal.clear:
        return f"{how}, its sign is that of {trainings} acted on"
    return f"{how}, hardly more than noise, so what counts is {trainings} acted on"


def _group_by_network(views: Sequence[UpdateView], names: Sequence[str]) -> Iterable[list[int]]:
    """Numbers of the clients who start from the same network and train alike."""
    groups: dict[str, list[int]] = {}
    learners: dict[str, Learner] = {}
    for number, (view, name) in enumerate(zip(views, names, strict=True)):
        key, learner = f"client {number}", view.learner
        if isinstance(learner, JointLearner):
            network = [(n, w) for n, w in sorted(view.rounds[0].sent.items()) if n != name]
            same = digest(repr([n for n, _ in network]), *(w for _, w in network))
            if learner.join([learners.setdefault(same, learner), learner]) is not None:
                key = same
        groups.setdefault(key, []).append(number)
    return groups.values()


def common_way(
    user: SimulatedUser, lists: Sequence[Float[np.ndarray, "_ width"]], rng: np.random.Generator
) -> Float[np.ndarray, " width"]:
    """The way that acting on an item moves it in simulated trainings, on average over items.

    Args:
        user: of the network.
        lists: rows of the items that each client was shown; a few of them are trained on.
        rng: draws items, labels and private embeddings.
    """
    pool: list[np.ndarray] = []
    for rows in lists:
        pool.append(rows)
        if sum(map(len, pool)) >= _SIGN_POOL:
            break
    table = np.concatenate(pool)
    table = table[rng.permutation(len(table))[:_SIGN_ITEMS]]
    (ways,) = item_ways(user, [table], rng)
    way: Float[np.ndarray, " width"] = ways.sum(axis=0)
    return way


def item_ways(
    user: SimulatedUser, lists: Sequence[Float[np.ndarray, "_ width"]], rng: np.random.Generator
) -> list[Float[np.ndarray, "_ width"]]:
    """The way that acting on each item moves it in simulated trainings; see `SIMULATIONS`.

    That way is the covariance of an item's movement with its label, over trainings with labels at
    random and a private embedding of its own each: neither is known, so both are averaged over.
    Simulated users are shown as many items as clients are in the median, drawn from all that
    clients were shown; each item is trained on in 16 trainings, however many clients there are.

    Args:
        user: of the network.
        lists: rows of the items that each client was shown.
        rng: draws lists, labels and private embeddings.
    """
    number: dict[bytes, int] = {}
    places = [
        np.array([number.setdefault(row.tobytes(), len(number)) for row in rows]) for rows in lists
    ]
    table = np.empty((len(number), lists[0].shape[1]), lists[0].dtype)
    for place, rows in zip(places, lists, strict=True):
        table[place] = rows
    size = min(int(np.median([len(rows) for rows in lists])), len(table))
    shown = [part for _ in range(SIMULATIONS) for part in _split_table(len(table), size, rng)]
    ways = np.zeros(table.shape)
    for start in range(0, len(shown), SIMULATIONS):
        part = shown[start : start + SIMULATIONS]
        drawn = [(rng.random(size) < POSITIVE_SHARE, user.draw_private(rng)) for _ in part]
        labels, privates = (np.stack(each) for each in zip(*drawn, strict=True))
        movements = user.simulate_movements(labels, privates, table[np.stack(part)])
        for chosen, label, movement in zip(part, labels, movements, strict=True):
            # covariance with centred labels: what all items share, acted on or not, drops out
            ways[chosen] += (label - POSITIVE_SHARE)[:, None] * movement
    return [ways[place] for place in places]


def _split_table(
    items: int, size: int, rng: np.random.Generator
) -> Iterator[Int[np.ndarray, " size"]]:
    """Split items into lists of this size; the last one is filled with items of the first."""
    order = rng.permutation(items) if size < items else np.arange(items)
    for start in range(0, items, size):
        yield np.take(order, range(start, start + size), mode="wrap")


def _directions(rows: Float[np.ndarray, "items width"]) -> Float[np.ndarray, "items width"]:
    """Rows of length 1; those of length 0 stay."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    directions: Float[np.ndarray, "items width"] = rows / np.where(length > 0, length, 1.0)
    return directions
