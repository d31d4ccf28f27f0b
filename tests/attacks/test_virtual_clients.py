"""Sketches of updates against what they stand for."""

from unittest.mock import Mock

import numpy as np
import pytest

from divulge.attacks.composition.decaf import (
    class_regression,
    regression,
    shadow_clients,
    simulated_round,
    update_features,
)
from divulge.attacks.shared.observed_round import ObservedRound
from divulge.core import Records, Round
from divulge.federation import shares_of_biases
from divulge.training.recipe import Recipe


@pytest.mark.parametrize("size", [513, 1024, 20_000])
def test_sketches_keep_squared_distances_within_what_is_stated(size: int) -> None:
    rng = np.random.default_rng(size)
    pairs = rng.normal(size=(40, 2, size)) * rng.exponential(size=size)
    sketch = update_features._sketch
    found = [((sketch(one) - sketch(other)) ** 2).sum() for one, other in pairs]
    exact = ((pairs[:, 0] - pairs[:, 1]) ** 2).sum(axis=1)
    # a sketch of w numbers errs by at most sqrt(2 / w) of a squared distance, in one deviation
    off = np.array(found) / exact - 1
    assert np.sqrt((off**2).mean()) < 1.5 * (2 / 512) ** 0.5
    assert len(sketch(pairs[0, 0])) == 512


def test_narrow_tensors_are_kept_as_they_are() -> None:
    numbers = np.arange(512.0)
    np.testing.assert_array_equal(update_features._sketch(numbers), numbers)


def test_size_of_a_tensor_does_not_matter_and_one_that_never_changes_tells_the_mean() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), 60)
    told = shares + rng.normal(0, 0.01, shares.shape)
    kinds = (told, 1000 * told, np.ones((60, 4)))
    others = tuple(kind[:5] for kind in kinds)
    found = regression.guess_by_tensor(kinds, shares, others)
    np.testing.assert_allclose(found.guess[..., 1], found.guess[..., 0], atol=1e-6)
    np.testing.assert_allclose(found.guess[..., 2], np.tile(shares.mean(axis=0), (5, 1)), atol=1e-9)


def test_clients_left_out_are_guessed_as_if_they_had_never_been_there() -> None:
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(3), 30)
    seen = shares + rng.normal(0, 0.02, shares.shape)
    found = regression.guess_by_tensor((seen,), shares, (seen,)).left_out[..., 0]
    squares = ((seen[:, None] - seen) ** 2).sum(axis=2)
    errors, same = [], []
    for width in regression._WIDTHS:
        kernel = np.exp(-0.5 * squares / (width**2 * squares.mean()))
        for ridge in regression._RIDGES:
            guesses = np.empty_like(shares)
            for k in range(30):
                rest, mean = np.arange(30) != k, shares.mean(axis=0)
                system = kernel[np.ix_(rest, rest)] + ridge * np.eye(29)
                dual = np.linalg.solve(system, shares[rest] - mean)
                guesses[k] = mean + kernel[k, rest] @ dual
            errors.append(((shares - guesses) ** 2).mean())
            same.append(np.allclose(guesses, found, atol=2e-3))
    assert same[int(np.argmin(errors))]
    assert ((shares - found) ** 2).mean() == pytest.approx(min(errors), rel=1e-3)


def test_guesses_by_tensors_tell_a_regression_for_all_classes_what_class_numbers_do_not() -> None:
    rng = np.random.default_rng(2)
    shares, own = rng.dirichlet(np.ones(3), 60), rng.dirichlet(np.ones(3), 20)
    weights = rng.normal(size=(3, 8))
    tensors = regression.guess_by_tensor((shares @ weights,), shares, (own @ weights,))
    nothing = rng.normal(size=(60, 3, 1)), rng.normal(size=(20, 3, 1))
    (blind,) = class_regression.fit_classes(nothing[0], [shares], nothing[1])
    (fit,) = class_regression.fit_classes(
        np.concatenate([nothing[0], tensors.left_out], axis=2),
        [shares],
        np.concatenate([nothing[1], tensors.guess], axis=2),
    )
    assert np.abs(fit.guess - own).sum(axis=1).mean() < 0.05
    assert np.abs(blind.guess - own).sum(axis=1).mean() > 0.3


def shown_of_classes(shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two numbers a class: one that tells its share, and one that tells nothing."""
    told = shares**2 + rng.normal(0, 0.02, shares.shape)
    return np.stack([told, rng.normal(size=shares.shape)], axis=2)


def test_a_client_left_out_is_guessed_as_if_none_of_its_classes_had_been_there() -> None:
    rng = np.random.default_rng(4)
    shares = rng.dirichlet(np.ones(3), 20)  # 60 rows: all are landmarks
    numbers = shown_of_classes(shares, rng)
    (fit,) = class_regression.fit_classes(numbers, [shares], numbers)
    rows, own = class_regression._standardise(
        *(class_regression._beside_means(numbers) for _ in range(2))
    )
    errors, same = [], []
    for spanned, _ in class_regression._kernels(rows, own):
        kernel = spanned @ spanned.T
        for ridge in class_regression._RIDGES:
            guesses = np.empty(60)
            for k in range(20):
                rest = np.arange(60) // 3 != k
                system = kernel[np.ix_(rest, rest)] + ridge * np.eye(57)
                dual = np.linalg.solve(system, shares.ravel()[rest] - 1 / 3)
                guesses[~rest] = 1 / 3 + kernel[np.ix_(~rest, rest)] @ dual
            left_out = guesses.reshape(20, 3)
            errors.append(float(((shares - left_out) ** 2).mean()))
            same.append(np.allclose(left_out, fit.left_out, atol=1e-6))
    assert fit.error == pytest.approx(min(errors), rel=1e-4)
    assert same[int(np.argmin(errors))]


def test_other_names_of_the_classes_only_move_the_guesses() -> None:
    rng = np.random.default_rng(5)
    shares, own = rng.dirichlet(np.ones(4), 30), rng.dirichlet(np.ones(4), 5)
    numbers, victims = shown_of_classes(shares, rng), shown_of_classes(own, rng)
    (fit,) = class_regression.fit_classes(numbers, [shares], victims)
    turned = [2, 0, 3, 1]
    (moved,) = class_regression.fit_classes(
        numbers[:, turned], [shares[:, turned]], victims[:, turned]
    )
    np.testing.assert_allclose(moved.guess, fit.guess[:, turned], atol=1e-6)


def test_a_class_is_learned_from_all_others() -> None:
    """Class 3 is in no virtual client by more than a tenth; a victim holds nothing else."""
    rng = np.random.default_rng(6)
    shares = rng.dirichlet(np.ones(3), 80)
    shares = np.column_stack([0.95 * shares, np.full(80, 0.05)])
    numbers = shown_of_classes(shares, rng)
    own = np.array([[0.0, 0.1, 0.0, 0.9]])
    told = np.stack([own**2, np.zeros((1, 4))], axis=2)
    (fit,) = class_regression.fit_classes(numbers, [shares], told)
    # the error of one share of a virtual client, left out, is a deviation of this
    assert abs(fit.guess[0, 3] - 0.9) < 4 * fit.error**0.5


def test_what_never_changes_counts_nothing_and_size_and_origin_of_a_number_neither() -> None:
    rng = np.random.default_rng(7)
    shares = rng.dirichlet(np.ones(3), 30)
    numbers = shown_of_classes(shares, rng)
    (plain,) = class_regression.fit_classes(numbers, [shares], numbers[:5])
    scaled = np.concatenate([numbers * [1000.0, 0.01] + [3.0, 0.0], np.ones((30, 3, 1))], axis=2)
    (other,) = class_regression.fit_classes(scaled, [shares], scaled[:5])
    np.testing.assert_allclose(other.guess, plain.guess, atol=1e-6)


def test_features_of_an_update_are_those_that_follow_by_hand() -> None:
    from torch import nn

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(6, 2)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2])
    shapes = {"weight": (3, 2), "bias": (3,)}
    sent, change = (
        {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(2)
    )
    recipe = Recipe(lambda: nn.Linear(2, 3), lr=0.5, epochs=1, batch_size=2)
    stage = ObservedRound(Round(0, "weights", sent, {}), recipe, Records(x, y))
    found = update_features.update_features(stage, stage.observe_change(change, records=4))

    def softmax(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        odds = np.exp(x @ weight.T + bias)
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    before = softmax(sent["weight"], sent["bias"])
    after = softmax(sent["weight"] + change["weight"], sent["bias"] + change["bias"])
    log, own = np.log(after) - np.log(before), [y == k for k in range(3)]
    grew = change["weight"] > 0
    weight = change["weight"] / 0.5 / 2  # two steps of this learning rate
    bias = change["bias"] / 0.5
    middle = np.array([((before + after) / 2)[k].mean(axis=0) for k in own])
    expected = [
        weight.sum(axis=1),
        grew.mean(axis=1),
        grew.any(axis=1),
        np.where(grew, weight, 0).sum(axis=1),
        np.where(grew, 0, weight).sum(axis=1),
        weight.max(axis=1),
        np.abs(weight).max(axis=1),
        np.full(3, np.log(2)),
        log.mean(axis=0),
        [log[own[k], k].mean() for k in range(3)],
        [after[own[k], k].mean() for k in range(3)],
        [np.log(after[own[k], k]).mean() for k in range(3)],
        np.log(after.mean(axis=0)),
        bias / 2,
        shares_of_biases(bias, 2.0, middle),
    ]
    np.testing.assert_allclose(found.classes[0].T, np.array(expected), rtol=1e-4, atol=1e-6)
    for feature, name in zip(found.tensors, shapes, strict=True):
        np.testing.assert_allclose(feature[0], change[name].ravel() / 2, rtol=1e-6)


def test_few_images_are_shifted_and_many_are_left_alone() -> None:
    image = np.zeros((1, 1, 3, 3), np.float32)
    image[0, 0, 1, 1] = 1
    few = shadow_clients.enlarge(Records(image, np.array([0])))
    assert {tuple(x[0].ravel().nonzero()[0]) for x in few.x} == {(k,) for k in range(9)}
    many = Records(np.repeat(image, 5, axis=0), np.zeros(5, np.int64))
    assert shadow_clients.enlarge(many) is many
    table = Records(np.zeros((2, 4)), np.array([0, 1]))
    assert shadow_clients.enlarge(table) is table


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_noise_that_training_cannot_explain_is_measured(noise: float) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 25)
    clients = shadow_clients.draw_shadow_clients(Records(y[:, None] + 0.0, y), [40], 8, rng)
    stage = Mock(spec=ObservedRound)
    stage.without_updates.return_value = Mock(spec=ObservedRound, change_to=lambda state: state)
    changes = [{"w": rng.normal(0, 0.01, 20_000)} for _ in range(8)]
    client_workers = Mock(each=lambda *task: [task[-1](k, one) for k, one in enumerate(changes)])
    own = {"w": rng.normal(0, 0.01, 20_000) + rng.normal(0, 1, 20_000) * noise}
    stage.round = Mock(change=lambda name: {"me": own}[name])
    found = simulated_round.estimate_noise(stage, client_workers, clients, ["me"], 0)
    # the median of 20,000 squares gives a standard deviation that errs by 0.8 %
    assert found == pytest.approx(noise, rel=4 * 0.008)


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
    present = (uneven > 0).sum(axis=1)
    assert set(present) == {1, 2, 3, 4}
    # half of the clients may lack classes, a quarter of those all but one: 31 of 250, standard
    # deviation 5.2; mixes alone leave one class to a client in fifty
    assert (present == 1).sum() >= 31 - 2 * 5.2
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
        both = np.array([[share, 1 - share]] * 2)
        return regression.RegressionFit(guess=both, left_out=both, error=error)

    found = regression.combine_fits([fit(0.1, 1.0), fit(0.3, 0.0)], [0, 0], [1, 1])
    np.testing.assert_allclose(found.guess, [0.75, 0.25])
    np.testing.assert_allclose(found.left_out, [[0.75, 0.25]] * 2)
    np.testing.assert_allclose(found.others, [[0.75, 0.25]])
