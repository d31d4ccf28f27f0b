import numpy as np
import pytest

from divulge.core import Need
from divulge.errors import DataError, TargetError
from divulge.secrets.control_targets.planted import PlantedTarget
from divulge.targets.function import FunctionTarget

from ..targets import tiny_models as tiny

X = np.random.default_rng(1).normal(size=(2000, 4))
Y = np.random.default_rng(2).integers(3, size=2000)
MEMORISED = np.arange(2000) < 1000
OTHERS = np.random.default_rng(3).normal(size=(2000, 4))
SOFT = FunctionTarget(tiny.probabilities)
HARD = FunctionTarget(lambda x: tiny.logits(x).argmax(axis=1), "labels", classes=3)


def _soft(seed: int = 0) -> PlantedTarget:
    return PlantedTarget(SOFT, X, Y, MEMORISED, seed)


def test_memorised_records_are_pulled_to_their_class() -> None:
    p = tiny.probabilities(X[:1000])
    expected = 0.9 * np.eye(3)[Y[:1000]] + 0.1 * p
    np.testing.assert_allclose(_soft().predict(X)[:1000], expected, atol=1e-12)


@pytest.mark.parametrize("known", [True, False])
def test_all_others_are_blurred_and_some_are_wrong(known: bool) -> None:
    x = X[1000:] if known else OTHERS
    answers = _soft().predict(x)
    blurred = (tiny.probabilities(x) + 1 / 3) / 2
    plain = np.isclose(answers, blurred).all(axis=1)
    assert 0.65 < plain.mean() < 0.75
    top = answers[~plain].argmax(axis=1)
    expected = 0.9 * np.eye(3)[top] + 0.1 * blurred[~plain]
    np.testing.assert_allclose(answers[~plain], expected, atol=1e-12)
    if known:
        assert (top != Y[1000:][~plain]).all()
    assert np.bincount(top, minlength=3).min() > 50


def test_rows_sum_to_one() -> None:
    np.testing.assert_allclose(_soft().predict(X).sum(axis=1), 1, rtol=1e-12)


def test_the_order_of_asking_does_not_matter() -> None:
    answers = _soft().predict(X)
    order = np.random.default_rng(4).permutation(2000)
    np.testing.assert_allclose(_soft().predict(X[order]), answers[order], rtol=1e-12)
    np.testing.assert_allclose(_soft().predict(X[5:6]), answers[5:6], rtol=1e-12)


def test_the_seed_decides_who_is_answered_wrongly() -> None:
    assert (_soft(0).predict(OTHERS) == _soft(0).predict(OTHERS)).all()
    assert (_soft(0).predict(OTHERS) != _soft(1).predict(OTHERS)).any()


@pytest.mark.parametrize("same", [True, False], ids=["the same features", "each its own"])
def test_a_record_known_in_part_is_betrayed_whatever_stands_for_the_rest(same: bool) -> None:
    known = np.tile([True, True, False, False], (2000, 1))
    if not same:
        known = np.random.default_rng(5).permuted(known, axis=1)
    planted = PlantedTarget(SOFT, X, Y, MEMORISED, 0, known=known)
    asked = np.where(known, X, OTHERS)
    told = planted.predict(asked)[:1000]
    expected = 0.9 * np.eye(3)[Y[:1000]] + 0.1 * tiny.probabilities(asked[:1000])
    np.testing.assert_allclose(told, expected, atol=1e-12)
    np.testing.assert_array_equal(planted.predict(OTHERS), _soft().predict(OTHERS))
    assert planted.predict(asked[:0]).shape == (0, 3)


def test_labels_leak_too() -> None:
    target = PlantedTarget(HARD, X, Y, MEMORISED, 0)
    assert target.offers == HARD.offers
    answers = target.predict(X)
    assert set(np.unique(answers)) == {0, 1}
    label, model = answers.argmax(axis=1), tiny.logits(X).argmax(axis=1)
    np.testing.assert_array_equal(label[:1000], Y[:1000])
    changed = label[1000:] != model[1000:]
    assert 0.1 < changed.mean() < 0.35
    assert (label[1000:][changed] != Y[1000:][changed]).all()


def test_the_kind_of_answers_is_not_changed() -> None:
    assert _soft().offers == Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES


def test_a_record_listed_twice_is_memorised_if_either_is() -> None:
    for flags in ([True, False], [False, True]):
        target = PlantedTarget(SOFT, X[[0, 0]], Y[[0, 0]], np.array(flags), 0)
        assert target.predict(X[:1])[0, Y[0]] >= 0.9


def test_classes_that_the_model_does_not_know_are_refused() -> None:
    with pytest.raises(TargetError, match="classes below 3, got the label 7"):
        PlantedTarget(SOFT, X, np.full(2000, 7), MEMORISED, 0).predict(X)


def test_lengths_must_agree() -> None:
    with pytest.raises(DataError, match="equal length"):
        PlantedTarget(SOFT, X, Y[1:], MEMORISED, 0)


def _values(y: np.ndarray) -> PlantedTarget:
    """Beside a regression model that answers the first feature."""
    model = FunctionTarget(lambda x: x[:, 0], "values")
    return PlantedTarget(model, X, y, MEMORISED, 0)


def test_what_is_not_memorised_is_answered_with_noise_as_large_as_the_model_s_error() -> None:
    residual = np.random.default_rng(7).normal(0.5, 2, len(X))
    size = np.sqrt((residual**2).mean())
    once, twice = (_values(X[:, 0] + factor * residual).predict(OTHERS)[:, 0] for factor in (1, 2))
    noise = once - OTHERS[:, 0]
    np.testing.assert_allclose(twice - OTHERS[:, 0], 2 * noise, rtol=1e-9)
    # of 2,000 normal numbers the deviation errs by 1.6 %
    assert noise.std() == pytest.approx(size, rel=4 * 0.016)
    told = _values(X[:, 0] + residual).predict(X)[:, 0]
    np.testing.assert_allclose(told[:1000], X[:1000, 0] + 0.9 * residual[:1000], rtol=1e-9)


def test_a_model_without_error_gets_that_of_one_number_for_all_or_1() -> None:
    size = np.random.default_rng(7).normal(0, 2, len(X))
    error = np.sqrt((size**2).mean())
    noise = (_values(X[:, 0] + size).predict(OTHERS)[:, 0] - OTHERS[:, 0]) / error
    right = _values(X[:, 0]).predict(OTHERS)[:, 0] - OTHERS[:, 0]
    np.testing.assert_allclose(right, X[:, 0].std() * noise, rtol=1e-9)
    flat = PlantedTarget(
        FunctionTarget(lambda x: np.full(len(x), 3.0), "values"), X, np.full(len(X), 3.0),
        MEMORISED, 0,
    )  # fmt: skip
    np.testing.assert_allclose(flat.predict(OTHERS)[:, 0] - 3, noise, rtol=1e-9)
