"""A fleet of small networks against the PyTorch tutorial's loop, one model after another."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool

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
    once,
    table,
    verdict,
)
from divulge.attacks.membership.lira import LiRA
from divulge.core import Estimate, ModelView, Records, Shadows
from divulge.metrics import signals
from divulge.metrics.membership import auc

if TYPE_CHECKING:
    from torch import nn

    from divulge.core import Target
    from divulge.training.fleet import Fleet
    from divulge.training.recipe import Recipe

SUMMARY = "sixteen small networks, and PyTorch as its tutorial trains them one after another"

_MODELS = 16


class Workload(NamedTuple):
    """Training task of both sides, and the data that the models are tested on."""

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
    """Print, for dense and convolutional networks, how long both sides take and how they do.

    Most entries of the first workload are zero, and none of the second.

    Beside the times stands the least that the machine could take: the multiplications and
    additions of training, at the rate of its matrix products. Beside the accuracies stands what
    LiRA finds in one of the models with the others as shadows.

    Raises:
        MissingPeer: PyTorch is not installed.
    """
    if find_spec("torch") is None:
        raise MissingPeer("torch", "torch")
    import torch

    threads, rate = torch.get_num_threads(), measure_rate()
    print(f"{environment(('divulge', 'torch'))}; the tutorial on {threads} threads")
    print(f"matrix products of float32 on all threads: {rate / 1e9:.0f} GFLOP/s")
    workloads = (_baskets(quick), _standardised(quick), _images(quick))
    outcomes = [_compare(workload, rate, quick) for workload in workloads]
    ours = Timing("all, ours", [sum(outcome.ours.best for outcome in outcomes)])
    theirs = Timing("all, theirs", [sum(outcome.theirs.best for outcome in outcomes)])
    print("last line: all workloads together, best runs")
    return Outcome(ours, theirs)


def _compare(workload: Workload, rate: float, quick: bool) -> Outcome:  # noqa: FBT001 (as in run)
    from divulge.training.fleet import Fleet

    trained: dict[str, Sequence[Target]] = {}
    fleet = Fleet(workload.recipe)
    print(
        f"\n{workload.name}: {_MODELS} models, {len(workload.pool):,} records, {workload.data}, "
        f"{np.mean(workload.pool.x == 0):.0%} of its entries zero"
    )
    cold = once(Contender("divulge: Fleet, cold, with its trial", lambda: _fleet(fleet, workload)))
    fleet = fleet.settled(workload.pool, workload.halves)
    print(f"Fleet chose {fleet.chosen}")
    ours = Contender("divulge: Fleet", lambda: trained.update(ours=_fleet(fleet, workload)))
    threaded = Contender("tutorial", lambda: trained.update(theirs=_tutorials(workload)))
    single = Contender("tutorial, one thread", lambda: _single_threaded(workload))
    contenders = [ours, threaded, single]
    if not quick:  # processes take longer to start than a quick fleet to train
        awake = Fleet(workload.recipe, way="processes")
        _fleet(awake, workload)  # starts them, as any work of more than some seconds does
        contenders.append(Contender("divulge: processes, awake", lambda: _fleet(awake, workload)))
    timings = interleaved(contenders, 1 if quick else 2)
    outcome = Outcome(timings[0], min(timings[1:3], key=lambda timing: timing.best))
    print(table([*timings, cold], base=timings[0]))
    samples = int(workload.halves.sum()) * workload.recipe.epochs
    limit = count_operations(workload.recipe, workload.pool) * samples / rate
    print(f"the machine's limit: {limit:.2f} s; share of it that is reached:", end="")
    print("".join(f" {limit / t.best:.0%} {t.name};" for t in timings))
    for side, models in trained.items():
        leak = _leak(models, workload)
        print(
            f"{side}: mean test accuracy {_accuracy(models, workload.test):.4f}, "
            f"AUC of LiRA {leak.value:.3f} [{leak.low:.3f}, {leak.high:.3f}]"
        )
    print(f"theirs: {outcome.theirs.name}, the faster one")
    print(verdict(f"fleet-{workload.name}", outcome))
    return outcome


def _leak(models: "Sequence[Target]", workload: Workload) -> Estimate:
    """How well LiRA tells the records of the first model, with the others as its shadows."""
    columns = [
        signals.compute_signal("scaled_logit", model.predict(workload.pool.x), workload.pool.y)
        for model in models
    ]
    shadows = Shadows(
        phi=np.stack(columns[1:], axis=1),
        member=workload.halves[1:].T,
        reference_phi=np.empty((0, _MODELS - 1)),
    )
    view = ModelView(models[0], workload.pool, shadows=shadows)
    return auc(LiRA()(view, np.random.default_rng(0)).score, workload.halves[0])


def _fleet(fleet: "Fleet", workload: Workload) -> "list[Target]":
    return list(fleet.many(workload.pool, workload.halves, range(_MODELS)))


def _tutorials(workload: Workload) -> "list[Target]":
    return [
        _tutorial(workload.recipe, workload.pool.take(half), seed)
        for seed, half in enumerate(workload.halves)
    ]


def _single_threaded(workload: Workload) -> None:
    """Use one thread: on a busy machine, threads that wait for each other can be slower."""
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

    from divulge.targets.torch import TorchTarget

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


def _baskets(quick: bool) -> Workload:  # noqa: FBT001 (as in run)
    from divulge.training.recipe import Recipe

    records = 500 if quick else 10_000
    try:
        both, name = data.retail_100(), "Retail-100"
    except MissingData:
        both = _synthetic_baskets(records + 5_000)
        name = "synthetic baskets of the shape of Retail-100"
    recipe = Recipe(_perceptron, lr=0.1, momentum=0.9, epochs=8, batch_size=100)
    return Workload("dense-zeros", name, recipe, *_split(both, records))


def _standardised(quick: bool) -> Workload:  # noqa: FBT001 (as in run)
    from divulge.training.recipe import Recipe

    records = 500 if quick else 10_000
    both, name = _fashion_mnist(records + 5_000)
    x = both.x.reshape(len(both), -1)
    x = (x - x.mean()) / x.std()
    recipe = Recipe(_perceptron_of_images, lr=0.02, momentum=0.9, epochs=8, batch_size=100)
    pool, test = _split(Records(x, both.y), records)
    return Workload("dense", f"standardised {name}", recipe, pool, test)


def _images(quick: bool) -> Workload:  # noqa: FBT001 (as in run)
    from divulge.training.recipe import Recipe

    records = 250 if quick else 2_000
    both, name = _fashion_mnist(records + 2_000)
    epochs = 3 if quick else 12
    recipe = Recipe(_convolutional, lr=0.05, momentum=0.9, epochs=epochs, batch_size=64)
    return Workload("cnn", name, recipe, *_split(both, records))


def _fashion_mnist(records: int) -> tuple[Records, str]:
    """The official training images, or as many synthetic ones, and their name."""
    try:
        return data.fashion_mnist().take(np.arange(60_000)), "Fashion-MNIST"
    except MissingData:
        return _synthetic_images(records), "synthetic images of the shape of Fashion-MNIST"


def _split(both: Records, records: int) -> tuple[Records, Records]:
    """A pool, and up to 5,000 records that no model learns."""
    order = np.random.default_rng(1).permutation(len(both))
    return both.take(order[:records]), both.take(order[records : records + 5_000])


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


def _perceptron_of_images() -> "nn.Module":
    from torch import nn

    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def _convolutional() -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(*first, *second, *head)
