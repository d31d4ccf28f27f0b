"""ProjRes against a slow twin, and what it sees under local steps, sums and noise."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest
from torch import nn

from divulge.attacks import catalog
from divulge.core import (
    LocalTraining,
    Records,
    RoundSignals,
    UpdateDefence,
)
from divulge.defences import SecureSum
from divulge.defences.updates.local_dp import LocalNoise
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.federation import NamedRecords, local_models
from divulge.federation.client_checks.base import Outgoing
from divulge.federation.layer_inputs import linear_layer
from divulge.federation.local_models import AssignmentGame
from divulge.metrics import assignment, membership
from divulge.metrics.projection import projection_residual, row_space
from divulge.testing import clients
from divulge.training.recipe import Recipe

FEATURES, HIDDEN = 120, 64


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 3))


@cache
def game(defence: UpdateDefence | None = None, **settings: Any) -> AssignmentGame:
    rng = np.random.default_rng(3)
    pool = Records(rng.normal(size=(500, FEATURES)).astype(np.float32), rng.integers(0, 3, 500))
    usual: dict[str, Any] = {"optimiser": "sgd", "lr": 0.1, "epochs": 3, "batch_size": 10}
    recipe = Recipe(network, **usual | settings)
    return local_models.simulate_federated_models(
        pool, recipe, (40, 40, 40), 2, rng, defence=defence
    )


def auc(played: AssignmentGame, **settings: Any) -> float:
    view, truth = played.challenge.view, played.challenge.truth
    guess = catalog.federation_attack("projres", **settings)(view, np.random.default_rng(0))
    return membership.auc(*assignment.pairs(guess, truth, view.collusion)).value


def twin(view: Any, layer: int, record: int, client: str) -> float:
    """The least squares that explain one record by one client's update, in plain words."""
    total = 0.0
    for played in view.updates.rounds:
        module: Any = network()
        names = played.sent
        module.load_state_dict({name: nn.Parameter(_tensor(names[name])) for name in names})
        given = _tensor(view.records.x[record : record + 1])
        seen = module[:layer](given).detach().numpy()[0].astype(np.float64)
        change = played.change(client)[f"{layer}.weight"].astype(np.float64)
        weights, *_ = np.linalg.lstsq(change.T, seen, rcond=1e-5)
        total -= float(np.linalg.norm(seen - change.T @ weights) / np.linalg.norm(seen))
    return total / len(view.updates.rounds)


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.tensor(array)


@pytest.mark.parametrize("layer", [0, 2])
def test_scores_are_those_of_the_naive_twin(layer: int) -> None:
    view = game().challenge.view
    attack = catalog.federation_attack("projres", layer=str(layer))
    score = attack(view, np.random.default_rng(0)).score
    assert score is not None
    unknown = np.flatnonzero(~view.collusion.records)
    for record in unknown[:: max(1, len(unknown) // 6)]:
        for k in range(2):
            found = twin(view, layer, int(record), str(k))
            assert score[record, k] == pytest.approx(found, abs=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 1, "batch_size": 40},
        {},
        {"momentum": 0.9, "epochs": 5},
        {"weight_decay": 0.01},
        {"optimiser": "adam", "lr": 1e-3},
    ],
)
def test_local_steps_and_optimisers_hide_no_member(settings: dict[str, Any]) -> None:
    assert auc(game(**settings)) == 1.0


def test_clipping_hides_no_member_and_noise_does() -> None:
    clipped = auc(game(LocalNoise(1e8, 1e-5, 0.5)))
    noisy = auc(game(LocalNoise(1e2, 1e-5, 0.5)))
    assert clipped > 0.99
    assert noisy < 0.7


def test_a_network_may_be_one_linear_layer() -> None:
    rng = np.random.default_rng(3)
    pool = Records(rng.normal(size=(90, 40)).astype(np.float32), rng.integers(0, 3, 90))
    recipe = Recipe(lambda: nn.Linear(40, 3), optimiser="sgd", lr=0.1, epochs=1, batch_size=2)
    view = local_models.simulate_federated_models(pool, recipe, (10, 10, 10), 1, rng).challenge.view
    assert view.updates is not None
    (found,) = view.updates.residuals(view.records, None)
    change: Any = view.updates
    rows = change.rounds[0].change("1")["weight"].astype(np.float64)
    x = view.records.x.astype(np.float64)
    left = x - x @ np.linalg.pinv(rows, rcond=1e-5) @ rows  # gradients of classes sum to 0
    expected = np.linalg.norm(left, axis=1) / np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-5)


def test_a_secure_sum_names_no_client() -> None:
    with pytest.raises((NotApplicable, DataError), match="got none"):
        auc(game(SecureSum()))


def test_a_candidate_above_no_threshold_is_nobodys() -> None:
    view, truth = game().challenge.view, game().challenge.truth
    guess = catalog.federation_attack("projres")(view, np.random.default_rng(0))
    assert assignment.recall(guess, truth).value == 1.0
    assert assignment.specificity(guess, truth).value > 0.8
    for fpr in (0.0, 1.0):
        with pytest.raises(SpecError, match="expected fpr above 0"):
            catalog.federation_attack("projres", fpr=fpr)


def test_the_layer_is_the_one_that_can_name_most_records() -> None:
    assert linear_layer(network()) == "0"
    assert linear_layer(nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32))) == "2"
    few_inputs = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 6))
    assert linear_layer(few_inputs) == "2"  # 6 records, where 8 inputs show 4
    assert linear_layer(nn.Sequential(nn.Linear(8, 9), nn.ReLU(), nn.Linear(9, 4))) == "0"  # 4 both
    with pytest.raises(NotApplicable, match="linear layer called '1', got 0, 2"):
        linear_layer(network(), "1")
    with pytest.raises(NotApplicable, match="got none in the network"):
        linear_layer(nn.Sequential(nn.Conv2d(1, 1, 3)))


def test_inputs_of_several_places_are_added_up() -> None:
    basis = row_space(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    tokens = np.array([[[3.0, 0.0, 0.0], [0.0, 0.0, 4.0]], [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]])
    np.testing.assert_allclose(projection_residual(tokens, basis), [0.8, 0.0])


def test_an_update_that_fills_the_space_keeps_its_stronger_half() -> None:
    change = np.diag([4.0, 3.0, 2.0, 1.0])
    np.testing.assert_allclose(np.abs(row_space(change)), np.eye(4)[:2])
    assert row_space(np.zeros((3, 4))).shape == (0, 4)


def test_a_client_sees_that_its_update_names_its_records() -> None:
    played = game()
    view: Any = played.challenge.view
    own = view.records.take(played.challenge.truth.client == 0)
    first = view.updates.rounds[0]
    others = view.external[0]
    test = NamedRecords(network, own, others)
    update = first.change("0")
    outgoing = Outgoing(update, first.sent, 40, LocalTraining())
    assert test(outgoing) == 1.0
    rng = np.random.default_rng(0)
    noisy = {n: a + 0.5 * rng.normal(size=a.shape).astype(a.dtype) for n, a in update.items()}
    assert test(dataclasses.replace(outgoing, update=noisy)) < 0.5
    for broken, message in (
        (dataclasses.replace(test, layer="9"), "called '9'"),
        (dataclasses.replace(test, others=others.take(np.arange(0))), "give some of both"),
    ):
        with pytest.raises(DataError, match=message):
            broken(outgoing)
    with pytest.raises(DataError, match=r"expected 0\.weight in the update"):
        test(dataclasses.replace(outgoing, update={"2.weight": update["2.weight"]}))


def test_a_score_is_twice_the_auc_less_one_and_never_below_0() -> None:
    """Of three own records one lies outside the span; of two others both, or one."""

    def records(*rows: int) -> Records:
        return Records(np.eye(4, dtype=np.float32)[list(rows)], np.zeros(len(rows), np.int64))

    update = {"weight": np.array([[1.0, 0.0, 0.0, 0.0]], np.float32)}
    outgoing = Outgoing(update, {"weight": np.zeros((1, 4), np.float32)}, 3, LocalTraining())

    def named(own: Records, others: Records) -> float:
        return NamedRecords(lambda: nn.Linear(4, 1, bias=False), own, others)(outgoing)

    assert named(records(0, 0, 1), records(2, 3)) == pytest.approx(2 / 3)  # AUC 5/6
    assert named(records(0, 0, 1), records(0, 3)) == pytest.approx(1 / 6)  # 3.5/6
    assert named(records(2, 3), records(0, 0, 1)) == 0.0  # AUC 1/6


def test_it_says_which_client_sent_nothing_of_its_own() -> None:
    view = clients.draw_game(0, clients=3).challenge.view
    gone: tuple[RoundSignals, ...] = ()
    table = clients.TableUpdates(gone, ("0", "1", "2"))
    with pytest.raises(NotApplicable, match="expected rounds, got none"):
        catalog.federation_attack("projres")(
            dataclasses.replace(view, updates=table), np.random.default_rng(0)
        )
