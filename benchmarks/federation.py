"""Rounds of federated averaging against the loop that a PyTorch user writes, client by client."""

import copy
from collections.abc import Generator, Iterator
from contextlib import closing
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.limit import count_operations, measure_rate
from benchmarks.timing import (
    Contender,
    MissingData,
    MissingPeer,
    Outcome,
    Timing,
    environment,
    interleaved,
    table,
    verdict,
)
from divulge.core import Records

if TYPE_CHECKING:
    import torch
    from torch import nn

    from divulge.federation.fedavg import Federation

SUMMARY = "rounds of federated averaging with 10 and 100 clients, and a plain loop over the clients"


class Workload(NamedTuple):
    """A federation, and how many of its rounds are timed."""

    name: str
    data: str
    federation: "Federation"
    rounds: int


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print rounds per second of both sides, for two networks and two numbers of clients.

    Beside them stands the least that the machine could take for a round.

    Raises:
        MissingPeer: PyTorch is not installed.
    """
    if find_spec("torch") is None:
        raise MissingPeer("torch", "torch")
    import torch

    rate = measure_rate()
    print(f"{environment(('divulge', 'torch'))}; the loop on {torch.get_num_threads()} threads")
    print(f"matrix products of float32 on all threads: {rate / 1e9:.0f} GFLOP/s")
    outcomes = [_compare(workload, rate, quick) for workload in _workloads(quick)]
    ours = Timing("all, ours", [sum(outcome.ours.best for outcome in outcomes)])
    theirs = Timing("all, theirs", [sum(outcome.theirs.best for outcome in outcomes)])
    print("last line: a round of each workload together, best runs")
    return Outcome(ours, theirs)


def _compare(workload: Workload, rate: float, quick: bool) -> Outcome:  # noqa: FBT001 (as in run)
    federation = workload.federation
    sizes = [len(rows) for rows in federation.clients]
    print(
        f"\n{workload.name}, {workload.data}: {len(sizes)} clients of {sizes[0]} records, seconds "
        "a round"
    )
    with (
        TemporaryDirectory() as folder,
        closing(_write_rounds(federation, Path(folder, "transcript"))) as written,
    ):
        played, loop, single = federation.rounds(), _loop(federation), _loop(federation)
        for rounds in (played, written):
            _warm(rounds, 1 if quick else 8)
        contenders = [
            Contender("divulge, in memory", lambda: _next(played, workload.rounds)),
            Contender("divulge, writing its transcript", lambda: _next(written, workload.rounds)),
            Contender("plain loop", lambda: _next(loop, workload.rounds)),
            Contender("plain loop, one thread", lambda: _single(single, workload.rounds)),
        ]
        timings = [
            timing._replace(seconds=[s / workload.rounds for s in timing.seconds])
            for timing in interleaved(contenders, 1 if quick else 2)
        ]
    print(table(timings, base=timings[0]))
    recipe = federation.recipe
    limit = sum(sizes) * recipe.epochs * count_operations(recipe, federation.pool) / rate
    print(f"the machine's limit: {limit:.2f} s; share of it that is reached:", end="")
    print("".join(f" {limit / t.best:.0%} {t.name};" for t in timings))
    for timing in timings:
        print(f"rounds per second, {timing.name}: {1 / timing.best:.2f}")
    outcome = Outcome(timings[0], min(timings[2:], key=lambda timing: timing.best))
    print(verdict(f"federation-{workload.name}-{len(sizes)}", outcome))
    return outcome


def _warm(rounds: Iterator[object], seconds: float) -> None:
    """Run rounds until worker processes are there: they start after five seconds of training."""
    begun = perf_counter()
    while perf_counter() - begun < seconds:
        next(rounds)
    next(rounds)


def _next(rounds: Iterator[object], many: int) -> None:
    for _ in islice(rounds, many):
        pass


def _write_rounds(federation: "Federation", folder: Path) -> Generator[object]:
    from divulge.federation.simulation import write_aside
    from divulge.federation.transcript.writer import Writer

    return write_aside(Writer.begin(folder, federation.header), federation.rounds())


def _single(rounds: Iterator[object], many: int) -> None:
    """Use one thread: on a busy machine, threads that wait for each other can be slower."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _next(rounds, many)
    finally:
        torch.set_num_threads(threads)


def _loop(federation: "Federation") -> Iterator["dict[str, torch.Tensor]"]:
    """Federated averaging as people write it: a DataLoader and a copy of the model per client."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    recipe, pool = federation.recipe, federation.pool
    loaders = [
        DataLoader(
            TensorDataset(torch.tensor(pool.x[rows]), torch.tensor(pool.y[rows])),
            batch_size=recipe.batch_size,
            shuffle=True,
        )
        for rows in federation.clients
    ]
    shares = [len(rows) / sum(map(len, federation.clients)) for rows in federation.clients]
    model = recipe.network()
    while True:
        states = []
        for loader in loaders:
            local = copy.deepcopy(model)
            local.train()
            optimiser = torch.optim.SGD(local.parameters(), lr=recipe.lr)
            for _ in range(recipe.epochs):
                for x, y in loader:
                    optimiser.zero_grad()
                    torch.autograd.backward(torch.nn.functional.cross_entropy(local(x), y))
                    optimiser.step()
            states.append(local.state_dict())
        pairs = list(zip(shares, states, strict=True))
        mean = {
            name: torch.stack([s * state[name] for s, state in pairs]).sum(0) for name in states[0]
        }
        model.load_state_dict(mean)
        yield mean


def _workloads(quick: bool) -> Iterator[Workload]:  # noqa: FBT001 (as in run)
    from divulge.federation.fedavg import Federation
    from divulge.federation.partition import equal_sizes, iid
    from divulge.training.recipe import Recipe

    pool, source = _digits(1_000 if quick else 6_000)
    for name, network, rounds in (("small-cnn", _small, 3), ("mnist-cnn", _mnist, 1)):
        for clients in (10, 100):
            recipe = Recipe(network, lr=0.05, epochs=1, batch_size=32)
            client_rows = iid(pool, equal_sizes(len(pool), clients))
            federation = Federation(pool, client_rows, recipe)
            yield Workload(name, source, federation, 1 if quick else rounds)


def _digits(records: int) -> tuple[Records, str]:
    """MNIST where it is at hand, else noise of its shape: the steps cost the same."""
    try:
        return data.mnist().take(np.arange(records)), "MNIST"
    except MissingData:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(records, 1, 28, 28)).astype(np.float32)
        return Records(x, rng.integers(0, 10, records)), "synthetic noise of the shape of MNIST"


def _small() -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(16 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(*first, *second, *head)


def _mnist() -> "nn.Module":
    """Two convolutions, a pooling and two dense layers: 1.2 million weights."""
    from torch import nn

    features = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*features, *head)
