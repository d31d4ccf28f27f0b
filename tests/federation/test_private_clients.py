"""Clients that train with DP-SGD, and what the transcript says they spent."""

from dataclasses import replace
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import pld
from torch import nn

from divulge.core import Guarantee, Records, UpdateDefence
from divulge.defences.training.dp_sgd.loop import layer_norm
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.defences.updates.compose import chain
from divulge.defences.updates.compression import TopK
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.local_dp import LocalNoise
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, SpecError
from divulge.federation.fedavg import Federation
from divulge.federation.partition import iid
from divulge.federation.server import accuracy
from divulge.federation.simulation import simulate
from divulge.training.recipe import Recipe

DELTA = 1e-5
SIZES = [60, 40, 25]


def draw(records: int = 140, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, records)
    x = (np.eye(3)[y] + rng.normal(size=(records, 3)) / 3).astype(np.float32)
    return Records(x, y)


def linear() -> nn.Module:
    return nn.Linear(3, 3)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


POOL = draw()
RECIPE = Recipe(linear, lr=0.5, epochs=2, batch_size=10)
NOISY = DPSGD(RECIPE, DELTA, noise_multiplier=0.9, max_grad_norm=2.0, jobs=1)


def federation(**changes: object) -> Federation:
    clients = iid(POOL, SIZES)
    return replace(Federation(POOL, clients, RECIPE, trainer=NOISY, seed=5), **changes)  # type: ignore[arg-type]


def composed(noise: float, records: int, turns: int) -> float:
    """ε of all Poisson batches of a client, each an event of its own, by dp-accounting alone."""
    size = min(RECIPE.batch_size, records)
    steps = -(-RECIPE.epochs * records // size)
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    for _ in range(turns):
        batch = dp_accounting.PoissonSampledDpEvent(
            size / records, dp_accounting.GaussianDpEvent(noise)
        )
        accountant.compose(dp_accounting.SelfComposedDpEvent(batch, steps))
    return float(accountant.get_epsilon(DELTA))


def spent(guarantee: Guarantee | None) -> float:
    assert guarantee is not None
    assert guarantee.delta == DELTA
    return guarantee.epsilon


@pytest.mark.slow
def test_each_client_pays_for_the_rounds_it_took_part_in_at_its_own_rate() -> None:
    played = simulate(federation(participation=0.6), 4)
    turns = dict.fromkeys(map(str, range(len(SIZES))), 0)
    for seen in played.rounds:
        assert len(seen.received) == 2
        for client, got in seen.received.items():
            turns[client] += 1
            wanted = composed(0.9, SIZES[int(client)], turns[client])
            # the two round privacy losses to grids of other widths
            assert spent(got.guarantee) == pytest.approx(wanted, rel=1e-3)
    assert 0 < min(turns.values()) < max(turns.values())  # somebody sat out, and paid less


def test_a_budget_for_the_whole_run_is_used_up_at_its_end_and_not_before() -> None:
    budget = DPSGD(RECIPE, DELTA, epsilon=4.0, rounds=3, max_grad_norm=2.0, jobs=1)
    played = simulate(federation(trainer=budget), 3)
    for client, size in enumerate(SIZES):
        course = [spent(seen.received[str(client)].guarantee) for seen in played.rounds]
        assert course == sorted(course)
        assert course[0] < course[1] < course[2] == 4.0
        noise = budget._plan(size).noise
        assert course[1] == pytest.approx(composed(noise, size, 2), rel=1e-3)
        assert 0.98 * 4.0 < composed(noise, size, 3) <= 4.0 * (1 + 1e-6)
    further = budget.guarantee(60, rounds=4)
    assert spent(further) > 4.0


def test_a_private_round_starts_from_the_weights_sent() -> None:
    """With next to no noise and nothing clipped, whole batches are steps of plain descent."""
    whole = replace(RECIPE, epochs=1, batch_size=1000)
    still = DPSGD(whole, DELTA, noise_multiplier=1e-6, max_grad_norm=1e3, jobs=1)
    quiet = simulate(federation(recipe=whole, trainer=still), 3)
    plain = simulate(federation(recipe=whole, trainer=None), 3)
    for one, other in zip(quiet.rounds, plain.rounds, strict=True):
        for client, got in other.received.items():
            for name, array in got.tensors.items():
                # noise: 1e-6 of 1e3 over 25 records or more, times lr 0.5, three rounds
                np.testing.assert_allclose(one.received[client].tensors[name], array, atol=5e-4)


@pytest.mark.slow
def test_processes_change_no_bit_and_no_identity(tmp_path: Path) -> None:
    one = simulate(federation(), 2, tmp_path / "one")
    two = simulate(federation(trainer=replace(NOISY, jobs=2)), 2, tmp_path / "two")
    assert one.header == two.header
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_what_is_resumed_ends_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    half = federation(participation=0.6)
    simulate(half, 4, tmp_path / "whole")
    simulate(half, 2, tmp_path / "parts")
    simulate(half, 4, tmp_path / "parts", resume=True)
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "parts" / path.name).read_bytes()


def test_noise_differs_from_client_to_client_and_from_round_to_round() -> None:
    everything = replace(RECIPE, epochs=1, batch_size=1000)
    same = Records(np.ones((60, 3), np.float32), np.zeros(60, np.int64))
    clients = iid(same, [30, 30])
    loud = DPSGD(everything, DELTA, noise_multiplier=5.0, jobs=1)
    played = simulate(Federation(same, clients, everything, trainer=loud), 2)
    moves = [seen.change(c)["weight"].ravel() for seen in played.rounds for c in ("0", "1")]
    for k, one in enumerate(moves):
        for other in moves[k + 1 :]:
            assert not np.allclose(one, other, atol=1e-3)


@pytest.mark.slow
def test_private_clients_learn() -> None:
    played = simulate(federation(evaluate=accuracy(draw(300, seed=1))), 8)
    assert played.rounds[-1].metrics["accuracy"] > 0.8  # of three classes


def test_what_a_defence_does_to_an_update_leaves_the_promise_standing() -> None:
    plain = simulate(federation(), 1).rounds[0]
    cut = simulate(federation(defence=TopK(0.5)), 1).rounds[0]
    for client in plain.clients:
        assert cut.received[client].guarantee == plain.received[client].guarantee
    noise = LocalNoise(2.0, DELTA, 1.0)  # hides the whole client
    louder = simulate(federation(defence=noise), 1).rounds[0]
    assert louder.received["0"].guarantee == noise.guarantee(1)
    assert simulate(federation(defence=SecureSum()), 1).rounds[0].masked is not None


def test_batch_normalisation_is_refused_and_its_conversion_trained() -> None:
    mixing = replace(RECIPE, network=normalised)
    with pytest.raises(SpecError, match=r"BatchNorm1d.*dp_sgd\.loop\.layer_norm"):
        simulate(federation(recipe=mixing, trainer=replace(NOISY, recipe=mixing)), 1)
    recipe = replace(RECIPE, network=lambda: layer_norm(normalised()))
    played = simulate(federation(recipe=recipe, trainer=replace(NOISY, recipe=recipe)), 1)
    assert all(np.isfinite(a).all() for a in played.rounds[0].received["0"].tensors.values())


def test_gradients_without_training_are_no_place_for_a_trainer() -> None:
    with pytest.raises(SpecError, match=r'expected rule = "fedavg".*DP-SGD'):
        federation(rule="fedsgd")


def test_rounds_are_counted_from_one() -> None:
    with pytest.raises(SpecError, match="rounds from 1"):
        replace(NOISY, rounds=0)
    with pytest.raises(SpecError, match="one round or more"):
        NOISY.guarantee(10, rounds=0)


def test_the_caller_keeps_its_random_numbers() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    simulate(federation(), 1)
    assert torch.equal(torch.rand(3), expected)


def spoil_client(value: float) -> Records:
    """The pool, one record of client 1 being so large."""
    x = POOL.x.copy()
    x[iid(POOL, SIZES)[1][0]] = value
    return Records(x, POOL.y)


BOUNDED = (
    DPFedAvg(1e-6, 0.5, DELTA),
    chain(DPFedAvg(1e-6, 0.5, DELTA), SecureSum()),
    chain(DPFedAvg(1.0, 0.5, DELTA, "clients"), SecureSum()),
    chain(TopK(0.5), LocalNoise(1e5, DELTA, 0.5)),
)


@pytest.mark.parametrize("defence", BOUNDED, ids=str)
@pytest.mark.parametrize("value", [1e20, 3e38, -3e38])
def test_a_client_whose_training_diverges_costs_the_others_nothing(
    defence: UpdateDefence, value: float
) -> None:
    """The model moves by what the defence lets one client of three move it, and stays finite."""
    played = [
        simulate(federation(pool=pool, trainer=None, defence=defence), 3).rounds
        for pool in (POOL, spoil_client(value))
    ]
    for usual, broken in zip(*played, strict=True):
        assert usual.aggregated is not None
        assert broken.aggregated is not None
        assert all(np.isfinite(array).all() for array in broken.aggregated.values())
        assert broken.clients == usual.clients
    first = [one[0].aggregated for one in played]
    assert first[0] is not None
    assert first[1] is not None
    moved = np.concatenate([(first[0][n] - first[1][n]).ravel() for n in first[0]])
    share = 1 / 3 if defence.weighs_equally else SIZES[1] / sum(SIZES)
    # the same noise in both; entries of some units are rounded to single precision
    assert np.linalg.norm(moved) <= 2 * 0.5 * share + 100 * 2.0**-24


def test_without_a_promise_a_client_whose_training_diverged_is_named() -> None:
    with pytest.raises(DataError, match=r"update of client 1 finite, got NaN or infinity"):
        simulate(federation(pool=spoil_client(3e38), trainer=None, defence=TopK(0.5)), 1)
