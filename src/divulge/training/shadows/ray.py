"""Train shadow models on a Ray cluster, in batches, each as a remote task."""

import importlib
import os
import socket
import sys
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from divulge._util.imports import SUBJECT_PREFIX
from divulge.core import Records
from divulge.errors import DivulgeError, MissingExtra, SpecError, TargetError
from divulge.training.shadows.workers import Trained, Work, wave

RETRIES = 3
"""How often a wave whose worker died is given to another one."""

PATIENCE = 10.0
"""Seconds within which a cluster must answer."""


@runtime_checkable
class Wide(Protocol):
    """A trainer that knows how many models it had best train together."""

    def width(self, pool: Records) -> int:
        """How many models the trainer had best train at once from this pool."""
        ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """Workers of one processor each; a wave whose worker or machine is lost goes to another.

    Args:
        address: ``auto`` or ``HOST:PORT`` of a cluster that is there; none: one is started on this
            machine's cores, and ended afterwards.

    Raises:
        MissingExtra: Ray is not installed.
    """

    address: str | None = None

    def __post_init__(self) -> None:
        _ray()

    def processors(self) -> int:
        """How many models can be in training at once."""
        with _connected(self.address) as ray:
            return _processors(ray)

    def train(self, work: Work, models: Sequence[int]) -> Generator[Trained]:
        """These models, wave by wave as they finish.

        Raises:
            TargetError: a model could not be trained, or workers died again and again.
        """
        if not models:
            return
        with _connected(self.address) as ray:
            task, shared = ray.remote(num_cpus=1, max_retries=RETRIES)(_wave), _sent(ray, work)
            width = _width(work, len(models), _processors(ray))
            starts = range(0, len(models), width)
            waiting = [task.remote(shared, models[start : start + width]) for start in starts]
            while waiting:
                done, waiting = ray.wait(waiting)
                yield from _result(ray, done[0])


def _wave(work: Work, models: Sequence[int]) -> list[Trained]:
    """Train some models on a worker, with one processor for all."""
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # joblib's word for: start no processes beside this one
    return list(wave(work, models))


def _processors(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _width(work: Work, models: int, processors: int) -> int:
    """Models a wave: what the trainer prefers, else few, so that little is lost with a worker."""
    if isinstance(work.trainer, Wide):
        return max(1, work.trainer.width(work.pool))
    return max(1, min(4, models // (2 * processors)))


def _sent(ray: Any, work: Work) -> Any:
    """The work in the cluster's memory, once; with the code of modules that no worker could import.

    The Python file beside an ``audit.toml`` is such a module.
    """
    files = [m for name, m in sys.modules.items() if name.startswith(SUBJECT_PREFIX)]
    for module in files:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        return ray.put(work)
    except Exception as error:
        raise SpecError(
            f"expected a trainer that can be sent to workers, got {type(error).__name__}: {error}: "
            "leave out what cannot be pickled, such as open files, or train in this process"
        ) from error
    finally:
        for module in files:
            ray.cloudpickle.unregister_pickle_by_value(module)


def _result(ray: Any, task: Any) -> list[Trained]:
    try:
        trained: list[Trained] = ray.get(task)
    except ray.exceptions.RayTaskError as error:  # raised by the work itself
        cause = error.cause
        if isinstance(cause, DivulgeError):
            raise cause from None
        raise TargetError(
            f"expected a shadow model to train, got {type(cause).__name__}: {cause}: "
            "train one in this process to see why"
        ) from error
    except ray.exceptions.RayError as error:
        raise TargetError(
            f"expected workers to train models, one after another died {RETRIES + 1} times with "
            f"the same models ({type(error).__name__}): see their memory, or train in this "
            "process; models that are trained are kept, continue with --resume"
        ) from error
    return trained


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster; one that was started for this is ended."""
    ray = _ray()
    if ray.is_initialized():  # whoever did that goes on using it
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # an audit is nobody else's business
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    here = {"num_cpus": os.cpu_count(), "include_dashboard": False}
    try:
        _answering(address)
        with _unwarned():
            ray.init(**quiet, **({"address": address} if address else here))
    except Exception as error:
        raise SpecError(
            f"expected a Ray cluster at {address or 'this machine'}, got {type(error).__name__}: "
            f"{error}: start one with `ray start --head`, or leave out the address"
        ) from error
    try:
        yield ray
    finally:
        with _unwarned():
            ray.shutdown()


def _answering(address: str | None) -> None:
    """Ray itself would ask a port where nobody listens for minutes.

    Raises:
        OSError: nobody does.
        ValueError: the address has no port.
    """
    if address and address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _ray() -> Any:
    try:
        with _unwarned():
            return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtra("ray", "ray") from error


@contextmanager
def _unwarned() -> Iterator[None]:
    """Ray warns of its own future, and of files that it leaves open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
