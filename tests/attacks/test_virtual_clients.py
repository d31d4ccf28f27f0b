"""Sketches of updates against what they stand for."""

import numpy as np
import pytest

from divulge.attacks.composition.decaf import regression, shadow_clients
from divulge.core import Records


@pytest.mark.parametrize("size", [513, 1024, 20_000])
def test_sketches_keep_squared_distances_within_what_is_stated(size: int) -> None:
    rng = np.random.default_rng(size)
    pairs = rng.normal(size=(40, 2, size)) * rng.exponential(size=size)
    sketch = shadow_clients._sketch
    found = [((sketch(one) - sketch(other)) ** 2).sum() for one, other in pairs]
    exact = ((pairs[:, 0] - pairs[:, 1]) ** 2).sum(axis=1)
    # a sketch of w numbers errs by at most sqrt(2 / w) of a squared distance, in one deviation
    off = np.array(found) / exact - 1
    assert np.sqrt((off**2).mean()) < 1.5 * (2 / 512) ** 0.5
    assert len(sketch(pairs[0, 0])) == 512


def test_narrow_tensors_are_kept_as_they_are() -> None:
    numbers = np.arange(512.0)
    np.testing.assert_array_equal(shadow_clients._sketch(numbers), numbers)


def test_each_kind_counts_alike_and_what_never_changes_not_at_all() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), 60)
    one, other = shares + rng.normal(0, 0.01, shares.shape), rng.normal(size=(60, 2))
    kinds, victims = (one, other), (one[:5] + 0.001, other[:5])
    plain = regression.fit_shares(kinds, shares, victims)
    scaled = regression.fit_shares(
        (one, 1000 * other, np.ones((60, 4))),
        shares,
        (victims[0], 1000 * victims[1], np.zeros((5, 4))),
    )
    np.testing.assert_allclose(scaled.guess, plain.guess, atol=1e-6)


def test_clients_left_out_are_guessed_as_if_they_had_never_been_there() -> None:
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(3), 30)
    shown = (shares + rng.normal(0, 0.02, shares.shape),)
    squares, _ = regression._distances(shown, shown)
    fit = regression.fit_shares(shown, shares, shown)
    middle, mean = squares.mean(), shares.mean(axis=0)
    errors = []
    for width in regression._WIDTHS:
        kernel = np.exp(-0.5 * squares / (width**2 * middle))
        for ridge in regression._RIDGES:
            guesses = np.empty_like(shares)
            for k in range(30):
                rest = np.arange(30) != k
                system = kernel[np.ix_(rest, rest)] + ridge * np.eye(29)
                dual = np.linalg.solve(system, shares[rest] - mean)
                guesses[k] = mean + kernel[k, rest] @ dual
            errors.append(((guesses - shares) ** 2).mean())
            if np.isclose(errors[-1], fit.error, rtol=1e-3):
                np.testing.assert_allclose(fit.left_out, guesses, atol=1e-3)
    assert min(errors) == pytest.approx(fit.error, rel=1e-3)


def test_mixes_of_all_kinds_are_drawn_and_records_are_of_their_classes() -> None:
    y = np.repeat(np.arange(4), [30, 20, 25, 25])
    pool = Records(np.arange(100.0)[:, None], y)
    drawn = shadow_clients.draw_shadow_clients(pool, [40, 61], 300, np.random.default_rng(0))
    assert set(drawn.counts.sum(axis=1)) == {40, 61}
    for counts, rows in zip(drawn.counts, drawn.rows, strict=True):
        np.testing.assert_array_equal(np.bincount(y[rows], minlength=4), counts)
    every = np.arange(0, 300, shadow_clients.EVEN)
    np.testing.assert_array_equal(np.flatnonzero(drawn.even), every)
    even, uneven = drawn.counts[drawn.even], drawn.counts[~drawn.even]
    assert (np.ptp(even, axis=1) <= 1).all()
    assert set((uneven > 0).sum(axis=1)) == {1, 2, 3, 4}
    np.testing.assert_allclose(drawn.shares.sum(axis=1), 1)
    np.testing.assert_array_equal(drawn.presence, drawn.counts > 0)
    np.testing.assert_array_equal(
        drawn.rare, [[0 < n < c.sum() / 4 for n in c] for c in drawn.counts]
    )


def test_mixes_near_the_guesses_are_drawn_in_turn_and_absent_classes_come_back_rarely() -> None:
    y = np.repeat(np.arange(4), 50)
    pool = Records(np.arange(200.0)[:, None], y)
    guesses = np.array([[0.5, 0.5, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    drawn = shadow_clients.draw_near_guesses(pool, [100], guesses, 400, np.random.default_rng(0))
    assert not drawn.even.any()
    for first, guess in enumerate(guesses):
        # shares of a Dirichlet of total 40, and of 100 records: a deviation of .1 at most each
        off = drawn.shares[first::2].mean(axis=0) - guess
        assert np.abs(off).max() < 4 * 0.1 / 200**0.5
    # one in five is drawn as if it had 2 %: less than an even share, and not in most clients
    back = drawn.presence[::2, 2:]
    assert 0.02 < back.mean() < 0.2


def test_rounds_count_by_the_inverse_of_their_error() -> None:
    def fit(error: float, share: float) -> regression.RegressionFit:
        both = np.array([[share, 1 - share]])
        return regression.RegressionFit(guess=both, left_out=both, error=error)

    guess, others = regression.combine_fits([fit(0.1, 1.0), fit(0.3, 0.0)], [0, 0])
    np.testing.assert_allclose(guess, [0.75, 0.25])
    np.testing.assert_allclose(others, [[0.75, 0.25]])
