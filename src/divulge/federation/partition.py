"""Divide a pool of records among clients, so that no two clients share a record."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int

from divulge._util.arguments import Seed, check_arguments
from divulge._util.random import stream
from divulge.core import Records
from divulge.errors import DataError, SpecError
from divulge.training.recipe import RaggedRows


@check_arguments
def iid(pool: Records, sizes: Sequence[int], seed: Seed = 0) -> tuple[RaggedRows, ...]:
    """Draw random records for each client, whatever their classes.

    Args:
        pool: records to divide.
        sizes: number of records of each client.
        seed: seed of the division.

    Returns:
        The positions of each client's records in the pool, in ascending order.

    Raises:
        SpecError: a size is not above 0.
        DataError: the pool is too small.

    Examples:
        >>> pool = Records(np.zeros((6, 1)), np.array([0, 0, 1, 1, 2, 2]))
        >>> [len(rows) for rows in iid(pool, [1, 3])]
        [1, 3]
    """
    _check_sizes(sizes, len(pool))
    order = stream(seed, "who holds what").permutation(len(pool))
    return tuple(np.sort(part) for part in np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1]))


@check_arguments
def dirichlet(
    pool: Records, sizes: Sequence[int], alpha: float, seed: Seed = 0
) -> tuple[RaggedRows, ...]:
    """Draw a class mix for each client around that of the pool, and records by that mix.

    The mix of a client is drawn from Dirichlet(alpha * classes * shares of the pool): for a large
    alpha it is that of the pool, for a small one nearly a single class. Once a class is used up,
    later clients get the other classes of their mix instead, as in the paper.

    Args:
        pool: records to divide.
        sizes: number of records of each client.
        alpha: concentration above 0; for a balanced pool that of each class.
        seed: seed of the mixes and of the division.

    Raises:
        SpecError: alpha or a size is not above 0.
        DataError: the pool is too small.

    References:
        Hsu, Qi and Brown (2019), Measuring the effects of non-identical data distribution for
        federated visual classification, section 3.1.
    """
    if not 0 < alpha < float("inf"):
        raise SpecError(f"expected alpha above 0, got {alpha}: 0.1 is uneven, 100 nearly even")
    _check_sizes(sizes, len(pool))
    left = np.bincount(pool.y)
    prior = alpha * np.count_nonzero(left) * left / left.sum()
    rng = stream(seed, "class mixes")
    counts = np.zeros((len(sizes), len(left)), np.int64)
    for client, size in enumerate(sizes):
        mix = np.zeros(len(left))
        mix[prior > 0] = rng.dirichlet(prior[prior > 0])
        counts[client] = _draw_counts(mix, size, left, rng)
        left -= counts[client]
    return exact(pool, counts, seed)


@check_arguments
def exact(
    pool: Records, counts: Int[np.ndarray, "clients classes"], seed: Seed = 0
) -> tuple[RaggedRows, ...]:
    """Give each client an exact number of records of each class.

    Args:
        pool: records to divide.
        counts: numbers of records, one row a client, one column a class.
        seed: seed of the division.

    Raises:
        SpecError: a count is negative, or a client gets nothing.
        DataError: the pool has too few records of a class.
    """
    if (counts < 0).any() or not counts.any(axis=1).all():
        raise SpecError("expected counts from 0 and records for every client: change the counts")
    wanted, there = counts.sum(axis=0), np.bincount(pool.y, minlength=counts.shape[1])
    for label, many in enumerate(wanted):
        if many > there[label]:
            raise DataError(
                f"expected {many} records of class {label} in the pool, got {there[label]}: ask "
                "for fewer, or enlarge the pool"
            )
    shares: list[list[RaggedRows]] = [[] for _ in counts]
    for label in range(counts.shape[1]):
        rows = np.flatnonzero(pool.y == label)
        order = stream(seed, "who holds what", label).permutation(rows)
        for share, part in zip(shares, np.split(order, np.cumsum(counts[:, label])), strict=False):
            share.append(part)
    return tuple(np.sort(np.concatenate(share)) for share in shares)


def equal_sizes(records: int, clients: int) -> list[int]:
    """Largest equal size of all clients that a pool allows, one a client.

    Raises:
        DataError: there are more clients than records.
    """
    if records < clients:
        raise DataError(f"expected a record a client, got {records} for {clients}: have fewer")
    return [records // clients] * clients


def _draw_counts(
    mix: Float64[np.ndarray, " classes"],
    size: int,
    left: Int[np.ndarray, " classes"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " classes"]:
    """Draw a client's number of records of each class by its mix, as far as the pool goes."""
    counts = np.zeros(len(mix), np.int64)
    while (missing := size - int(counts.sum())) > 0:
        rest = np.where(left > counts, mix, 0.0)
        if rest.sum() < 1e-12:  # a mix of classes that are all used up
            rest = (left - counts).astype(np.float64)
        counts = np.minimum(counts + rng.multinomial(missing, rest / rest.sum()), left)
    return counts


def _check_sizes(sizes: Sequence[int], records: int) -> None:
    if not sizes or min(sizes) < 1:
        raise SpecError(f"expected sizes from 1, one a client, got {list(sizes)[:10]}")
    if sum(sizes) > records:
        raise DataError(
            f"expected {sum(sizes)} records in the pool, got {records}: make clients smaller, or "
            "have fewer"
        )
