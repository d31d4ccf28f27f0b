"""A model that answers about another candidate."""

import dataclasses

import numpy as np
import pytest

from divulge.attacks.membership.gradient_norm import GradientNorm
from divulge.attacks.membership.mrad.attack import MRAD
from divulge.core import LastLayer, Need, Records
from divulge.data.known_features import KnownFeatures
from divulge.secrets.control_targets.shuffled import ShuffledTarget
from divulge.testing import networks

X = np.arange(12.0)[:, None]
Y = np.arange(12) % 3


class Telling:
    """Puts the record into the probability of class 0, and some of the rest into class 1."""

    offers = Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES | Need.AUTOGRAD

    def predict(self, x: np.ndarray) -> np.ndarray:
        first = x[:, 0] / 100
        return np.column_stack([first, 0.2 * (1 - first), 0.8 * (1 - first)])

    def gradient(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(x * 10.0 + y[:, None])

    def parameter_gradient(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.gradient(x, y)

    def hessian_product(self, x: np.ndarray, y: np.ndarray, vector: np.ndarray) -> np.ndarray:
        return np.asarray(self.gradient(x, y).sum() * vector)

    def last_layer(self, x: np.ndarray) -> LastLayer:
        return LastLayer(np.asarray(x, np.float64), np.ones((3, 1)))


def target(**more: object) -> ShuffledTarget:
    records = Records(X, Y)
    return ShuffledTarget(Telling(), (records,), np.random.default_rng(0), **more)  # type: ignore[arg-type]


def order_of(shuffled: ShuffledTarget) -> np.ndarray:
    return shuffled.last_layer(X).features[:, 0].astype(int)


def test_every_candidate_gets_the_answer_of_one_other() -> None:
    order = order_of(target())
    assert sorted(order.tolist()) == list(range(12))
    assert (order != np.arange(12)).sum() > 6


def test_the_probability_of_the_true_class_stays_one() -> None:
    shuffled = target()
    order, told = order_of(shuffled), Telling().predict(X)
    for asked in (X, X.copy()):
        got = shuffled.predict(asked)
        np.testing.assert_array_equal(got[np.arange(12), Y], told[order, Y[order]])
        np.testing.assert_array_equal(np.sort(got), np.sort(told[order]))
        np.testing.assert_allclose(got.sum(axis=1), 1)


def test_the_order_and_company_of_questions_change_nothing() -> None:
    shuffled = target()
    whole = shuffled.predict(X)
    np.testing.assert_array_equal(shuffled.predict(X[[7, 3]]), whole[[7, 3]])
    joined = np.concatenate([X, X + 0.5])
    np.testing.assert_array_equal(shuffled.predict(joined)[:12], whole)
    np.testing.assert_array_equal(shuffled.predict(joined)[12:], Telling().predict(X + 0.5))


def test_all_ways_of_asking_move_together() -> None:
    ways = (Records(X, Y), Records(X + 0.25, Y))
    shuffled = ShuffledTarget(Telling(), ways, np.random.default_rng(0))
    order = order_of(shuffled)
    np.testing.assert_array_equal(shuffled.last_layer(X + 0.25).features[:, 0], order + 0.25)
    got = shuffled.predict(ways[1].x)[np.arange(12), Y]
    np.testing.assert_array_equal(got, Telling().predict(X + 0.25)[order, Y[order]])


def test_gradients_are_those_of_the_other_record_and_its_class() -> None:
    shuffled = target()
    order = order_of(shuffled)
    got = shuffled.gradient(X, Y)[:, 0]
    np.testing.assert_array_equal(got, order * 10.0 + Y[order])


def test_some_candidates_stay_where_they_are() -> None:
    chosen = np.arange(12) < 6
    order = order_of(target(chosen=chosen))
    assert order[6:].tolist() == list(range(6, 12))
    assert sorted(order[:6].tolist()) == list(range(6))


@pytest.mark.parametrize("same_features", [True, False])
def test_a_partly_known_candidate_is_recognised_by_what_is_known(same_features: bool) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20, 5))
    known = np.tile([True, True, False, False, True], (20, 1))
    if not same_features:
        known = rng.permuted(known, axis=1)
    y = np.arange(20) % 3
    shuffled = ShuffledTarget(Telling(), (Records(x, y),), np.random.default_rng(2), known)
    asked = np.where(known, x, 7.0)
    got = shuffled.last_layer(asked).features
    order = [
        int(np.flatnonzero((x[:, None] == row[known[i]][0]).any(axis=(1, 2)))[0])
        for i, row in enumerate(got)
    ]
    assert sorted(order) == list(range(20))
    assert order != list(range(20))
    np.testing.assert_array_equal(got, np.where(known, x[order], asked))
    strange = np.full((2, 5), 9.0)
    np.testing.assert_array_equal(shuffled.last_layer(strange).features, strange)


@pytest.mark.parametrize(
    "attack",
    [GradientNorm(), MRAD(), MRAD(iterations=3, step=0.1), MRAD(access="answers", directions=5)],
)
def test_attacks_with_partial_knowledge_learn_nothing_of_the_candidate_itself(
    attack: GradientNorm | MRAD,
) -> None:
    """Scores on shuffled answers say where the record that was asked about is in the order."""
    view = networks.challenge(KnownFeatures(share=0.5)).view
    asked: list[np.ndarray] = []

    class Spy:
        offers = view.target.offers

        def predict(self, x: np.ndarray) -> np.ndarray:
            asked.append(x)
            return view.target.predict(x)

        def gradient(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
            asked.append(x)
            return view.target.gradient(x, y)  # type: ignore[attr-defined,no-any-return]

        parameter_gradient = gradient

        def hessian_product(self, x: np.ndarray, y: np.ndarray, v: np.ndarray) -> np.ndarray:
            raise NotImplementedError

        def last_layer(self, x: np.ndarray) -> LastLayer:
            return view.target.last_layer(x)  # type: ignore[attr-defined,no-any-return]

    assert view.known is not None
    shuffled = ShuffledTarget(Spy(), (view.records,), np.random.default_rng(0), view.known)
    attack(dataclasses.replace(view, target=shuffled), np.random.default_rng(0))
    order = shuffled._order  # the permutation is nobody's business but this test's
    records, known = view.records.x, view.known
    for batch in asked:
        rows = batch.reshape(len(records), -1, *records.shape[1:])
        mine = known[:, None]
        # each question agrees with the record that stands for the candidate, never with its own
        same = (rows == records[order][:, None]) | ~mine
        assert same.all()


def test_gradients_and_hessians_by_weights_are_those_of_the_records_that_stand_for_these() -> None:
    shuffled, order = target(), order_of(target())
    found = shuffled.parameter_gradient(X, Y)
    np.testing.assert_array_equal(found, X[order] * 10 + Y[order][:, None])
    product = shuffled.hessian_product(X[:3], Y[:3], np.ones(2))
    np.testing.assert_array_equal(product, found[:3].sum() * np.ones(2))
