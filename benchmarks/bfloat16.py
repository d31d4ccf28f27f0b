"""Fleets in bfloat16 against fleets in float32: CPU seconds, and what LiRA finds with each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.networks import dense
from benchmarks.timing import MissingProcessor, Outcome, Timing, environment, require_packages
from divulge.attacks.membership.lira import LiRA
from divulge.core import ModelView, Records, Shadows, Target
from divulge.metrics import signals
from divulge.metrics.intervals import student_mean
from divulge.metrics.membership import auc, tpr_at_fpr

if TYPE_CHECKING:
    from divulge.training.recipe import Precision

SUMMARY = "dense fleets in bfloat16 and in float32: CPU seconds, and LiRA with 16 shadow models"

_FPR = 0.01
_PRECISIONS: "tuple[Precision, ...]" = ("float32", "bfloat16")


class _Task(NamedTuple):
    """Records whose entries are mostly not zero, and how models of them are trained."""

    name: str
    records: Callable[[], Records]
    hidden: int
    settings: dict[str, Any]


class _PrecisionModels(NamedTuple):
    """The models of one precision."""

    targets: list[Target]
    phi: np.ndarray
    """LiRA's signal of each record in each model, shape (records, models)."""
    seconds: float


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print a line a task, and the paired differences over tasks with their intervals.

    The models of a task have the same seeds and records in both precisions. Each is the target
    once, in float32, with all others as its shadow models, in one precision and in the other. A
    task's figure is the mean over its targets, and tasks are what the intervals are over. CPU
    seconds are of one thread, and the precisions take turns, a model each.

    Raises:
        MissingPeer: PyTorch or Numba is not installed.
        MissingProcessor: the processor does not multiply in bfloat16.
        MissingData: a data set is not there.
    """
    require_packages(("torch", "numba"), "fast")
    from divulge_fast import kernels

    if not kernels.HAS_BFLOAT16:
        raise MissingProcessor("AVX512-BF16")
    models, size = (5, 1_000) if quick else (17, 5_000)
    print(f"{environment(('divulge', 'torch', 'numba'))}; {models - 1} shadow models a target")
    print(f"{'':32}{'records':>8}{'float32':>9}{'bfloat16':>9}{'gain':>6}", end="")
    print(f"{'AUC':>8}{'change':>10}{'TPR':>8}{'change':>10}   (microseconds a step)")
    changes, seconds = [], []
    for task in _TASKS:
        pool = _draw(task.records(), size)
        halves = np.random.default_rng(0).random((models, len(pool))) < 0.5
        both = _train(task, pool, halves, epochs=3 if quick else 20)
        leaks = [_mean_leak(both[0].targets, side.phi, pool, halves) for side in both]
        seconds.append([side.seconds for side in both])
        changes.append(leaks[1] - leaks[0])
        _print_task(task, pool, halves, both, leaks, epochs=3 if quick else 20)
    for name, of_tasks in zip(
        ("AUC", f"TPR at {_FPR:.0%} FPR"), np.transpose(changes), strict=True
    ):
        low, high = student_mean(of_tasks.tolist())
        mean, most = np.mean(of_tasks), np.abs(of_tasks).max()
        print(f"{name}: change by bfloat16, mean of {len(changes)} tasks, {mean:+.5f}")
        print(f"  95 % interval [{low:+.5f}, {high:+.5f}]; largest {most:.5f}")
    theirs, ours = np.sum(seconds, axis=0)
    print("ours: all tasks in bfloat16; theirs: in float32; CPU seconds of one thread")
    return Outcome(Timing("bfloat16", [float(ours)]), Timing("float32", [float(theirs)]))


def _print_task(
    task: _Task,
    pool: Records,
    halves: np.ndarray,
    both: Sequence[_PrecisionModels],
    leaks: Sequence[np.ndarray],
    epochs: int,
) -> None:
    batch = task.settings.get("batch_size", 100)
    steps = epochs * sum(-(-int(half.sum()) // batch) for half in halves)
    slow, fast = (1e6 * side.seconds / steps for side in both)
    widths = f"{pool.x[0].size}-{task.hidden}-{int(pool.y.max()) + 1}"
    print(f"{task.name + ' ' + widths:32}{len(pool):8,}{slow:9.0f}{fast:9.0f}", end="")
    print(f"{slow / fast:6.2f}{leaks[0][0]:8.4f}{leaks[1][0] - leaks[0][0]:+10.5f}", end="")
    print(f"{leaks[0][1]:8.4f}{leaks[1][1] - leaks[0][1]:+10.5f}", flush=True)


def _train(task: _Task, pool: Records, halves: np.ndarray, epochs: int) -> list[_PrecisionModels]:
    """Both precisions, a model in turn."""
    from divulge.targets.torch import TorchTarget
    from divulge.training.fleet import Fleet
    from divulge.training.recipe import Recipe

    classes = int(pool.y.max()) + 1
    network = partial(dense, pool.x[0].size, task.hidden, classes)
    fleet = Fleet(Recipe(network, epochs=epochs, **task.settings), "compiled", workers=1)
    fleets = [replace(fleet, precision=precision) for precision in _PRECISIONS]
    for fleet in fleets:  # loads the native code
        list(fleet.networks(pool, halves[:1], [0]))
    turns: list[Iterator[Any]] = [
        fleet.networks(pool, halves, range(len(halves))) for fleet in fleets
    ]
    spent, trained = [0.0, 0.0], ([], [])  # type: tuple[list[float], tuple[list[Target], ...]]
    for _ in halves:
        for k, turn in enumerate(turns):
            begun = process_time()
            module = next(turn)
            spent[k] += process_time() - begun
            trained[k].append(TorchTarget(module, "logits"))
    return [
        _PrecisionModels(targets, np.stack([_signal(t, pool) for t in targets], axis=1), seconds)
        for targets, seconds in zip(trained, spent, strict=True)
    ]


def _signal(target: Target, pool: Records) -> np.ndarray:
    return signals.compute_signal("scaled_logit", target.predict(pool.x), pool.y)


def _mean_leak(
    targets: Sequence[Target], phi: np.ndarray, pool: Records, halves: np.ndarray
) -> np.ndarray:
    """AUC and TPR of LiRA, the mean over targets."""
    rates = []
    for k, target in enumerate(targets):
        others = np.arange(len(targets)) != k
        shadows = Shadows(
            phi=phi[:, others],
            member=halves[others].T,
            reference_phi=np.empty((0, len(targets) - 1)),
        )
        score = LiRA()(ModelView(target, pool, shadows=shadows), np.random.default_rng(0)).score
        rates.append([auc(score, halves[k]).value, tpr_at_fpr(score, halves[k], _FPR).value])
    return np.asarray(np.mean(rates, axis=0))


def _draw(records: Records, size: int) -> Records:
    return records.take(np.random.default_rng(1).permutation(len(records))[:size])


def _standardised(load: Callable[[], Records]) -> Records:
    """Flat records whose features have mean 0 and deviation 1, or 0 where they never vary."""
    records = load()
    x = records.x.reshape(len(records), -1)
    spread = x.std(axis=0)
    return Records((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1), records.y)


def _digits() -> Records:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return Records(x.astype(np.float32) / 16, y)


def _flat(load: Callable[[], Records]) -> Records:
    records = load()
    return Records(records.x.reshape(len(records), -1), records.y)


_SGD = {"lr": 0.02, "momentum": 0.9}
_TASKS = (
    _Task("digits", _digits, 128, _SGD | {"batch_size": 64}),
    _Task("location-30", partial(_standardised, data.location_30), 256, _SGD | {"batch_size": 64}),
    _Task("retail-100", partial(_standardised, data.retail_100), 256, _SGD),
    _Task("mnist", partial(_standardised, data.mnist), 128, _SGD | {"batch_size": 64}),
    _Task("fashion-mnist", partial(_flat, data.fashion_mnist), 256, _SGD),
    _Task(
        "fashion-mnist, adam",
        partial(_flat, data.fashion_mnist),
        512,
        {"lr": 1e-3, "optimiser": "adam", "batch_size": 64},
    ),
    _Task("cifar-10", partial(_flat, data.cifar_10), 256, {"lr": 0.01, "momentum": 0.9}),
    _Task("cifar-100", partial(_flat, data.cifar_100), 256, {"lr": 0.01, "momentum": 0.9}),
)
