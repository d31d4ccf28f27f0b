"""Impute the features of a record that an attacker does not know, from records that it owns."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped

from divulge.core import Records
from divulge.data.gaussian_regression import complete_hidden, shrunk_covariance
from divulge.data.known_features import Fill
from divulge.data.local_imputation import as_grid, impute_local
from divulge.errors import DataError

NEIGHBOURS = 5
"""How many nearest records are averaged where one completion is asked for."""

MIN_OWN_RECORDS = 10
"""The fewest own records from which features can be imputed."""

OneHotGroups = tuple[tuple[int, ...], ...]
FlatRecords = Float64[np.ndarray, "records features"]
OwnRecords = Float64[np.ndarray, "own features"]
KnownMask = Bool[np.ndarray, "records features"]


class _ImputationTask(NamedTuple):
    """Records to impute, the own records to impute from, and the number of completions."""

    x: FlatRecords
    known: KnownMask
    y: Int[np.ndarray, " records"]
    own: OwnRecords
    own_y: Int[np.ndarray, " own"]
    ways: int
    grid: tuple[int, ...]
    """Shape of one record: channels first, then places."""


def hide_unknown(records: Records, known: Bool[np.ndarray, "records *features"]) -> Records:
    """The same records with zero where a feature is not known: no hidden value is left."""
    return Records(
        np.where(known, records.x, np.zeros((), records.x.dtype)), records.y, group=records.group
    )


def impute(
    hidden: Records,
    known: Bool[np.ndarray, "records *features"],
    own: Records | None,
    fill: Fill,
    rng: np.random.Generator,
    *,
    count: int = 1,
    one_hot: OneHotGroups = (),
    grid: tuple[int, ...] = (),
) -> tuple[Records, ...]:
    """The records with values where none are known, in several ways.

    ``zero`` fills in zeros, ``mean`` the mean of the own records of the record's class, and
    ``global-mean`` that of all own records.
    ``gaussian`` fills in the conditional mean, given the known features and the class, under class
    means and one covariance of the own records (Ledoit and Wolf's); for several completions, draws
    from that conditional distribution. ``neighbours`` fills in the mean of the 5 nearest own
    records of the class, by known features in units of their spread; for several completions, the
    values of one neighbour each, which are valid values of one record. ``local`` fills in as
    ``gaussian`` does, given the known features near each hidden one, in a window over space, time
    or order (`divulge.data.local_imputation`).

    Values stay within those of the own records. In one-hot groups the largest becomes 1, unless a
    known member of the group is 1 already.

    Args:
        hidden: the records without what is not known, as from `hide_unknown`.
        known: True where a feature is known, in the shape of the features.
        own: records of the same population that the attacker knows whole; not for ``zero``.
        fill: the method, one of the above.
        rng: the generator of all draws.
        count: how many completions to make.
        one_hot: positions, in the flat record, of columns of which exactly one is 1.
        grid: the shape in which features of a record are neighbours, channels first; that of the
            record, unless given.

    Raises:
        DataError: there are too few own records, or they are not one-hot where they should be.
    """
    hidden = hide_unknown(hidden, known)
    if fill == "zero" or known.all():
        return (hidden,) * count
    if own is None or len(own) < MIN_OWN_RECORDS:
        raise DataError(
            f"expected at least {MIN_OWN_RECORDS} reference records to fill in features from, got "
            f'{0 if own is None else len(own)}: give more, or use fill = "zero"'
        )
    x, mask, theirs = (_flatten_records(part) for part in (hidden.x, known, own.x))
    _refuse_no_one_hot(theirs, one_hot)
    shape = as_grid(grid or hidden.x.shape[1:])
    task = _ImputationTask(
        x, mask.astype(np.bool_), hidden.stratum, theirs, own.stratum, count, shape
    )
    fills = _IMPUTERS[fill](task, rng)
    low, high = theirs.min(axis=0), theirs.max(axis=0)
    ways = []
    for values in fills:
        filled = np.where(mask, x, np.clip(values, low, high))
        valid = snap_one_hot(filled, mask.astype(np.bool_), one_hot).reshape(hidden.x.shape)
        ways.append(Records(_cast_back(valid, hidden.x), hidden.y, group=hidden.group))
    return tuple(ways)


def cross_impute(
    records: Records,
    known: Bool[np.ndarray, "records *features"],
    fill: Fill,
    rng: np.random.Generator,
    *,
    count: int = 1,
    one_hot: OneHotGroups = (),
    grid: tuple[int, ...] = (),
) -> tuple[Records, ...]:
    """Records that the attacker knows whole, as they look with features missing.

    Each half is filled in from the other: a record must not help to fill itself in.

    Raises:
        DataError: there are too few.
    """
    half: np.ndarray = np.isin(rng.permutation(len(records)) % 2, 0)
    ways = [np.array(records.x) for _ in range(count)]
    for mine in (half, ~half):
        others = records.take(~mine)
        some = hide_unknown(records.take(mine), known[mine])
        imputations = impute(
            some, known[mine], others, fill, rng, count=count, one_hot=one_hot, grid=grid
        )
        for x, imputed in zip(ways, imputations, strict=True):
            x[mine] = imputed.x
    return tuple(Records(x, records.y, group=records.group) for x in ways)


def snap_one_hot(x: FlatRecords, known: KnownMask, one_hot: OneHotGroups) -> FlatRecords:
    """The records with one-hot groups valid again, where something in them is not known."""
    x = x.copy()
    for group in one_hot:
        values, fixed = x[:, group], known[:, group]
        taken = np.asarray((fixed & (values > 0.5)).any(axis=1))
        best = np.where(fixed, -np.inf, values).argmax(axis=1)
        chosen = np.eye(len(group))[best] * ~taken[:, None]
        x[:, group] = np.where(fixed, values, chosen)
    return x


def _refuse_no_one_hot(own: FlatRecords, one_hot: OneHotGroups) -> None:
    """Refuse groups of columns in which own records do not have exactly one 1 and else 0."""
    for group in one_hot:
        values = own[:, group]
        if not (np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all()):
            raise DataError(
                f"expected a single 1 and else 0 in the {len(group)} columns of one_hot from "
                f"number {group[0]} to {group[-1]} of each reference record, got others: name "
                "columns of one category alone, with a column for each of its values, not scaled"
            )


def _impute_means(task: _ImputationTask, rng: np.random.Generator) -> list[FlatRecords]:
    del rng
    return [_class_means(task.own, task.own_y, task.y)]


def _impute_global_mean(task: _ImputationTask, rng: np.random.Generator) -> list[FlatRecords]:
    del rng
    return [np.broadcast_to(task.own.mean(axis=0), task.x.shape)]


def _impute_gaussian(task: _ImputationTask, rng: np.random.Generator) -> list[FlatRecords]:
    x, known, y, own, own_y, count, _ = task
    centre = _class_means(own, own_y, y)
    covariance = shrunk_covariance(own - _class_means(own, own_y, own_y))
    wrong = np.broadcast_to(x - centre, (count, *x.shape))
    return list(centre + complete_hidden(wrong, known, covariance, rng if count > 1 else None))


def _impute_local(task: _ImputationTask, rng: np.random.Generator) -> list[FlatRecords]:
    x, known, y, own, own_y, count, grid = task
    centre = _class_means(own, own_y, y)
    ways = impute_local(
        np.where(known, x - centre, 0.0).reshape(len(x), *grid),
        known.reshape(len(x), *grid),
        (own - _class_means(own, own_y, own_y)).reshape(len(own), *grid),
        rng,
        count,
    )
    return list(centre + ways.reshape(count, *x.shape))


def _impute_neighbours(task: _ImputationTask, rng: np.random.Generator) -> list[FlatRecords]:
    del rng
    x, known, y, own, own_y, count, _ = task
    spread = own.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    near, here = own / scale, np.where(known, x / scale, 0.0)
    wanted = min(len(own), NEIGHBOURS if count == 1 else count)
    nearest = np.empty((len(x), wanted), np.int64)
    for label in np.unique(y):
        rows, mine = np.flatnonzero(y == label), np.flatnonzero(own_y == label)
        # a class with too few own records takes the rest from others
        theirs = mine if len(mine) >= wanted else np.arange(len(own))
        # Σ over known features of (x - own)², less what is the same for all own records
        distance = known[rows] @ (near[theirs] ** 2).T - 2 * here[rows] @ near[theirs].T
        distance += np.where(own_y[theirs] == label, 0.0, 1 + np.ptp(distance))
        nearest[rows] = theirs[np.argsort(distance, axis=1, kind="stable")[:, :wanted]]
    if count == 1:
        return [own[nearest].mean(axis=1)]
    return [own[nearest[:, k % wanted]] for k in range(count)]


_IMPUTERS: dict[str, Callable[[_ImputationTask, np.random.Generator], list[np.ndarray]]] = {
    "mean": _impute_means,
    "global-mean": _impute_global_mean,
    "gaussian": _impute_gaussian,
    "local": _impute_local,
    "neighbours": _impute_neighbours,
}


def _class_means(
    own: OwnRecords, own_y: Int[np.ndarray, " own"], of: Int[np.ndarray, " records"]
) -> Float64[np.ndarray, "records features"]:
    """The mean of each label's class, looked up; that of all where the class is absent."""
    means = np.tile(own.mean(axis=0), (max(int(own_y.max()), int(of.max(initial=0))) + 1, 1))
    for label in np.unique(own_y):
        means[label] = own[own_y == label].mean(axis=0)
    looked_up: np.ndarray = means[of]
    return looked_up


def _flatten_records(
    x: Shaped[np.ndarray, "records *features"],
) -> Float64[np.ndarray, "records features"]:
    return np.asarray(x.reshape(len(x), -1), dtype=np.float64)


def _cast_back(
    x: Shaped[np.ndarray, "records *features"], like: Shaped[np.ndarray, "records *features"]
) -> Shaped[np.ndarray, "records *features"]:
    """The values in the other array's type, rounded where that knows whole numbers alone."""
    return (x if like.dtype.kind == "f" else np.rint(x)).astype(like.dtype)
