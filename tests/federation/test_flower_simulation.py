"""A simulated federation comes to the same weights as Flower's own FedAvg."""

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result

from divulge._util.random import stream
from divulge.federation.fedavg import Federation
from divulge.federation.flower import Recorder, run_in_process
from divulge.federation.partition import dirichlet
from divulge.federation.simulation import simulate
from divulge.federation.transcript.reader import Transcript
from divulge.training.recipe import Recipe

from . import naive

ROUNDS = 3
POOL = naive.blobs(300)
CLIENTS = dirichlet(POOL, [90, 40, 61, 7], 0.5)


def flower(federation: Federation, folder: Any) -> Result:
    """The same federation as an app, whose clients train by the naive loop."""
    client, server = ClientApp(), ServerApp()
    results: list[Result] = []

    @client.train()
    def train(message: Message, context: Context) -> Message:
        number = int(str(message.content["config"]["server-round"])) - 1
        who = int(context.node_config["partition-id"])
        seed = int(stream(federation.seed, "local training", number, who).integers(2**31))
        sent = message.content.array_records["arrays"].to_torch_state_dict()
        rows = federation.clients[who]
        after = naive.local(federation.pool, rows, federation.recipe, sent, seed)
        metrics = MetricRecord({"num-examples": len(rows)})
        content = RecordDict({"arrays": ArrayRecord(after), "metrics": metrics})
        return Message(content, reply_to=message)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = Recorder(FedAvg(fraction_evaluate=0.0), folder)
        torch.manual_seed(int(stream(federation.seed, "global model").integers(2**63)))
        first = ArrayRecord(federation.recipe.network().state_dict())
        results.append(strategy.start(grid, first, num_rounds=ROUNDS))

    run_in_process(server, client, clients=len(federation.clients))
    return results[0]


@pytest.mark.parametrize("network", [naive.plain, naive.normalised])
def test_simulated_fedavg_is_flowers(network: Any, tmp_path: Any) -> None:
    recipe = Recipe(network, lr=0.05, epochs=2, batch_size=20)
    federation = Federation(POOL, CLIENTS, recipe, seed=3)
    result = flower(federation, tmp_path / "t")
    ours, theirs = simulate(federation, ROUNDS), Transcript.open(tmp_path / "t")
    for mine, seen in zip(ours.rounds, theirs.rounds, strict=True):
        assert mine.aggregated is not None
        assert seen.aggregated is not None
        # nodes are numbered from 2 in the order of the clients
        for client, got in mine.received.items():
            assert seen.received[str(int(client) + 2)].records == got.records
        for name, array in mine.aggregated.items():
            if array.dtype.kind == "f":  # Flower leaves the mean of counters as a fraction
                # Both sum four products in float32, each in its own order. A unit in the last
                # place is 1.2e-7 at 1, the largest weight; the limit leaves room for eight
                np.testing.assert_allclose(
                    seen.aggregated[name], array, rtol=0, atol=1e-6, err_msg=name
                )
    moved = [
        np.abs(array.numpy() - np.asarray(ours.rounds[0].sent[name])).max()
        for name, array in result.arrays.items()
        if name.endswith("weight")
    ]
    assert min(moved) > 0.01, "nothing was learned, so nothing was compared"
