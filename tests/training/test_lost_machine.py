"""A machine of a Ray cluster is lost in the middle of each kind of work, which costs no bit."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.attacks import Decaf
from divulge.core import UpdateView
from divulge.federation import Federation, exact
from divulge.training import Recipe
from divulge.training.cluster import RayCluster, cluster_by_name
from divulge_papers.pool import CellWorkers, RemoteCellWorkers

from ..attacks import federations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # files that Ray's cluster leaves open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Log:
    """Who works, in files of a folder; elsewhere than in this process, work waits to be let on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.here = folder, os.getpid()

    def __reduce__(self) -> Any:
        return _restore, (self.folder, self.here)

    def note(self) -> None:
        """Note this process; outside of the one that asks for the work, wait for the loss."""
        (self.folder / str(os.getpid())).touch()
        while os.getpid() != self.here and not (self.folder / "lost").exists():
            time.sleep(0.02)

    @property
    def run(self) -> Path:
        """Where a run folder may be."""
        return self.folder.with_suffix(".run")

    def workers(self) -> set[int]:
        """The processes that worked elsewhere."""
        names = {path.name for path in self.folder.iterdir()} - {"lost", str(self.here)}
        return set(map(int, names))


def _restore(folder: Path, here: int) -> Log:
    log = Log(folder)
    log.here = here
    return log


def train(log: Log, x: np.ndarray, y: np.ndarray, seed: int) -> DecisionTreeClassifier:
    log.note()
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)


def network(log: Log) -> Any:
    log.note()
    return federations.relu()


def measure(log: Log, item: int) -> int:
    log.note()
    return 3 * item


def records() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6))
    return x, np.where(rng.random(200) < 0.3, rng.integers(0, 3, 200), x[:, :3].argmax(axis=1))


def arrays(run: Path) -> dict[str, bytes]:
    """What a run folder holds in arrays: predictions of models, and scores of attacks."""
    found = {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in run.rglob("*.np[yz]")
        if "candidates" not in path.name
    }
    assert found
    return found


def audit(log: Log, workers: str) -> Any:
    x, y = records()
    divulge.audit(
        train(log, x[:100], y[:100], 0),
        members=(x[:100], y[:100]),
        nonmembers=(x[100:], y[100:]),
        shadows=divulge.ShadowModels(6, partial(train, log), workers=workers),
        attacks=[divulge.attack("calibrated")],
        run=log.run,
    )
    return arrays(log.run)


def leave_one_out(log: Log, workers: str) -> Any:
    rotation = divulge.Rotation(models=6, targets=2, workers=workers)
    attacks = [divulge.attack("calibrated")]
    how = partial(train, log)
    divulge.leave_one_out(how, records=records(), attacks=attacks, rotation=rotation, run=log.run)
    return arrays(log.run)


def compare(log: Log, workers: str) -> Any:
    rotation = divulge.Rotation(models=6, targets=2, workers=workers)
    attacks = [divulge.attack("calibrated")]
    ways = {"plain": partial(train, log), "flat": DecisionTreeClassifier(max_depth=2)}
    divulge.compare(ways, records=records(), attacks=attacks, rotation=rotation, run=log.run)
    return arrays(log.run)


def federation(log: Log, workers: str | int) -> Federation:
    pool = federations.records(240, 100)
    recipe = Recipe(partial(network, log), lr=0.05, epochs=1, batch_size=20)
    return Federation(pool, exact(pool, federations.COUNTS), recipe, workers=workers)


def federate(log: Log, workers: str) -> Any:
    with closing(federation(log, workers).rounds()) as play:  # type: ignore[type-var]
        rounds = list(islice(play, 2))
    return [
        {name: array.tolist() for name, array in update.tensors.items()}
        for one in rounds
        for update in one.received.values()
    ]


def decaf(log: Log, workers: str) -> Any:
    with closing(federation(Log(log.folder), 1).rounds()) as play:  # type: ignore[type-var]
        seen = next(play)
    known = federations.reference()
    views = [UpdateView(k, (seen,), partial(network, log), known) for k in seen.received]
    attack = Decaf(level="virtual", clients=24, rounds=1, workers=workers)
    return [one.share.tolist() for one in attack.many(views, np.random.default_rng(0))]


def reproduce(log: Log, workers: str) -> Any:
    cluster = cluster_by_name(workers)
    cell_workers = CellWorkers(1) if cluster is None else RemoteCellWorkers(cluster)
    with cell_workers as there:
        return sorted(there.each(partial(measure, log), range(6)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of one machine, and this process connected to it."""
    utils = pytest.importorskip("ray.cluster_utils")
    head = {"num_cpus": 1, "include_dashboard": False}
    there = utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        with RayCluster(there.address).session():
            yield there
    finally:
        there.shutdown()
        del there
        gc.collect()  # here, and not in another test, Ray's open files may be found


@pytest.mark.parametrize("job", [audit, leave_one_out, compare, federate, decaf, reproduce])
def test_a_lost_machine_costs_no_bit(
    job: Callable[[Log, str], Any], cluster: Any, tmp_path: Path
) -> None:
    """Workers wait until one on each machine has begun and the second machine is gone."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    expected = job(Log(alone), "local")
    log, over = Log(together), threading.Event()
    losing = threading.Thread(target=_lose, args=(cluster, cluster.add_node(num_cpus=1), log, over))
    losing.start()
    try:
        found = job(log, f"ray:{cluster.address}")
    finally:
        over.set()
        losing.join()
    assert found == expected
    assert len(log.workers()) >= 2
    assert (together / "lost").exists()


def _lose(cluster: Any, node: Any, log: Log, over: threading.Event) -> None:
    """Lose the machine once a worker on each has begun: one of them dies, the other goes on."""
    while len(log.workers()) < 2 and not over.wait(0.02):
        pass
    workers = log.workers()
    cluster.remove_node(node, allow_graceful=False)
    while all(map(_is_alive, workers)) and not over.wait(0.02):
        pass
    (log.folder / "lost").touch()


def _is_alive(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
