"""Simulated federations: the same as a naive loop, the same when repeated, resumed or killed."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from divulge.core import Need, Round
from divulge.defences.updates.local_dp import LocalNoise
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, NotApplicable, SpecError, StoreError
from divulge.federation.fedavg import Federation, Rule
from divulge.federation.partition import dirichlet, iid
from divulge.federation.server import accuracy
from divulge.federation.simulation import simulate, write_aside
from divulge.federation.transcript.reader import Transcript
from divulge.federation.transcript.writer import Writer
from divulge.training.recipe import Recipe

from . import naive

POOL = naive.blobs()
CLIENTS = iid(POOL, [90, 40, 61, 7])
RECIPE = Recipe(naive.plain, lr=0.05, epochs=2, batch_size=20)


def federation(**changes: object) -> Federation:
    return replace(Federation(POOL, CLIENTS, RECIPE, seed=3), **changes)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("recipe", "share"),
    [
        (RECIPE, 1.0),
        (replace(RECIPE, network=naive.normalised, epochs=1), 1.0),
        (replace(RECIPE, optimiser="adam", lr=0.002, weight_decay=0.01), 0.5),
    ],
    ids=["weighted", "batch normalisation", "half of the clients, adam"],
)
def test_fedavg_is_the_naive_loop(recipe: Recipe, share: float) -> None:
    played = simulate(federation(recipe=recipe, participation=share), 3)
    twin = naive.fedavg(POOL, CLIENTS, recipe, 3, share, seed=3)
    for ours, (chosen, states, weights) in zip(played.rounds, twin, strict=True):
        assert ours.clients == tuple(map(str, chosen))
        assert [got.records for got in ours.received.values()] == [len(CLIENTS[c]) for c in chosen]
        assert ours.aggregated is not None
        for client, state in zip(chosen, states, strict=True):
            same(ours.received[str(client)].tensors, state)
        same(ours.aggregated, weights)


def same(ours: object, theirs: naive.State) -> None:
    assert isinstance(ours, dict)
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        # float32 in another order and memory format: some hundred roundings of 6e-8 of values to 1
        np.testing.assert_allclose(ours[name], tensor.numpy(), rtol=1e-4, atol=2e-5, err_msg=name)


def test_a_gradient_is_that_of_the_mean_loss_and_its_step_that_of_the_server() -> None:
    played = simulate(federation(rule="fedsgd"), 2)
    for seen in played.rounds:
        gradients = []
        for name, rows in enumerate(CLIENTS):
            module = naive.plain()
            module.load_state_dict({n: torch.tensor(a) for n, a in seen.sent.items()})
            x, y = torch.tensor(POOL.x[rows]), torch.tensor(POOL.y[rows])
            torch.autograd.backward(torch.nn.functional.cross_entropy(module(x), y))
            gradients.append({n: p.grad for n, p in module.named_parameters()})
            for n, gradient in gradients[-1].items():
                assert gradient is not None
                sent = seen.received[str(name)].tensors[n]
                np.testing.assert_allclose(sent, gradient, rtol=1e-4, atol=1e-6)
        assert seen.aggregated is not None
        sizes = np.array([len(rows) for rows in CLIENTS])
        for n, before in seen.sent.items():
            mean = np.average([g[n].numpy() for g in gradients], axis=0, weights=sizes)  # type: ignore[union-attr]
            np.testing.assert_allclose(seen.aggregated[n], before - RECIPE.lr * mean, atol=1e-6)


def test_fedsgd_is_fedavg_of_one_whole_step() -> None:
    whole = replace(RECIPE, epochs=1, batch_size=1000)
    averaged = simulate(federation(recipe=whole), 2).rounds[-1].aggregated
    stepped = simulate(federation(rule="fedsgd"), 2).rounds[-1].aggregated
    assert averaged is not None
    assert stepped is not None
    for name, array in averaged.items():
        np.testing.assert_allclose(stepped[name], array, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", ["fedavg", "fedsgd"])
def test_a_federation_learns(rule: Rule) -> None:
    test = naive.blobs(300, seed=1)
    recipe = replace(RECIPE, lr=0.5 if rule == "fedsgd" else 0.05)
    evaluated = federation(rule=rule, recipe=recipe, evaluate=accuracy(test))
    curve = [seen.metrics["accuracy"] for seen in simulate(evaluated, 12).rounds]
    assert curve[-1] > max(0.8, curve[0] + 0.1)  # of four classes


def test_the_same_seed_is_the_same_transcript(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        simulate(federation(), 2, tmp_path / folder)
    simulate(federation(seed=4), 2, tmp_path / "third")
    assert contents(tmp_path / "one") == contents(tmp_path / "other")
    first, third = contents(tmp_path / "one"), contents(tmp_path / "third")
    assert first["round-0000.safetensors"] != third["round-0000.safetensors"]


def test_in_memory_and_on_disk_are_the_same(tmp_path: Path) -> None:
    kept, there = simulate(federation(), 2), simulate(federation(), 2, tmp_path / "t")
    assert kept.header == there.header
    for one, other in zip(kept.rounds, there.rounds, strict=True):
        same_round(one, other)


def same_round(one: Round, other: Round) -> None:
    assert one.clients == other.clients
    for client in one.received:
        for name, array in one.received[client].tensors.items():
            np.testing.assert_array_equal(array, other.received[client].tensors[name])


def test_the_random_numbers_of_the_caller_are_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    simulate(federation(), 1)
    assert torch.equal(torch.rand(3), expected)


def test_what_is_resumed_ends_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    half = federation(participation=0.5, defence=LocalNoise(5.0, 1e-5, 1.0))
    simulate(half, 4, tmp_path / "whole")
    simulate(half, 2, tmp_path / "parts")
    simulate(half, 4, tmp_path / "parts", resume=True)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    with pytest.raises(StoreError, match="different ones"):
        simulate(replace(half, seed=9), 5, tmp_path / "parts", resume=True)
    with pytest.raises(StoreError, match="--resume"):
        simulate(half, 5, tmp_path / "parts")


SCRIPT = """
import sys
from tests.federation.test_simulation import federation, simulate
from tests.killing import kill_before_writing
kill_before_writing("round-0003.json")
simulate(federation(), 5, sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_simulation_is_continued(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(Transcript.open(folder).rounds) == 3
    simulate(federation(), 5, folder, resume=True)
    simulate(federation(), 5, tmp_path / "never killed")
    assert contents(folder) == contents(tmp_path / "never killed")


def test_under_a_secure_sum_the_server_has_the_average_and_no_update(tmp_path: Path) -> None:
    hidden = simulate(federation(defence=SecureSum()), 2, tmp_path / "t")
    shown = simulate(federation(), 2)
    for masked, plain in zip(hidden.rounds, shown.rounds, strict=True):
        assert not masked.received
        assert masked.masked is not None
        assert masked.masked.clients == plain.clients
        assert masked.masked.records == 198
        assert masked.aggregated is not None
        assert plain.aggregated is not None
        for name, array in plain.aggregated.items():
            np.testing.assert_allclose(masked.aggregated[name], array, rtol=1e-4, atol=2e-5)
    assert Need.UPDATES not in hidden.view("0").offers
    with pytest.raises(NotApplicable):
        hidden.rounds[0].change("0")
    written = b"".join(contents(tmp_path / "t").values())
    for client in shown.rounds[0].received.values():
        change = client.tensors["3.weight"] - shown.rounds[0].sent["3.weight"]
        assert change.tobytes() not in written
        assert client.tensors["3.weight"].tobytes() not in written


def test_noise_comes_with_the_guarantee_of_all_that_was_sent() -> None:
    noise = LocalNoise(2.0, 1e-5, 1.0)
    played = simulate(federation(defence=noise, participation=0.5, recipe=RECIPE), 3)
    turns = dict.fromkeys(map(str, range(4)), 0)
    for seen in played.rounds:
        assert seen.kind == "update"
        for client, got in seen.received.items():
            turns[client] += 1
            assert got.guarantee == noise.guarantee(turns[client])
    assert max(turns.values()) > 1


def test_counters_stay_at_home_when_updates_are_defended() -> None:
    recipe = replace(RECIPE, network=naive.normalised)
    sent = simulate(federation(recipe=recipe, defence=SecureSum()), 1).header.shapes
    assert "1.running_mean" in sent
    assert "1.num_batches_tracked" not in sent


def test_a_client_trainer_of_ones_own_takes_the_place_of_the_fleet() -> None:
    class Lazy:
        def networks(self, pool, subsets, seeds, start=None):  # type: ignore[no-untyped-def]
            assert subsets.shape == (len(CLIENTS), len(pool))
            assert subsets.sum(axis=1).tolist() == [len(rows) for rows in CLIENTS]
            for _ in seeds:
                module = naive.plain()
                module.load_state_dict(start)
                yield module

    (seen,) = simulate(federation(trainer=Lazy()), 1).rounds
    for client in seen.clients:
        assert not any(change.any() for change in seen.change(client).values())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"participation": 0.0}, SpecError, "participation above 0"),
        ({"clients": ()}, SpecError, "expected clients"),
        ({"clients": (np.array([600]),)}, DataError, "outside of it"),
        ({"clients": (np.array([], np.int64),)}, DataError, "got none"),
    ],
)
def test_senseless_federations_are_refused(
    change: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        federation(**change)


def test_there_must_be_rounds() -> None:
    with pytest.raises(SpecError, match="rounds of simulate to be a whole number of 1 or more"):
        simulate(federation(), 0)


def test_no_gradient_changes_a_buffer() -> None:
    with pytest.raises(SpecError, match="without buffers"):
        simulate(federation(rule="fedsgd", recipe=replace(RECIPE, network=naive.normalised)), 1)


def test_dirichlet_clients_federate() -> None:
    uneven = federation(clients=dirichlet(POOL, [50, 50, 50], 0.1))
    assert len(simulate(uneven, 1).rounds[0].received) == 3


def test_the_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    simulate(federation(), 1, tmp_path / "t")
    assert os.stat(tmp_path / "t").st_mode & 0o077 == 0  # noqa: PTH116 (as the others read it)


@pytest.mark.parametrize("count", [1, 3])
def test_a_round_that_cannot_be_written_ends_the_simulation(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one too, and where later ones could be: what follows a gap is of no use."""
    tried = []

    def fail_first(self: Writer, seen: Any) -> None:
        del self
        tried.append(seen)
        if len(tried) == 1:
            raise StoreError("the disk is full")

    monkeypatch.setattr(Writer, "add", fail_first)
    rounds: Any = iter(range(count))
    written = write_aside(Writer.begin(tmp_path / "t", federation().header), rounds)
    with pytest.raises(StoreError, match="the disk is full"):
        list(written)
    assert tried == [0]
