"""Virtual clients of a round: each has its own number, random stream and share of a defence."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from divulge._util.random import stream
from divulge.attacks.composition.decaf import shadow_clients, simulated_round
from divulge.attacks.composition.decaf.update_features import UpdateFeatures
from divulge.attacks.shared.observed_round import ObservedRound
from divulge.core import Records, UpdateDefence
from divulge.defences.updates import protocol

SEED, CLIENTS, ROUND = 5, 6, 3


@pytest.fixture
def cast_of_clients() -> shadow_clients.ShadowClients:
    pool = Records(np.arange(100.0)[:, None], np.repeat(np.arange(4), 25))
    return shadow_clients.draw_shadow_clients(pool, [40], CLIENTS, np.random.default_rng(0))


@pytest.fixture
def stage() -> Any:
    """A round in which training leaves weights as they are."""
    made = Mock(spec=ObservedRound)
    sent = {"w": np.zeros(3), "count": np.zeros(1, np.int64)}
    made.round = SimpleNamespace(number=ROUND, clients=("a", "b", "c", "d"), sent=sent)
    made.without_updates.return_value = made
    made.change_to = lambda state: state
    made.observe_change = lambda change, records: (change, records)
    return made


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Train nothing: each client's state is zero; what is seen of it is listed."""
    monkeypatch.setattr(
        simulated_round,
        "update_features",
        lambda _, seen: UpdateFeatures((seen[0]["w"][None],), np.full((1, 1, 1), float(seen[1]))),
    )
    told = SimpleNamespace(seeds=[])

    def each(sent: Any, rows: Any, seeds: list[int], see: Any) -> list[Any]:
        del sent
        told.seeds += seeds
        return [see(k, {"w": np.zeros(3)}) for k in range(len(rows))]

    told.each = each
    return told


@pytest.mark.parametrize("first", [0, 2])
def test_a_client_s_stream_gives_the_seed_of_its_training_and_then_its_noise(
    first: int, stage: Any, workers: Any, cast_of_clients: shadow_clients.ShadowClients
) -> None:
    found = simulated_round.simulate_round(stage, workers, cast_of_clients, 0.5, SEED, first)
    for k, change in enumerate(found.tensors[0]):
        rng = stream(SEED, "virtual client", ROUND, first + k)
        assert workers.seeds[k] == rng.integers(2**31)
        np.testing.assert_allclose(change, rng.normal(0, 0.5, 3), rtol=1e-12)
        assert found.classes[k] == len(cast_of_clients.rows[k])


def test_a_defence_knows_a_client_by_its_number_among_all(
    stage: Any,
    workers: Any,
    cast_of_clients: shadow_clients.ShadowClients,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Any] = []

    def begin_round(defence: Any, number: int, floats: Any, shares: Any, seed: int) -> list[Any]:
        del defence
        begun.append((number, sorted(floats), shares, seed))
        return [seed]

    monkeypatch.setattr(protocol, "begin_round", begin_round)
    monkeypatch.setattr(
        protocol, "send",
        lambda _, change, seed: SimpleNamespace(values={"w": change["w"] + seed}),
    )  # fmt: skip
    found = simulated_round.simulate_round(
        stage, workers, cast_of_clients, 0.0, SEED, 2, defence=UpdateDefence()
    )
    for k, change in enumerate(found.tensors[0]):
        seed = int(stream(SEED, "defence of a virtual client", 2 + k).integers(2**31))
        np.testing.assert_array_equal(change, np.full(3, seed))
        # four clients share the round; counters are not sent through a defence
        assert begun[k] == (ROUND, ["w"], {0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25}, seed)


@pytest.mark.parametrize(("own", "noise"), [(2.0, 0.0), (3.0, ((9 - 0.5) / 0.4549) ** 0.5)])
def test_noise_is_what_exceeds_four_times_the_largest_of_virtual_clients(
    own: float, noise: float, stage: Any, cast_of_clients: shadow_clients.ShadowClients
) -> None:
    stage.round.change = lambda _: {"w": np.full(5, own), "count": np.full(9, 1000)}
    trained: list[Any] = []

    def each(sent: Any, rows: Any, seeds: Any, see: Any) -> list[float]:
        del sent, see
        trained.append((len(rows), list(seeds)))
        return [0.25, 1.0, 0.5]

    told = Mock(each=each)
    found = simulated_round.estimate_noise(stage, told, cast_of_clients, ["a"], SEED)
    assert found == pytest.approx(noise, rel=1e-12)
    assert trained == [(CLIENTS, list(range(SEED, SEED + CLIENTS)))]


def test_noise_is_compared_with_eight_clients_at_most(stage: Any) -> None:
    pool = Records(np.arange(100.0)[:, None], np.repeat(np.arange(4), 25))
    many = shadow_clients.draw_shadow_clients(pool, [40], 20, np.random.default_rng(0))
    stage.round.change = lambda _: {"w": np.ones(5)}
    each = Mock(return_value=[1.0])
    assert simulated_round.estimate_noise(stage, Mock(each=each), many, ["a"], SEED) == 0
    assert len(each.call_args.args[1]) == 8
