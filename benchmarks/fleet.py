"""A fleet of small networks against the PyTorch tutorial's loop, one model after another."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool

from benchmarks.timing import (
    Contender,
    MissingPeer,
    Outcome,
    Timing,
    environment,
    interleaved,
    once,
    table,
    verdict,
)
from leakscope.core import Records

if TYPE_CHECKING:
    from torch import nn

    from leakscope.core import Target
    from leakscope.training.fleet import Fleet
    from leakscope.training.recipe import Recipe

SUMMARY = "sixteen small networks, and PyTorch as its tutorial trains them one after another"

_MODELS = 16


class Workload(NamedTuple):
    """What both sides train, and what the models are judged by."""

    name: str
    data: str
    recipe: "Recipe"
    pool: Records
    test: Records

    @property
    def halves(self) -> Bool[np.ndarray, "models records"]:
        """A random half of the pool for each model."""
        return np.random.default_rng(0).random((_MODELS, len(self.pool))) < 0.5


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print times and mean test accuracies of both sides, for a dense and a convolutional network.

    Raises:
        MissingPeer: PyTorch is not installed.
    """
    if find_spec("torch") is None:
        raise MissingPeer("torch", "torch")
    import torch

    print(
        f"{environment(('leakscope', 'torch'))}; the tutorial on {torch.get_num_threads()} threads"
    )
    outcomes = [_compare(workload, quick) for workload in (_dense(quick), _images(quick))]
    ours = Timing("both, ours", [sum(outcome.ours.best for outcome in outcomes)])
    theirs = Timing("both, theirs", [sum(outcome.theirs.best for outcome in outcomes)])
    print("last line: both workloads together, best runs")
    return Outcome(ours, theirs)


def _compare(workload: Workload, quick: bool) -> Outcome:  # noqa: FBT001 (as in run)
    from leakscope.training.fleet import Fleet

    trained: dict[str, Sequence[Target]] = {}
    fleet = Fleet(workload.recipe)
    ours = Contender("leakscope: Fleet", lambda: trained.update(ours=_fleet(fleet, workload)))
    threaded = Contender("tutorial", lambda: trained.update(theirs=_tutorials(workload)))
    single = Contender("tutorial, one thread", lambda: _single_threaded(workload))
    print(f"\n{workload.name}: {_MODELS} models, {len(workload.pool):,} records, {workload.data}")
    print(f"Fleet chose {fleet.chosen}")
    first = once(ours._replace(name="leakscope: Fleet, starting its processes"))
    timings = interleaved([ours, threaded, single], 1 if quick else 2)
    outcome = Outcome(timings[0], min(timings[1:], key=lambda timing: timing.best))
    print(table([*timings, first], base=timings[0]))
    for side, models in trained.items():
        print(f"mean test accuracy, {side}: {_accuracy(models, workload.test):.4f}")
    print(f"theirs: {outcome.theirs.name}, the faster one")
    print(verdict(f"fleet-{workload.name}", outcome))
    return outcome


def _fleet(fleet: "Fleet", workload: Workload) -> "list[Target]":
    return list(fleet.many(workload.pool, workload.halves, range(_MODELS)))


def _tutorials(workload: Workload) -> "list[Target]":
    return [
        _tutorial(workload.recipe, workload.pool.take(half), seed)
        for seed, half in enumerate(workload.halves)
    ]


def _single_threaded(workload: Workload) -> None:
    """On a busy machine threads that wait for each other can be slower than one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _tutorials(workload)
    finally:
        torch.set_num_threads(threads)


def _tutorial(recipe: "Recipe", records: Records, seed: int) -> "Target":
    """One model as the PyTorch tutorial trains it: modules, and a DataLoader."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from leakscope.targets.torch import TorchTarget

    torch.manual_seed(seed)
    module = recipe.network()
    data = TensorDataset(torch.tensor(records.x), torch.tensor(records.y))
    loader = DataLoader(data, batch_size=recipe.batch_size, shuffle=True)
    optimiser = torch.optim.SGD(module.parameters(), recipe.lr, recipe.momentum)
    for _ in range(recipe.epochs):
        for x, y in loader:
            optimiser.zero_grad()
            torch.autograd.backward(torch.nn.functional.cross_entropy(module(x), y))
            optimiser.step()
    return TorchTarget(module, "logits")


def _accuracy(models: "Sequence[Target]", test: Records) -> float:
    return float(np.mean([(m.predict(test.x).argmax(axis=1) == test.y).mean() for m in models]))


def _dense(quick: bool) -> Workload:  # noqa: FBT001 (as in run)
    from leakscope.training.recipe import Recipe

    records = 4_000 if quick else 20_000
    folder = os.environ.get("LEAKSCOPE_DATA")
    path = Path(folder or "") / "retail-baskets" / "retail100.npz"
    real = folder is not None and path.is_file()
    both = _baskets(path) if real else _synthetic_baskets(records + 5_000)
    recipe = Recipe(_perceptron, lr=0.1, momentum=0.9, epochs=3, batch_size=100)
    data = "Retail-100" if real else "synthetic baskets of the shape of Retail-100"
    return Workload("dense", data, recipe, *_split(both, records))


def _images(quick: bool) -> Workload:  # noqa: FBT001 (as in run)
    from leakscope.training.recipe import Recipe

    records = 1_000 if quick else 3_000
    recipe = Recipe(_convolutional, lr=0.02, momentum=0.9, epochs=3, batch_size=64)
    data = "synthetic images of the shape of Fashion-MNIST"
    return Workload("cnn", data, recipe, *_split(_synthetic_images(records + 2_000), records))


def _split(both: Records, records: int) -> tuple[Records, Records]:
    """A pool, and up to 5,000 records that no model learns."""
    order = np.random.default_rng(1).permutation(len(both))
    return both.take(order[:records]), both.take(order[records : records + 5_000])


def _baskets(path: Path) -> Records:
    with np.load(path, allow_pickle=False) as arrays:
        bits = np.unpackbits(arrays["x_bits"], axis=1)[:, :600]
        return Records(bits.astype(np.float32), arrays["y"].astype(np.int64))


def _synthetic_baskets(records: int) -> Records:
    """Of 600 products each class likes ten; the others are bought by accident."""
    rng = np.random.default_rng(2)
    liked = np.stack([rng.permutation(600) < 10 for _ in range(100)])
    y = rng.integers(0, 100, records)
    chance = np.where(liked[y], 0.4, 0.01)
    return Records((rng.random((records, 600)) < chance).astype(np.float32), y)


def _synthetic_images(records: int) -> Records:
    """Ten blurred patterns under noise."""
    rng = np.random.default_rng(3)
    patterns = rng.normal(size=(10, 1, 7, 7)).repeat(4, axis=2).repeat(4, axis=3)
    y = rng.integers(0, 10, records)
    noise = rng.normal(scale=3.0, size=(records, 1, 28, 28))
    return Records((patterns[y] + noise).astype(np.float32), y)


def _perceptron() -> "nn.Module":
    from torch import nn

    return nn.Sequential(nn.Linear(600, 256), nn.ReLU(), nn.Linear(256, 100))


def _convolutional() -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(*first, *second, *head)
