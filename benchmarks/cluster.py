"""Shadow models on a Ray cluster of one and of two workers, and what more of them would do."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil

from benchmarks.timing import MissingPeer, Outcome, Timing, environment
from divulge.core import Records
from divulge.training.shadows.store import RowFile
from divulge.training.shadows.workload import ShadowWorkload, train_batch

if TYPE_CHECKING:
    from torch import nn

SUMMARY = "shadow models on a Ray cluster of 1 and 2 workers, and a reckoning for 10 to 1,000"

FEATURES, CLASSES, EPOCHS = 100, 10, 10
MILLION, SHADOWS = 1_000_000, 1_000


class UnitCosts(NamedTuple):
    """Seconds of the parts of the work, from which more workers are reckoned."""

    training: float
    """A model and record, one core: training on half of the records, and asking about all."""
    overhead: float
    """A task that does nothing, once workers are there."""
    sending: float
    """A gigabyte of records to a second machine, by the network of this one to itself."""
    collecting: float
    """A gigabyte of predictions from a second machine, until it is on this one's disk."""
    attacking: float
    """A candidate and shadow model, by lira and rmia, one core of one machine."""


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print the efficiency of two workers, each pinned to a core, and the reckoning.

    Raises:
        MissingPeer: Ray or PyTorch is not installed.
    """
    for package in ("ray", "torch"):
        if find_spec(package) is None:
            raise MissingPeer(package, package)
    records, models = (2_000, 8) if quick else (20_000, 16)
    print(environment(("divulge", "torch", "ray")))
    print(f"{models} models of {FEATURES}-256-{CLASSES} on {records:,} SYNTHETIC records")
    work = _workload(records, models)
    with _cluster() as (there, add):
        alone = min(_seconds(there, work) for _ in range(2))
        add()
        both = min(_seconds(there, work) for _ in range(2))
        measured = _measure(there, work, quick)
    print(f"\n{'workers':>10}{'seconds':>10}{'efficiency':>12}")
    print(f"{1:>10}{alone:>10.2f}{1:>12.2f}\n{2:>10}{both:>10.2f}{alone / 2 / both:>12.2f}")
    _reckon(measured)
    return Outcome(Timing("two workers", [both]), Timing("one worker", [alone]))


def _workload(records: int, models: int) -> ShadowWorkload:
    from divulge.training.fleet import Fleet
    from divulge.training.recipe import Recipe

    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, records)
    x = (rng.normal(size=(records, FEATURES)) + np.eye(CLASSES, FEATURES)[y]).astype(np.float32)
    pool = Records(x, y)
    recipe = Recipe(_network, lr=0.05, momentum=0.9, epochs=EPOCHS, batch_size=256)
    trainer = Fleet(recipe, "one-by-one", workers=1)
    subsets = rng.random((models, records)) < 0.5
    return ShadowWorkload(trainer, pool, (pool,), subsets, range(models))


def _network() -> "nn.Module":
    from torch import nn

    return nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, CLASSES))


@contextmanager
def _cluster() -> Iterator[Any]:
    """A cluster of one worker on the first core, and what adds one on the second."""
    import ray
    from ray.cluster_utils import Cluster

    from divulge.training.cluster import RayCluster

    cluster: Any = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    pinned: set[int] = set()

    def pin(core: int) -> None:
        """Bind the newest machine to a core; the workers that it starts are bound with it."""
        for process in psutil.Process().children(recursive=True):
            if process.name() == "raylet" and process.pid not in pinned:
                pinned.add(process.pid)
                for pinned_process in (process, *process.children(recursive=True)):
                    pinned_process.cpu_affinity([core])

    def add() -> None:
        cluster.add_node(num_cpus=1)
        pin(1)

    pin(0)
    try:
        with RayCluster(cluster.address).session():
            yield RayCluster(cluster.address), add
    finally:
        cluster.shutdown()
        gc.collect()
        assert not ray.is_initialized()


def _seconds(there: Any, work: ShadowWorkload) -> float:
    """Seconds of all models; workers that must start and import have done so before."""
    from divulge.training.shadows.ray import RayWorkers

    workers = RayWorkers(there.address)
    many = len(work.seeds)
    for _ in workers.train(work, range(min(2, many))):
        pass
    begun = time.perf_counter()
    for _ in workers.train(work, range(many)):
        pass
    return time.perf_counter() - begun


def _measure(there: Any, work: ShadowWorkload, quick: bool) -> UnitCosts:  # noqa: FBT001 (as run)
    """Seconds of each part; one warm call of each comes before."""
    from divulge.training import cluster

    records, size = len(work.pool), 2**22 if quick else 2**26  # float32: 16 or 256 MiB
    with there.session() as ray:
        for many in (20, 50 if quick else 500):
            begun = time.perf_counter()
            list(cluster.collect(ray, cluster.submit(ray, _nothing, (), range(many))))
        overhead = (time.perf_counter() - begun) / many
        for _ in range(2):
            shared = [cluster.share(ray, np.zeros(size, np.float32))]
            # two tasks that wait for each other are on two machines, one of which has the array
            begun = time.perf_counter()
            list(cluster.collect(ray, cluster.submit(ray, _hold, shared, range(2))))
            sending = time.perf_counter() - begun - HELD
        for _ in range(2):
            begun = time.perf_counter()
            tasks = cluster.submit(ray, _answer, (), [size // 2] * 2)
            with TemporaryDirectory() as folder:
                file = RowFile(Path(folder), "rows", 2, size // 2)
                for k, row in cluster.collect(ray, tasks):
                    file.put(k, row)
            collecting = time.perf_counter() - begun - HELD
    begun = time.process_time()
    trained = list(train_batch(work, range(2)))
    training = (time.process_time() - begun) / 2 / records
    assert len(trained) == 2
    gigabytes = 4 * size / 1e9
    return UnitCosts(
        training, overhead, sending / gigabytes, collecting / 2 / gigabytes, _attacking(quick)
    )


HELD = 1.0
"""Seconds for which a task of the measurement holds its worker, so that the next goes elsewhere."""


def _nothing(item: int) -> int:
    return item


def _hold(array: np.ndarray, item: int) -> float:
    time.sleep(HELD)
    return float(array[item])


def _answer(size: int) -> np.ndarray:
    time.sleep(HELD)
    return np.zeros(size)


def _attacking(quick: bool) -> float:  # noqa: FBT001 (as run)
    """Seconds a candidate and shadow of lira and rmia, on answers that nobody trained for."""
    from divulge.attacks import catalog
    from divulge.core import ModelView, Shadows
    from divulge.targets.recorded import RecordedTarget

    records, models = (1_000, 20) if quick else (10_000, 200)
    rng = np.random.default_rng(0)
    pool = Records(np.arange(2.0 * records)[:, None], rng.integers(0, CLASSES, 2 * records))
    queries = pool.take(np.arange(records)), pool.take(np.arange(records, 2 * records))
    target = RecordedTarget(queries, rng.dirichlet(np.ones(CLASSES), 2 * records))
    phi = rng.normal(size=(2 * records, models))
    shadows = Shadows(phi[:records], rng.random((records, models)) < 0.5, phi[records:])
    view = ModelView(target, *queries, shadows)
    begun = time.process_time()
    for name in ("lira", "rmia"):
        catalog.attack(name)(view, rng)
    return (time.process_time() - begun) / records / models


CONTROLS = 2
"""How often an attack is carried out again, to see whether its figures can be believed."""

CORES = 16
"""Workers a machine in the reckoning."""


def _reckon(of: UnitCosts) -> None:
    """Print what so many workers do for an audit of a million records with 1,000 shadows."""
    task = of.training * MILLION
    pool, row = 4e-9 * FEATURES * MILLION, 8e-9 * MILLION
    collecting = SHADOWS * row * of.collecting
    attacking = (1 + CONTROLS) * of.attacking * MILLION * SHADOWS
    print(
        f"\nmeasured: {task:.1f} CPU s a model of a million records; {1e3 * of.overhead:.1f} ms a "
        f"task; {of.sending:.2f} s a GB sent to a machine; {of.collecting:.2f} s a GB of "
        f"predictions collected; {1e9 * of.attacking:.0f} ns a candidate and shadow for lira and "
        f"rmia\nreckoned: {MILLION:,} records, {SHADOWS:,} shadows, {CORES} workers a machine; "
        "records are sent to one machine after another; predictions are collected meanwhile; both "
        f"attacks are carried out on one core, {1 + CONTROLS} times, for their controls"
    )
    head = (
        "workers",
        "training s",
        "sending s",
        "collecting s",
        "attacks s",
        "total h",
        "efficiency",
    )
    print("".join(f"{title:>14}" for title in head))
    alone = None
    for workers in (1, 2, 10, 100, 1_000):
        training = -(-SHADOWS // workers) * (task + of.overhead)
        sending = -(-workers // CORES) * pool * of.sending
        total = sending + max(training, collecting) + attacking
        alone = alone or total
        numbers = (f"{number:,.0f}" for number in (training, sending, collecting, attacking))
        shown = (f"{workers:,}", *numbers, f"{total / 3600:.2f}", f"{alone / workers / total:.2f}")
        print("".join(f"{cell:>14}" for cell in shown))
