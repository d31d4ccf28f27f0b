"""Records dealt out to clients: the counts asked for, none twice, and the limits of Dirichlet."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.core import Records
from divulge.errors import DataError, SpecError
from divulge.federation.partition import dirichlet, equal_sizes, exact, iid
from divulge.training.recipe import RaggedRows

CLASSES = 5


def pool(per_class: int = 200) -> Records:
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(CLASSES), per_class))
    return Records(np.zeros((len(y), 1)), y)


def mixes(records: Records, clients: tuple[RaggedRows, ...]) -> np.ndarray:
    return np.stack([np.bincount(records.y[rows], minlength=CLASSES) for rows in clients])


def distinct(clients: tuple[RaggedRows, ...]) -> bool:
    every = np.concatenate(clients)
    return len(np.unique(every)) == len(every)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=15), st.integers(0, 5))
def test_everybody_gets_its_size_and_nothing_twice(sizes: list[int], seed: int) -> None:
    records = pool()
    for clients in (iid(records, sizes, seed), dirichlet(records, sizes, 0.1, seed)):
        assert [len(rows) for rows in clients] == sizes
        assert distinct(clients)


def test_a_pool_can_be_dealt_out_to_the_last_record() -> None:
    records = pool(20)
    for clients in (iid(records, [50, 50]), dirichlet(records, [50, 50], 0.01)):
        assert sorted(np.concatenate(clients)) == list(range(100))


def test_exact_counts_are_exact() -> None:
    counts = np.array([[3, 0, 5, 0, 1], [0, 200, 0, 0, 0], [7, 0, 7, 7, 7]])
    clients = exact(pool(), counts, seed=3)
    np.testing.assert_array_equal(mixes(pool(), clients), counts)
    assert distinct(clients)


def test_the_seed_decides_and_nothing_else() -> None:
    def drawn(seed: int) -> tuple[RaggedRows, ...]:
        return (*iid(pool(), [9, 9], seed), *dirichlet(pool(), [9, 9], 1.0, seed))

    for one, again, other in zip(drawn(1), drawn(1), drawn(2), strict=True):
        assert np.array_equal(one, again)
        assert not np.array_equal(one, other)


def test_a_large_alpha_gives_the_mix_of_the_pool() -> None:
    y = np.repeat(np.arange(CLASSES), [100, 200, 300, 400, 1000])
    records = Records(np.zeros((len(y), 1)), y)
    shares = mixes(records, dirichlet(records, [200] * 5, 1e6)) / 200
    # five standard deviations of 200 draws from the class with the largest variance, p = .5
    assert np.abs(shares - np.bincount(y) / len(y)).max() < 5 * np.sqrt(0.25 / 200)


def test_a_small_alpha_gives_nearly_one_class() -> None:
    shares = mixes(pool(), dirichlet(pool(), [20] * 8, 1e-3)) / 20
    # with k classes the expected sum of squares is (1 + alpha) / (1 + k alpha), here .996
    assert np.mean((shares**2).sum(axis=1)) > 0.9


def test_the_spread_of_the_mixes_is_that_of_the_distribution() -> None:
    records, alpha, size, clients = pool(40_000), 1.0, 100, 1500
    shares = mixes(records, dirichlet(records, [size] * clients, alpha)) / size
    mean = 1 / CLASSES
    concentration = alpha * CLASSES
    # Dirichlet-multinomial: p (1 - p) (1 / n + (1 - 1 / n) / (1 + concentration))
    expected = mean * (1 - mean) * (1 / size + (1 - 1 / size) / (1 + concentration))
    # the clients' mean squares are independent; four standard errors of their mean
    squares = ((shares - mean) ** 2).mean(axis=1)
    error = squares.std() / np.sqrt(clients)
    assert error < 0.02 * expected
    assert squares.mean() == pytest.approx(expected, abs=4 * error)


def test_what_the_pool_cannot_supply_is_refused() -> None:
    with pytest.raises(DataError, match="201 records of class 2 in the pool, got 200"):
        exact(pool(), np.array([[0, 0, 201, 0, 0]]))
    with pytest.raises(DataError, match="1 records of class 5 in the pool, got 0"):
        exact(pool(), np.array([[0, 0, 0, 0, 0, 1]]))
    with pytest.raises(DataError, match="1001 records in the pool, got 1000"):
        iid(pool(), [1000, 1])
    with pytest.raises(DataError, match="1001 records in the pool, got 1000"):
        dirichlet(pool(), [1001], 1.0)
    with pytest.raises(DataError, match="a record a client"):
        equal_sizes(3, 4)
    assert equal_sizes(4, 4) == [1, 1, 1, 1]


def test_senseless_partitions_are_refused() -> None:
    with pytest.raises(SpecError, match="sizes from 1"):
        iid(pool(), [3, 0])
    with pytest.raises(SpecError, match="alpha above 0"):
        dirichlet(pool(), [3], 0.0)
    with pytest.raises(SpecError, match="for every client"):
        exact(pool(), np.zeros((1, CLASSES), np.int64))
    with pytest.raises(SpecError, match="counts from 0"):
        exact(pool(), np.array([[2, -1, 0, 0, 0]]))
