"""What a round of a simulated federation states is what its mechanism promises."""

import math
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from divulge.canaries.clients import make_canary_clients
from divulge.core import Records, UpdateDefence
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.local_dp import LocalNoise
from divulge.federation.canaries import DEVIATION, CanaryClients, StatedEpsilon
from divulge.federation.fedavg import Federation, Rule
from divulge.training.recipe import Recipe


def federation(
    folder: Path, defence: UpdateDefence, rule: Rule = "fedavg", participation: float = 1.0
) -> Federation:
    """Two clients, of 2 and of 10 records, and canary clients."""
    rng = np.random.default_rng(0)
    pool = Records(rng.normal(size=(12, 8)).astype(np.float32), rng.integers(0, 2, 12))
    made = make_canary_clients(folder / "canaries", 20, seed=5)
    return Federation(
        pool, [np.arange(2), np.arange(2, 12)],
        Recipe(lambda: nn.Linear(8, 2), lr=0.05, epochs=1, batch_size=5),
        rule=rule, defence=defence, participation=participation,
        canaries=CanaryClients(made.folder, 3.0), workers=1,
    )  # fmt: skip


@pytest.mark.parametrize("rule", ["fedavg", "fedsgd"])
def test_the_noise_of_new_weights_is_that_of_the_mean_times_the_step(
    tmp_path: Path, rule: Rule
) -> None:
    played = federation(tmp_path, DPFedAvg(2.0, 1.5, 1e-5), rule)
    done = next(iter(played.rounds()))
    step = 0.05 if rule == "fedsgd" else 1.0
    assert done.metrics[DEVIATION] == pytest.approx(step * 2.0 * 1.5 / len(done.clients))


def test_what_is_stated_is_for_whoever_took_part_most_often(tmp_path: Path) -> None:
    defence = DPFedAvg(2.0, 1.0, 1e-5)
    played = federation(tmp_path, defence, participation=0.4)
    turns: dict[str, int] = {}
    for done, _ in zip(played.rounds(), range(3), strict=False):
        for client in map(str, done.clients):
            turns[client] = turns.get(client, 0) + 1
        stated = StatedEpsilon.of(done.metrics)
        assert stated is not None
        most = max(turns.values())
        assert stated.epsilon == pytest.approx(defence.guarantee(most).epsilon)
    assert len(set(turns.values())) > 1  # or the least and the most would be one


def test_a_canary_client_is_promised_what_its_own_rounds_cost(tmp_path: Path) -> None:
    defence = LocalNoise(2.0, 1e-5, 1.0)
    played = federation(tmp_path, defence)
    for rounds, (done, _) in enumerate(zip(played.rounds(), range(2), strict=False), 1):
        canary = done.received[max(done.received, key=int)].guarantee
        assert canary is not None
        assert math.isclose(canary.epsilon, defence.guarantee(rounds).epsilon)


@pytest.mark.parametrize(
    ("defence", "equally"),
    [(LocalNoise(2.0, 1e-5, 1.0), False), (DPFedAvg(2.0, 1.0, 1e-5, "clients"), True)],
)
def test_clients_count_alike_where_a_guarantee_needs_it(
    tmp_path: Path, defence: UpdateDefence, equally: bool
) -> None:
    done = next(iter(federation(tmp_path, defence).rounds()))
    assert done.aggregated is not None
    weights = {c: 1 if equally else got.records or 0 for c, got in done.received.items()}
    assert len(set(weights.values())) == (1 if equally else 3)  # of 2, of 10, and of canaries
    for name, sent in done.sent.items():
        parts = [weights[c] * got.tensors[name] for c, got in done.received.items()]
        mean = np.sum(parts, axis=0) / sum(weights.values())
        np.testing.assert_allclose(done.aggregated[name], sent + mean, rtol=1e-4, atol=1e-5)
