"""Ten clients and FedAvg: Flower's Ray engine, its apps in one process, and the simulation."""

import logging
import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.timing import (
    Contender,
    MissingPeer,
    Outcome,
    environment,
    interleaved,
    once,
    table,
)
from divulge.core import Records

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from torch import nn

    from divulge.federation.fedavg import Federation

SUMMARY = "ten clients and FedAvg: Flower's Ray engine, its apps in one process, the simulation"

CLIENTS = 10


class Run(NamedTuple):
    """Times and results of one run of a federation."""

    weights: dict[str, np.ndarray]
    ends: list[float]
    """When training began, and when each round ended, in seconds."""

    @property
    def rate(self) -> float:
        """Rounds a second after the first one, which starts processes and fills caches."""
        return (len(self.ends) - 2) / (self.ends[-1] - self.ends[1])


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print times of whole runs, rounds a second once they go, and how far the results differ.

    Raises:
        MissingPeer: Flower, Ray or PyTorch is not installed.
    """
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    for package, extra in (("torch", "torch"), ("flwr", "federated"), ("ray", "nightly")):
        if find_spec(package) is None:
            raise MissingPeer(package, extra)
    import flwr  # noqa: F401 (sets the level of its own log)

    logging.getLogger("flwr").setLevel(logging.ERROR)
    rounds = 4 if quick else 20
    federation = _federation()
    runs: dict[str, list[Run]] = {"ray": [], "grid": [], "simulation": []}
    theirs = Contender("Flower: Ray engine", lambda: runs["ray"].append(_ray(federation, rounds)))
    grid = Contender(
        "divulge: in-process grid", lambda: runs["grid"].append(_grid(federation, rounds))
    )
    simulation = Contender(
        "divulge: simulation", lambda: runs["simulation"].append(_simulation(federation, rounds))
    )
    print(environment(("divulge", "flwr", "ray", "torch")))
    print(
        f"{CLIENTS} clients of {len(federation.pool) // CLIENTS} synthetic images, "
        f"{rounds} rounds a run; each run with its start"
    )
    if quick:
        timings = [once(each) for each in (theirs, grid, simulation)]
    else:
        timings = interleaved([theirs, grid, simulation], 2)
    print(table(timings, base=timings[1]))
    for timing, done in zip(timings, runs.values(), strict=True):
        best = max(each.rate for each in done)
        apart = _apart(done[-1].weights, runs["grid"][-1].weights)
        print(
            f"{timing.name:30}{rounds / timing.best:10.2f} rounds/s with start,"
            f"{best:10.2f} without; weights {apart:.1e} from those of the grid"
        )
    return Outcome(timings[1], timings[0])


def _federation() -> "Federation":
    from divulge.federation.fedavg import Federation
    from divulge.federation.partition import dirichlet
    from divulge.training.recipe import Recipe

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 100 * CLIENTS)
    patterns = rng.normal(size=(10, 1, 14, 14))
    x = (patterns[y] + rng.normal(scale=2.0, size=(len(y), 1, 14, 14))).astype(np.float32)
    pool = Records(x, y)
    client_rows = dirichlet(pool, [100] * CLIENTS, 1.0)
    return Federation(pool, client_rows, Recipe(_convolutional, lr=0.05, epochs=1, batch_size=20))


def _convolutional() -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*first, *second, nn.Linear(144, 10))


def _client_app(federation: "Federation") -> "ClientApp":
    """Clients that train as those of the simulation do, with the same seeds."""
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    from divulge._util.random import stream
    from divulge.training.engine.client_training import ClientWorkers
    from divulge.training.engine.networks import as_state

    app = ClientApp()
    client_workers: list[ClientWorkers] = []  # one a process that the app is sent to, made there

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        number = int(str(message.content["config"]["server-round"])) - 1
        seed = int(stream(federation.seed, "local training", number, client).integers(2**31))
        sent = message.content.array_records["arrays"]
        rows = federation.clients[client]
        weights = {name: value.numpy() for name, value in sent.items()}
        if not client_workers:
            client_workers.append(ClientWorkers(federation.recipe, federation.pool, workers=1))
        (after,) = client_workers[0].states(weights, [rows], [seed])
        metrics = MetricRecord({"num-examples": len(rows)})
        arrays = ArrayRecord(as_state(after))
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app


def _server_app(federation: "Federation", rounds: int, done: list[Run]) -> "ServerApp":
    from flwr.app import ArrayRecord, Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg

    from divulge.federation import clients
    from divulge.training.engine.networks import as_state

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        ends: list[float] = []

        def clock(number: int, arrays: ArrayRecord) -> None:
            del number, arrays
            ends.append(time.perf_counter())

        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS)
        fresh = as_state(clients.initial_state(federation.recipe, federation.seed))
        first = ArrayRecord(fresh)
        result = strategy.start(grid, first, num_rounds=rounds, evaluate_fn=clock)
        weights = {name: value.numpy() for name, value in result.arrays.items()}
        done.append(Run(weights, ends))

    return app


def _ray(federation: "Federation", rounds: int) -> Run:
    from flwr.simulation import run_simulation

    done: list[Run] = []
    run_simulation(
        server_app=_server_app(federation, rounds, done),
        client_app=_client_app(federation),
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return done[0]


def _grid(federation: "Federation", rounds: int) -> Run:
    from divulge.federation.flower import run_in_process

    done: list[Run] = []
    run_in_process(_server_app(federation, rounds, done), _client_app(federation), clients=CLIENTS)
    return done[0]


def _simulation(federation: "Federation", rounds: int) -> Run:
    ends, weights = [time.perf_counter()], {}
    for number, played in enumerate(federation.rounds()):
        ends.append(time.perf_counter())
        if number + 1 == rounds:
            weights = {name: np.asarray(value) for name, value in (played.aggregated or {}).items()}
            break
    return Run(weights, ends)


def _apart(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> float:
    return max(float(np.abs(first[name] - second[name]).max()) for name in second)
