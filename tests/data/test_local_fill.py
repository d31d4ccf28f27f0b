"""Filling in from what is near, and the choice of a fill by the attacker's own records."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.covariance import ledoit_wolf

from divulge._util.random import stream
from divulge.core import Records
from divulge.data import fill_choice, imputation, known_features, local_imputation, partial_records
from divulge.data.known_features import Fill, KnownFeatures
from divulge.errors import DataError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def images(count: int, seed: int, shape: tuple[int, ...] = (2, 12, 12)) -> Records:
    """Smooth images: neighbours in space are alike, as are the two channels."""
    random = rng(seed)
    noise = random.normal(size=(count, *shape))
    smooth = gaussian_filter(noise, (0, 0, *(1.5,) * (len(shape) - 1)))
    smooth[:, 1:] += smooth[:, :1]
    return Records(smooth.astype(np.float32), random.integers(0, 2, count))


def error(fill: Fill, whole: Records, known: np.ndarray, own: Records) -> float:
    (seen,) = imputation.impute(whole, known, own, fill, rng())
    return float(np.mean((seen.x - whole.x)[~known] ** 2))


def test_in_images_the_window_beats_fills_that_do_not_know_what_is_near() -> None:
    whole, own = images(40, 0), images(80, 1)
    known = known_features.random_mask(whole.x.shape, 0.6, rng(2))
    errors = {fill: error(fill, whole, known, own) for fill in fill_choice.FILLS}
    assert min(errors, key=lambda fill: errors[fill]) == "local"
    # neighbours of a pixel are alike here: most of the variance is known from them
    assert errors["local"] < 0.25 * errors["neighbours"]


def test_one_window_over_all_is_the_conditional_mean() -> None:
    """A run of features no longer than a window: the textbook formula, a record at a time."""
    mix = rng(9).normal(size=(8, 8))
    own, whole = (
        Records(rng(s).normal(size=(n, 8)) @ mix, np.zeros(n, int)) for s, n in ((1, 300), (2, 9))
    )
    known = known_features.random_mask(whole.x.shape, 0.5, rng(3))
    (seen,) = imputation.impute(whole, known, own, "local", rng())
    centre = own.x.mean(axis=0)
    s, _ = ledoit_wolf(own.x - centre, assume_centered=True)
    for row, x, k in zip(seen.x, whole.x, known, strict=True):
        slow = centre + s[:, k] @ np.linalg.inv(s[k][:, k]) @ (x[k] - centre[k])
        inside = np.clip(slow, own.x.min(axis=0), own.x.max(axis=0))
        np.testing.assert_allclose(row[~k], inside[~k], rtol=1e-3, atol=1e-3)


def test_draws_in_one_window_have_the_conditional_distribution() -> None:
    """Against the textbook formula, at five standard errors of 4,000 draws."""
    mix = rng(9).normal(size=(8, 8))
    own, (x,) = (rng(s).normal(size=(n, 8)) @ mix for s, n in ((1, 300), (2, 1)))
    known = np.arange(8) % 2 == 0
    draws = local_imputation.impute_local(
        x.reshape(1, 1, 8), known.reshape(1, 1, 8), own.reshape(-1, 1, 8), rng(), 4_000
    ).reshape(4_000, 8)
    np.testing.assert_array_equal(draws[:, known], np.tile(x[known], (4_000, 1)))
    s, _ = ledoit_wolf(own, assume_centered=True)
    regression = s[~known][:, known] @ np.linalg.inv(s[known][:, known])
    spread = s[~known][:, ~known] - regression @ s[known][:, ~known]
    errors = np.sqrt(np.diag(spread) / 4_000)
    assert (np.abs(draws[:, ~known].mean(axis=0) - regression @ x[known]) < 5 * errors).all()
    # the variance of an empirical covariance of Gaussian values
    variance = (np.outer(np.diag(spread), np.diag(spread)) + spread**2) / 4_000
    found = np.cov(draws[:, ~known].T)
    assert (np.abs(found - spread) < 5 * np.sqrt(variance)).all()


def test_draws_have_no_seams_between_blocks() -> None:
    """A random walk back to 0: steps across the borders of blocks are as small as others."""
    own, x = (np.zeros((n, 1, 64)) for n in (400, 30))
    for part, seed in ((own, 1), (x, 2)):
        noise = rng(seed).normal(size=part.shape)
        for k in range(1, 64):
            part[..., k] = 0.95 * part[..., k - 1] + noise[..., k]
    known = np.broadcast_to(np.arange(64) < 8, x.shape)
    draws = local_imputation.impute_local(x, known, own, rng(), 20)
    steps = np.diff(draws, axis=-1)[..., 8:].std(axis=(0, 1, 2))
    borders = np.arange(16, 64, 16) - 9
    # 600 steps each, whose deviation is known to 3 %, and a covariance of 400 records, to 4 %
    assert (np.abs(steps[borders] / steps.mean() - 1) < 5 * np.hypot(0.03, 0.04)).all()
    assert len(np.unique(draws[:, 0, 0, -1])) == 20


@pytest.mark.parametrize("places", [(5,), (40,), (3, 4), (9, 7), (4, 5, 3)])
def test_blocks_cover_each_place_once_within_windows(places: tuple[int, ...]) -> None:
    side, margin = local_imputation._BLOCKS[len(places)]
    counts = np.zeros(places, int)
    for block in local_imputation._blocks(places, side, margin):
        counts[block.inner] += 1
        for size, inner, window in zip(places, block.inner, block.window, strict=True):
            assert 0 <= window.start <= inner.start < inner.stop <= window.stop <= size
    assert (counts == 1).all()


@pytest.mark.parametrize("shape", [(20,), (2, 9), (3, 6, 5), (1, 4, 4, 4)])
def test_records_of_every_number_of_axes_are_filled_in(shape: tuple[int, ...]) -> None:
    whole, own = (Records(rng(s).normal(size=(30, *shape)), np.zeros(30, int)) for s in (0, 1))
    known = known_features.random_mask(whole.x.shape, 0.5, rng(2))
    (seen,) = imputation.impute(whole, known, own, "local", rng())
    assert np.isfinite(seen.x).all()
    np.testing.assert_array_equal(seen.x[known], whole.x[known])
    assert (seen.x[~known] != 0).all()


def test_a_grid_makes_flat_records_images() -> None:
    whole, own = images(20, 0), images(60, 1)
    known = known_features.random_mask(whole.x.shape, 0.6, rng(2))
    flat, flat_own = (Records(part.x.reshape(len(part), -1), part.y) for part in (whole, own))
    (as_images,) = imputation.impute(whole, known, own, "local", rng())
    (as_flat,) = imputation.impute(
        flat, known.reshape(20, -1), flat_own, "local", rng(), grid=(2, 12, 12)
    )
    np.testing.assert_array_equal(as_flat.x, as_images.x.reshape(20, -1))


def chosen(own: Records, known: KnownFeatures, count: int = 1) -> Fill:
    return fill_choice.choose_fill(own, lambda shape, r: known.mask(shape, (), r), count=count)


def test_the_own_records_choose_the_window_for_images_and_not_for_shuffled_columns() -> None:
    own, known = images(100, 1), KnownFeatures(share=0.4)
    assert chosen(own, known) == "local"
    assert chosen(own, known, count=3) == "local"
    # half of the columns repeat the other half, far away
    half = rng().normal(size=(400, 60))
    table = Records(
        np.hstack([half, half + 0.1 * rng(1).normal(size=half.shape)]), np.zeros(400, int)
    )
    assert chosen(table, known) == "gaussian"
    # a record that one window holds: nothing in it is far away
    few = Records(table.x[:, :30], table.y)
    assert chosen(few, known) != "local"


def test_a_gaussian_that_would_take_hours_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    own, known = images(40, 1), KnownFeatures(share=0.4)
    monkeypatch.setattr(fill_choice, "_MOST_WORK", 0.0)
    mask = known.mask(own.x.shape, (), rng())
    assert "gaussian" not in list(fill_choice._affordable(mask, 1, (2, 12, 12)))
    assert list(fill_choice._affordable(mask, 2, (2, 12, 12))) == ["local", "neighbours"]


def test_work_counts_distinct_masks() -> None:
    one = np.zeros((50, 10), bool)
    one[:, :4] = True
    # one system of 4 unknowns, and a covariance of 10 features
    assert fill_choice._gaussian_work(one) == pytest.approx(4**3 / 3 + 10**3)


def test_the_choice_does_not_depend_on_the_candidates() -> None:
    own, known = images(60, 1), KnownFeatures(share=0.4)
    far = Records(rng(5).normal(size=(30, 2, 12, 12)), np.zeros(30, int))
    for whole in (images(30, 0), far):
        shown = partial_records.hide_and_impute(whole, own, None, known, (), 0)
        by_hand = imputation.impute(
            imputation.hide_unknown(whole, shown.known), shown.known, own, "local",
            stream(0, "filled-in features"),
        )  # fmt: skip
        np.testing.assert_array_equal(shown.candidates[0].x, by_hand[0].x)


def test_the_same_columns_are_hidden_of_all_records() -> None:
    whole, own = images(30, 0, (1, 6, 6)), images(60, 1, (1, 6, 6))
    shown = partial_records.hide_and_impute(
        whole, own, own, KnownFeatures(share=0.5, pattern="columns"), (), 0
    )
    assert shown.pool_known is not None
    assert (shown.known == shown.known[0]).all()
    np.testing.assert_array_equal(shown.pool_known[0], shown.known[0])


def test_without_reference_records_the_message_says_what_to_do() -> None:
    with pytest.raises(DataError, match="at least 10 reference records"):
        partial_records.hide_and_impute(images(5, 0), None, None, KnownFeatures(share=0.5), (), 0)
