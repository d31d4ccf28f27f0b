from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.core import Records
from divulge.data import imputation, known_features, partial_records
from divulge.data.known_features import Fill, KnownFeatures
from divulge.errors import DataError

FILLS = get_args(Fill)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def draw(count: int, seed: int, features: int = 6) -> Records:
    """Records whose features depend on each other and on their class."""
    random = rng(seed)
    mix = rng(99).normal(size=(features, features))
    y = random.integers(0, 2, count)
    return Records(random.normal(size=(count, features)) @ mix + y[:, None], y)


def mask(records: Records, share: float = 0.5, seed: int = 1) -> np.ndarray:
    return known_features.random_mask(records.x.shape, 1 - share, rng(seed))


@pytest.mark.parametrize("fill", FILLS)
@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_hidden_values_do_not_matter_and_known_ones_stay(
    fill: Fill, seed: int, share: float
) -> None:
    whole, own = draw(8, seed), draw(60, seed + 1)
    known = mask(whole, share, seed)
    other = Records(np.where(known, whole.x, 1e6 * rng(seed).normal(size=whole.x.shape)), whole.y)
    count = 3 if fill in ("gaussian", "neighbours") else 1
    ways = [
        imputation.impute(records, known, own, fill, rng(5), count=count)
        for records in (whole, other)
    ]
    for mine, others in zip(*ways, strict=True):
        np.testing.assert_array_equal(mine.x, others.x)
        np.testing.assert_array_equal(mine.x[known], whole.x[known])
        assert mine.x.dtype == whole.x.dtype


@pytest.mark.parametrize("fill", FILLS)
def test_with_nothing_hidden_nothing_changes(fill: Fill) -> None:
    whole = draw(8, 0)
    (seen,) = imputation.impute(whole, np.ones(whole.x.shape, bool), draw(60, 1), fill, rng())
    np.testing.assert_array_equal(seen.x, whole.x)


def test_the_means_are_those_of_the_class_and_of_all() -> None:
    whole, own = draw(8, 0), draw(60, 1)
    known = mask(whole)
    (of_class,) = imputation.impute(whole, known, own, "mean", rng())
    (of_all,) = imputation.impute(whole, known, own, "global-mean", rng())
    means = np.stack([own.x[own.y == k].mean(axis=0) for k in (0, 1)])
    np.testing.assert_allclose(of_class.x, np.where(known, whole.x, means[whole.y]))
    np.testing.assert_allclose(of_all.x, np.where(known, whole.x, own.x.mean(axis=0)))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_gaussian_fill_is_the_conditional_mean(share: float) -> None:
    """Against the textbook formula, a record at a time."""
    from sklearn.covariance import ledoit_wolf

    whole, own = draw(12, 0), draw(400, 1)
    known = mask(whole, share)
    (seen,) = imputation.impute(whole, known, own, "gaussian", rng())
    means = np.stack([own.x[own.y == k].mean(axis=0) for k in (0, 1)])
    s, _ = ledoit_wolf(own.x - means[own.y], assume_centered=True)
    for row, x, k, y in zip(seen.x, whole.x, known, whole.y, strict=True):
        slow = means[y] + s[:, k] @ np.linalg.inv(s[k][:, k]) @ (x[k] - means[y][k])
        inside = np.clip(slow, own.x.min(axis=0), own.x.max(axis=0))
        np.testing.assert_allclose(row[~k], inside[~k], rtol=1e-3, atol=1e-3)


def test_draws_scatter_round_the_conditional_mean_as_they_should() -> None:
    """Mean and covariance of many draws are those of the conditional Gaussian."""
    from sklearn.covariance import ledoit_wolf

    own, count = draw(4000, 1, 3), 4000
    one = Records(np.zeros((1, 3)), np.array([0]))
    known = np.array([[True, False, False]])
    draws = np.stack([
        way.x[0, 1:] for way in imputation.impute(one, known, own, "gaussian", rng(), count=count)
    ])  # fmt: skip
    means = np.stack([own.x[own.y == k].mean(axis=0) for k in (0, 1)])
    s, _ = ledoit_wolf(own.x - means[own.y], assume_centered=True)
    wanted = s[1:, 1:] - np.outer(s[1:, 0], s[0, 1:]) / s[0, 0]
    mean = means[0, 1:] - s[1:, 0] / s[0, 0] * means[0, 0]
    error = np.sqrt(np.diag(wanted) / count)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * error).all()
    # four relative errors of the variance of Gaussian draws
    rtol = 4 * np.sqrt(2 / count)
    np.testing.assert_allclose(np.diag(np.cov(draws.T)), np.diag(wanted), rtol=rtol)


def test_it_fills_in_better_than_the_mean_does() -> None:
    whole, own = draw(300, 0), draw(600, 1)
    known = mask(whole)
    errors = {
        fill: np.mean((imputation.impute(whole, known, own, fill, rng())[0].x - whole.x) ** 2)
        for fill in FILLS
    }
    assert errors["gaussian"] < errors["neighbours"] < errors["mean"] < errors["zero"]


def test_the_nearest_neighbour_is_nearest_in_what_is_known() -> None:
    """Against a slow search."""
    whole, own = draw(20, 0), draw(50, 1)
    known = mask(whole)
    first, *_ = imputation.impute(whole, known, own, "neighbours", rng(), count=3)
    for row, x, k, y in zip(first.x, whole.x, known, whole.y, strict=True):
        mine = own.x[own.y == y]
        distance = (((mine - x) / own.x.std(axis=0))[:, k] ** 2).sum(axis=1)
        np.testing.assert_allclose(row[~k], mine[distance.argmin()][~k])


def test_a_feature_that_never_varies_tells_no_neighbour_from_another() -> None:
    whole, own = draw(8, 0), draw(40, 1)
    wider = [Records(np.column_stack([part.x, np.full(len(part), 7.0)]), part.y)
             for part in (whole, own)]  # fmt: skip
    known = mask(whole)
    (plain,) = imputation.impute(whole, known, own, "neighbours", rng())
    known = np.column_stack([known, np.arange(8) % 2 == 0])
    (seen,) = imputation.impute(wider[0], known, wider[1], "neighbours", rng())
    np.testing.assert_allclose(seen.x, np.column_stack([plain.x, np.full(8, 7.0)]))


def test_a_class_with_few_own_records_takes_all_of_them_and_the_nearest_of_others() -> None:
    own = draw(30, 1)
    own = Records(own.x, np.where(np.arange(30) < 3, 1, 0))
    whole = Records(draw(4, 0).x, np.ones(4, np.int64))
    known = mask(whole)
    (seen,) = imputation.impute(whole, known, own, "neighbours", rng())
    for row, x, k in zip(seen.x, whole.x, known, strict=True):
        distance = (((own.x - x) / own.x.std(axis=0))[:, k] ** 2).sum(axis=1)
        chosen = np.append(np.arange(3), 3 + distance[3:].argsort()[: imputation.NEIGHBOURS - 3])
        np.testing.assert_allclose(row[~k], own.x[chosen].mean(axis=0)[~k])


def test_one_hot_columns_stay_valid() -> None:
    random = rng()
    own = Records(np.hstack([random.normal(size=(80, 2)), np.eye(3)[random.integers(0, 3, 80)]]),
                  random.integers(0, 2, 80))  # fmt: skip
    whole = own.take(np.arange(30))
    known = mask(whole)
    (seen,) = imputation.impute(
        imputation.hide_unknown(whole, known), known, own, "gaussian", rng(), one_hot=((2, 3, 4),)
    )
    group, fixed = seen.x[:, 2:], known[:, 2:]
    assert set(np.unique(group[~fixed])) <= {0.0, 1.0}
    # all known but the one: known zeros leave it to the hidden column
    assert (group.sum(axis=1)[~fixed.all(axis=1)] == 1).all()


@pytest.mark.parametrize("group", [(0, 1), (1, 2), (2, 3), (2,)])
def test_columns_that_are_no_category_are_not_filled_in_as_one(group: tuple[int, ...]) -> None:
    """One of them would become 1 in each record, whatever they hold."""
    random = rng()
    own = Records(np.hstack([random.normal(size=(80, 2)), np.eye(3)[random.integers(0, 3, 80)]]),
                  random.integers(0, 2, 80))  # fmt: skip
    wanted = f"from number {group[0]} to {group[-1]} of each reference record"
    with pytest.raises(DataError, match=wanted):
        imputation.impute(own, mask(own), own, "mean", rng(), one_hot=((2, 3, 4), group))


def test_whole_numbers_stay_whole() -> None:
    own = Records(rng().integers(0, 9, (40, 3)), np.zeros(40, np.int64))
    known = mask(own)
    (seen,) = imputation.impute(own, known, own, "mean", rng())
    assert seen.x.dtype == own.x.dtype


def test_too_few_records_to_learn_from_are_refused() -> None:
    whole = draw(5, 0)
    for own in (None, draw(9, 1)):
        with pytest.raises(DataError, match="at least 10 reference records"):
            imputation.impute(whole, mask(whole), own, "mean", rng())


def test_no_record_helps_to_fill_itself_in() -> None:
    """A record far from all others is found again by itself alone."""
    own = draw(40, 0)
    x = np.array(own.x)
    x[0] = 1000.0
    (seen,) = imputation.cross_impute(
        Records(x, own.y), np.zeros(x.shape, bool), "neighbours", rng()
    )
    assert (np.abs(seen.x[0]) < 100).all()


def test_the_attackers_own_records_are_seen_as_the_candidates() -> None:
    whole, own, pool = draw(20, 0), draw(60, 1), draw(40, 2)
    known = KnownFeatures(share=0.5, completions=2)
    shown = partial_records.hide_and_impute(whole, own, pool, known, (), 0)
    assert [len(part) for part in (shown.candidates, shown.pool)] == [2, 2]
    assert shown.reference is not None
    changed = shown.reference.x != own.x
    assert (changed.sum(axis=1) == 3).all()
    again = partial_records.hide_and_impute(whole, own, pool, known, (), 0)
    np.testing.assert_array_equal(again.candidates[1].x, shown.candidates[1].x)
    np.testing.assert_array_equal(again.pool[0].x, shown.pool[0].x)  # whoever is looked at first
    assert again.reference is not None
    np.testing.assert_array_equal(again.reference.x, shown.reference.x)
