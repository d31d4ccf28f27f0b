"""One set with fewer digits is noticed, and neither models with few answers nor chance are."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from divulge.checks import precision, question, records
from divulge.core import Check, Records, Verdict

MEMBER = np.arange(400) < 200
MODELS: dict[str, Callable[[int], BaseEstimator]] = {
    "tree": lambda seed: DecisionTreeClassifier(min_samples_leaf=1 + seed % 7, random_state=seed),
    "neighbours": lambda seed: KNeighborsClassifier(1 + seed % 7),
    "weighted neighbours": lambda _: KNeighborsClassifier(5, weights="distance"),
    "forest": lambda seed: RandomForestClassifier((10, 100, 128)[seed % 3], random_state=seed),
    "pruned forest": lambda seed: RandomForestClassifier(20, min_samples_leaf=3, random_state=seed),
    "boosting": lambda seed: GradientBoostingClassifier(n_estimators=60, random_state=seed),
}


def checked(
    answers: np.ndarray, y: np.ndarray, x: np.ndarray | None = None, *, scores: bool = False
) -> Check | None:
    data = Records(np.arange(400)[:, None] if x is None else x, y)
    subject = question.CheckInputs(
        data, MEMBER, None, question.SeenAnswers.of(answers), features=x is not None, scores=scores
    )
    return next(iter(records.check_precision(subject)), None)


@pytest.mark.parametrize("name", MODELS)
def test_models_that_leak_give_both_sets_the_same_digits(name: str) -> None:
    for seed in range(6):
        x, y = make_classification(400, 8, n_informative=4, flip_y=0.2, random_state=seed)
        model = MODELS[name](seed).fit(x[MEMBER], y[MEMBER])
        answers = model.predict_proba(x)
        right = answers[np.arange(400), y]
        assert right[MEMBER].mean() > right[~MEMBER].mean()
        assert checked(answers, y) is None


def test_values_that_a_model_remembers_are_no_rounding() -> None:
    x = np.random.default_rng(0).normal(size=(400, 3))
    y = np.round(x[:, 0] + 5, 1)
    model = KNeighborsRegressor(5, weights="distance").fit(x[MEMBER], y[MEMBER])
    answers = model.predict(x)[:, None]
    assert (answers[MEMBER, 0] == y[MEMBER]).all()
    assert checked(answers, y) is None


@pytest.mark.parametrize("digits", [2, 3, 4])
@pytest.mark.parametrize("kind", ["members", "non-members"])
@pytest.mark.parametrize("normalised", [False, True])
def test_answers_with_fewer_digits_are_noticed(kind: str, digits: int, normalised: bool) -> None:
    answers = np.random.default_rng(0).dirichlet([1, 1, 4], 400)
    coarse = (kind == "members") == MEMBER
    answers[coarse] = answers[coarse].round(digits)
    if normalised:
        answers /= answers.sum(axis=1, keepdims=True)
    check = checked(answers, np.zeros(400, int))
    assert check is not None
    assert check.verdict is Verdict.WARNING
    assert f"all values of the {kind} are multiples of {10.0**-digits:g}, and most" in check.text
    assert checked(
        np.random.default_rng(0).dirichlet([1, 1, 4], 400).round(digits), MEMBER * 1
    ) is (None)


@pytest.mark.parametrize("scores", [False, True])
def test_values_and_scores_with_fewer_digits_are_noticed(scores: bool) -> None:
    rng = np.random.default_rng(0)
    answers, y = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    values = y if scores else rng.normal(size=400)
    assert checked(answers, values, scores=scores) is None
    answers[~MEMBER] = answers[~MEMBER].round(3)
    assert checked(answers, values, scores=scores) is not None


@pytest.mark.parametrize(
    ("coarser", "unit"),
    [
        (lambda v: np.round(v, 2), "multiples of 0.01"),
        (lambda v: 10 * np.round(v / 10), "multiples of 10"),
        (lambda v: v.astype(np.float16), "numbers of type float16"),
        (lambda v: v.astype(np.float32), "numbers of type float32"),
    ],
)
def test_a_column_with_fewer_digits_is_named(
    coarser: Callable[[np.ndarray], np.ndarray], unit: str
) -> None:
    x = np.random.default_rng(0).normal(50, 100, (400, 30))
    assert precision.compare_columns(x, MEMBER) is None
    x[~MEMBER, 7] = coarser(x[~MEMBER, 7])
    found = precision.compare_columns(x, MEMBER)
    assert found is not None
    assert (found.what, found.members, found.unit) == ("column 7", False, unit)
    assert found.p_value < 1e-50
    named = precision.compare_columns(x, MEMBER, [f"c{k}" for k in range(30)])
    assert named is not None
    assert named.what == "c7"


def test_columns_that_differ_in_little_are_not() -> None:
    rng = np.random.default_rng(0)
    few = np.where(MEMBER, rng.integers(0, 5, 400), rng.normal(size=400))
    some = np.where(rng.random(400) < 0.6, rng.integers(0, 50, 400), rng.normal(size=400))
    some[~MEMBER] = rng.integers(0, 50, 200)  # four tenths of the members are not whole
    whole = rng.integers(0, 1000, 400)
    for column in (few, some, whole):
        assert precision.compare_columns(column[:, None].astype(float), MEMBER) is None
    assert precision.compare_columns(rng.normal(size=(400, 5)).round(2), MEMBER) is None
    short = np.arange(30) < 15
    assert (
        precision.compare_columns(np.arange(30.0)[:, None] / np.where(short, 1, 7)[:, None], short)
        is None
    )


@pytest.mark.parametrize("whole", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e5, 1e9])
def test_rounding_of_float32_is_allowed_to_negative_numbers_too(whole: float, size: float) -> None:
    x = np.random.default_rng(0).normal(0, size, (400, 1))
    rounded = (np.round(x * whole) / whole).astype(np.float32).astype(float)
    for column in (x, rounded):
        found = precision._are_multiples(column, whole)
        np.testing.assert_array_equal(precision._are_multiples(-column, whole), found)
        assert precision._are_multiples(-np.abs(column), whole).tolist() == found.tolist()
    assert precision._are_multiples(rounded, whole).all()
    # rounding by 1e-7 of a number decides where it is a twentieth of the step between multiples
    seen = 1e-7 * np.abs(x * whole).max() <= 0.05
    assert precision._are_multiples(x, whole).all() != seen


@pytest.mark.parametrize(("off", "fits"), [(0.0, True), (0.9e-7, True), (1.1e-7, False)])
def test_below_one_step_a_ten_millionth_of_it_is_rounding(off: float, fits: bool) -> None:
    x = np.array([[off], [-off], [1 - off]]) / 100
    assert precision._are_multiples(x, 100.0).ravel().tolist() == [fits] * 3
