"""Correlations that covariates leave: none of what follows them, all of what does not."""

import numpy as np
import pytest
from scipy import stats

from divulge.metrics.conditional import RIDGE, partial_correlations
from divulge.metrics.permutation import signs_p

UNITS, RECORDS = 30, 40


def drawn(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Labels that follow the first of three covariates, and these."""
    rng = np.random.default_rng(seed)
    covariates = [rng.normal(size=(RECORDS, 3)) for _ in range(UNITS)]
    labels = [one[:, 0] + rng.normal(size=RECORDS) > 0.5 for one in covariates]
    return covariates, labels


def test_labels_that_follow_no_covariate_have_their_own_correlation_with_scores() -> None:
    """With a covariate that is constant, all that is left is the correlation of ranks."""
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=RECORDS) for _ in range(UNITS)]
    labels = [rng.random(RECORDS) < 0.3 for _ in range(UNITS)]
    found = partial_correlations(scores, labels, [np.zeros((RECORDS, 1))] * UNITS)
    want = [
        np.corrcoef(stats.rankdata(one), label)[0, 1] * np.sqrt(RECORDS - 1)
        for one, label in zip(scores, labels, strict=True)
    ]
    np.testing.assert_allclose(found, want, atol=1e-12)


def test_scores_that_follow_a_covariate_keep_nothing_and_those_of_the_truth_keep_it() -> None:
    p_values = []
    for seed in range(30):
        covariates, labels = drawn(seed)
        rng = np.random.default_rng([seed, 1])
        follows = [one[:, 0] + rng.normal(size=RECORDS) for one in covariates]
        p_values.append(signs_p(partial_correlations(follows, labels, covariates), rng))
        told = [one + 2 * label for one, label in zip(follows, labels, strict=True)]
        assert signs_p(partial_correlations(told, labels, covariates), rng) <= 1e-4
    assert np.sum(np.array(p_values) <= 0.05) <= stats.binom.ppf(1 - 1e-4, 30, 0.05)


def test_slopes_are_those_of_all_other_units() -> None:
    covariates, labels = drawn(0)
    rng = np.random.default_rng(3)
    scores = [
        one[:, 0] + label + rng.normal(size=RECORDS)
        for one, label in zip(covariates, labels, strict=True)
    ]

    def in_units(columns: np.ndarray) -> np.ndarray:
        return np.asarray(stats.zscore(columns, axis=0))

    ranks = [in_units(stats.rankdata(one, axis=0)) for one in covariates]
    x = [np.hstack([one, in_units(one**2)]) for one in ranks]
    y = [
        in_units(np.column_stack([stats.rankdata(score), label.astype(float)]))
        for score, label in zip(scores, labels, strict=True)
    ]
    want = []
    for unit in range(UNITS):
        others = [k for k in range(UNITS) if k != unit]
        squares = RIDGE * np.eye(6) + sum(x[k].T @ x[k] for k in others)
        slopes = np.linalg.solve(squares, sum(x[k].T @ y[k] for k in others))
        left = y[unit] - x[unit] @ slopes
        want.append(np.corrcoef(left.T)[0, 1] * np.sqrt(RECORDS - 1))
    np.testing.assert_allclose(partial_correlations(scores, labels, covariates), want, atol=1e-9)


@pytest.mark.slow
def test_units_of_one_taste_each_count_once() -> None:
    """Labels and scores follow a direction of each unit's own: correlated, but in no one way."""
    rng = np.random.default_rng(2)
    p_values = []
    for _ in range(100):
        x = rng.normal(size=(UNITS, RECORDS))
        mine, theirs = rng.choice([-2.0, 2.0], size=(2, UNITS, 1))
        labels = list(mine * x + rng.normal(size=x.shape) > 1)
        scores = list(theirs * x + rng.normal(size=x.shape))
        found = partial_correlations(scores, labels, [np.zeros((RECORDS, 1))] * UNITS)
        assert np.std(found) > 2  # where each record counted, it would be 1
        p_values.append(signs_p(found, rng))
    for level in (0.05, 0.2):
        assert np.sum(np.array(p_values) <= level) <= stats.binom.ppf(1 - 1e-4, 100, level)


@pytest.mark.parametrize("constant", ["scores", "labels"])
def test_a_unit_without_differences_has_nothing(constant: str) -> None:
    rng = np.random.default_rng(3)
    score, label = rng.normal(size=RECORDS), rng.random(RECORDS) < 0.5
    flat = np.zeros(RECORDS) if constant == "scores" else score
    same = np.ones(RECORDS, bool) if constant == "labels" else label
    covariates = [rng.normal(size=(RECORDS, 2))] * 2
    found = partial_correlations([score, flat], [label, same], covariates)
    assert found[0] != 0
    assert found[1] == 0
