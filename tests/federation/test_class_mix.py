"""What the output biases of one update give away: the shares of the classes."""

import dataclasses

import numpy as np
import pytest

from divulge.attacks.composition.decaf.attack import Decaf
from divulge.attacks.composition.label_counts import LabelCounts
from divulge.core import LocalTraining
from divulge.errors import DataError
from divulge.federation.client_checks.base import Outgoing
from divulge.federation.client_checks.composition import ClassMix, InferredMix
from divulge.federation.output_layer import shares_of_biases

from ..attacks import federations

CLASSES, FEATURES = 10, 20


def trained(
    labels: np.ndarray, lr: float, epochs: int, batch: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """Softmax regression from zero weights, the gradient written out."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(labels), FEATURES)) + 2 * np.eye(CLASSES, FEATURES)[labels]
    weight, bias = np.zeros((CLASSES, FEATURES)), np.zeros(CLASSES)
    for _ in range(epochs):
        for rows in np.split(rng.permutation(len(labels)), range(batch, len(labels), batch)):
            answers = np.exp(x[rows] @ weight.T + bias)
            answers /= answers.sum(axis=1, keepdims=True)
            error = (answers - np.eye(CLASSES)[labels[rows]]) / len(rows)
            weight, bias = weight - lr * error.T @ x[rows], bias - lr * error.sum(axis=0)
    return {"fc.weight": weight, "fc.bias": bias}


def class_mix(change: np.ndarray, step: float) -> np.ndarray:
    """The guess about a model that knows nothing yet."""
    return shares_of_biases(change, step, np.full((len(change), len(change)), 1 / len(change)))


def mix_of(labels: np.ndarray) -> np.ndarray:
    return np.bincount(labels, minlength=CLASSES) / len(labels)


def outgoing(update: dict[str, np.ndarray], records: int | None, how: LocalTraining) -> Outgoing:
    return Outgoing(update, {name: np.zeros_like(v) for name, v in update.items()}, records, how)


def skewed(seed: int, records: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.choice(CLASSES, records, p=rng.dirichlet(np.full(CLASSES, 0.3)))


def test_one_step_from_a_model_that_knows_nothing_gives_away_the_exact_mix() -> None:
    labels = skewed(3)
    bias = trained(labels, lr=0.1, epochs=1, batch=len(labels))["fc.bias"]
    np.testing.assert_allclose(class_mix(bias, 0.1), mix_of(labels), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_several_steps_give_away_more_than_chance_and_which_classes_are_missing(seed: int) -> None:
    labels = skewed(seed)
    bias = trained(labels, lr=0.02, epochs=1, batch=20, seed=seed)["fc.bias"]
    guess, truth = class_mix(bias, 0.02 * 10), mix_of(labels)
    even = np.full(CLASSES, 1 / CLASSES)
    assert np.abs(guess - truth).sum() < np.abs(even - truth).sum() / 2
    assert guess[truth == 0].max(initial=0) < guess[truth > 0.2].min()


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_shares_are_shares_and_no_others_are_nearer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    change = rng.normal(size=6)
    wild = 1 / 6 + change
    shares = class_mix(change, 1.0)
    assert shares.min() >= 0
    assert abs(shares.sum() - 1) < 1e-12  # six additions of numbers up to 1
    others = rng.dirichlet(np.ones(6), 2000)
    assert np.linalg.norm(others - wild, axis=1).min() >= np.linalg.norm(shares - wild)


def test_the_score_is_0_for_equal_shares_1_for_one_class_and_grows_between() -> None:
    how = LocalTraining("sgd", lr=0.01, epochs=1, batch_size=10)

    def score(labels: np.ndarray) -> float:
        update = trained(labels, 0.01, 1, 10)
        return ClassMix()(outgoing(update, len(labels), how))

    even = np.tile(np.arange(CLASSES), 20)
    half = np.where(np.arange(200) % 2 == 0, 3, even)
    assert score(even) < 0.05
    assert score(even) < score(half) < score(np.full(200, 3))
    assert score(np.full(200, 3)) > 0.85  # it learns while it trains, so less than 1


def test_all_records_of_one_class_in_one_step_score_1() -> None:
    labels = np.full(30, 7)
    how = LocalTraining(lr=0.1, batch_size=30)
    update = trained(labels, 0.1, 1, 30)
    assert ClassMix("fc.bias")(outgoing(update, 30, how)) == pytest.approx(1, abs=1e-12)


def test_partial_batches_and_epochs_count_as_steps() -> None:
    update = {"b": np.array([0.06, -0.06])}  # shares of 0.7 and 0.3, far from the edges
    how = LocalTraining(lr=0.1, epochs=2, batch_size=8)
    expected = class_mix(update["b"], 0.1 * 2 * 3)  # 17 records: 8 + 8 + 1
    score = ClassMix()(outgoing(update, 17, how))
    assert score == pytest.approx(float(np.abs(expected - 0.5).sum()), abs=1e-12)


@pytest.mark.parametrize(
    ("update", "records", "how", "says"),
    [
        ({"b": np.ones(3)}, None, LocalTraining(lr=0.1, batch_size=8), "number of records"),
        ({"b": np.ones(3)}, 5, LocalTraining(batch_size=8), "learning rate"),
        ({"b": np.ones(3)}, 5, LocalTraining(lr=0.0, batch_size=8), "above 0"),
        ({"b": np.ones(1)}, 5, LocalTraining(lr=0.1, batch_size=8), "two classes"),
        ({"b": np.full(3, np.nan)}, 5, LocalTraining(lr=0.1, batch_size=8), "finite"),
        ({"w": np.ones((3, 3))}, 5, LocalTraining(lr=0.1, batch_size=8), "output biases"),
    ],
)
def test_what_cannot_be_tested_says_so(
    update: dict[str, np.ndarray], records: int | None, how: LocalTraining, says: str
) -> None:
    with pytest.raises(DataError, match=says):
        ClassMix()(outgoing(update, records, how))


def own_updates() -> list[Outgoing]:
    """Of clients whose model knows something already."""
    seen = federations.played().rounds[1]
    return [
        Outgoing(seen.change(name), seen.sent, got.records, seen.training)
        for name, got in seen.received.items()
    ]


@pytest.mark.parametrize("attack", [Decaf(level="bias"), Decaf(faithful=True)])
def test_a_client_sees_its_own_mix_as_the_server_would(attack: Decaf) -> None:
    test = InferredMix(attack, federations.relu, federations.reference())
    even, _, skewed, single, _ = (test(update) for update in own_updates())
    assert even < 0.2 < skewed < single
    assert single == pytest.approx(1, abs=1e-9)


def test_the_score_is_that_of_the_attacks_guess() -> None:
    update, played = own_updates()[1], federations.played()
    test = InferredMix(LabelCounts("uniform"), federations.relu, federations.reference())
    (view,) = federations.views(played)[1:2]
    share = LabelCounts("uniform")(
        dataclasses.replace(view, rounds=(played.rounds[1],)), np.random.default_rng(0)
    ).share
    assert test(update) == pytest.approx(np.abs(share - 0.25).sum() / 2 / 0.75)


def test_an_attack_that_cannot_run_says_why() -> None:
    update = dataclasses.replace(own_updates()[0], records=None)
    test = InferredMix(Decaf(level="bias"), federations.relu, federations.reference())
    with pytest.raises(DataError, match="number of records"):
        test(update)
