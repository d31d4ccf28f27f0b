"""Work for the workers of a Ray cluster, each of which has one processor.

What all pieces of the work need goes to each machine of the cluster once. A piece whose worker or
machine is lost goes to another worker.
"""

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from divulge._util.contents import quote_error
from divulge._util.extras import name_missing_extra
from divulge._util.imports import USER_MODULE_PREFIX
from divulge._util.redaction import redact_foreign
from divulge.errors import DivulgeError, SpecError, TargetError

R = TypeVar("R")

RETRIES = 3
"""How often a piece whose worker died is given to another one."""

CONNECT_TIMEOUT = 10.0
"""Seconds within which a cluster must answer."""

_CONNECT = "import ray, sys; print('ready', flush=True); ray.init(sys.argv[1], log_to_driver=False)"

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # an audit is nobody else's business
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # Ray's C++ writes to the terminal, whatever Python asks for
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # what its threads print, such as a lost machine's last log
}
"""Settings of Ray that only the environment takes; some are read when it is imported."""


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A cluster, and what divulge does with it.

    Args:
        address: ``auto`` or ``HOST:PORT`` of a cluster that is there; none: one is started on this
            machine's cores, and ended afterwards.

    Raises:
        MissingExtra: Ray is not installed.
    """

    address: str | None = None

    def __post_init__(self) -> None:
        _import_ray()

    def session(self) -> AbstractContextManager[Any]:
        """Ray, connected to the cluster; within another session, or the user's own, the same.

        Raises:
            SpecError: no cluster answers.
        """
        return _ray_session(self.address)

    def processors(self) -> int:
        """How many pieces of work can be done at once."""
        with self.session() as ray:
            return count_processors(ray)


def cluster_by_name(name: str) -> RayCluster | None:
    """The cluster that ``ray`` or ``ray:ADDRESS`` names; None for ``local``.

    Raises:
        SpecError: the name is another one.
        MissingExtra: Ray is not installed.
    """
    kind, _, address = name.partition(":")
    if name == "local":
        return None
    if kind == "ray" and (address or name == "ray"):
        return RayCluster(address or None)
    raise SpecError(
        f"expected workers to be local, ray, ray:auto or ray:HOST:PORT, got {name!r}: "
        "leave it out to work in this process"
    )


def count_processors(ray: Any) -> int:
    """How many processors the cluster has now."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def share(ray: Any, value: Any) -> Any:
    """A value in the cluster's memory, from where it goes to each machine once.

    Code of modules that no worker could import goes along: the Python file beside an ``audit.toml``
    is such a module.

    Raises:
        SpecError: the value cannot be sent.
    """
    files = [m for name, m in sys.modules.items() if name.startswith(USER_MODULE_PREFIX)]
    for module in files:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        return ray.put(value)
    except Exception as error:
        raise SpecError(
            f"expected a trainer that can be sent to workers, got {type(error).__name__}: {error}: "
            "leave out what cannot be pickled, such as open files, or train in this process"
        ) from error
    finally:
        for module in files:
            ray.cloudpickle.unregister_pickle_by_value(module)


def submit(
    ray: Any, do: Callable[..., R], shared: Iterable[Any], items: Iterable[Any]
) -> dict[Any, int]:
    """Begin ``do(*shared, item)`` for each item on the workers.

    Args:
        ray: a session.
        do: a function of a module of divulge, or of one that workers can import.
        shared: what `share` returned.
        items: one for each call; small, as each is sent by itself.

    Returns:
        For `collect`: the position of its item for each task.
    """
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_do_on_one_core)
    shared = tuple(shared)
    return {task.remote(do, item, *shared): k for k, item in enumerate(items)}


def collect(ray: Any, running: dict[Any, int]) -> Generator[tuple[int, Any]]:
    """The position and the result of each task that was begun, as soon as it is there.

    Raises:
        TargetError: a call failed, or workers died again and again.
        DivulgeError: a call raised it.
    """
    while running:
        done, _ = ray.wait(list(running))
        yield running.pop(done[0]), _fetch(ray, done[0])


def _do_on_one_core(do: Callable[..., R], item: Any, *shared: Any) -> R:
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # joblib's word for: start no processes beside this one
    return do(*shared, item)


def _fetch(ray: Any, task: Any) -> Any:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:  # raised by the work itself
        cause = error.cause
        if isinstance(cause, DivulgeError):
            raise cause from None
        raise TargetError(
            f"expected work to be done elsewhere as here, got {type(cause).__name__}: "
            f"{quote_error(cause)}: leave workers out to see why"
        ) from error
    except ray.exceptions.RayError as error:
        raise TargetError(
            f"expected workers to finish their work, one after another died {RETRIES + 1} times "
            f"with the same piece ({type(error).__name__}): see their memory, or work in this "
            "process; what is finished is kept, continue with --resume"
        ) from error


@contextmanager
def _ray_session(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster; one that was started for this is ended."""
    ray = _import_ray()
    if ray.is_initialized():  # whoever did that goes on using it
        yield ray
        return
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    here = {"num_cpus": os.cpu_count(), "include_dashboard": False}
    try:
        if address:
            _check_reachable(address)
        with _silence_warnings(), _silence_stderr():
            ray.init(address or "local", **quiet, **({} if address else here))
    except Exception as error:
        raise SpecError(
            f"expected a Ray cluster at {address or 'this machine'}, got {type(error).__name__}: "
            f"{redact_foreign(str(error))}: start one with `ray start --head`, or leave out the "
            "address"
        ) from error
    try:
        yield ray
    finally:
        with _silence_warnings():
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Connect in a process that can be ended: Ray itself asks for minutes, deaf to signals.

    A port that somebody listens on is not enough: it need not be a cluster.

    Raises:
        TimeoutError: nobody answers in time.
        ConnectionError: somebody answers, but it is no cluster.
    """
    command = [sys.executable, "-c", _CONNECT, address]
    with subprocess.Popen(  # noqa: S603 (the address is an argument, and no code)
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as tried:
        assert tried.stdout is not None
        tried.stdout.readline()  # Ray is there: on a busy machine its import alone may take long
        try:
            _, stderr = tried.communicate(timeout=CONNECT_TIMEOUT)
        except subprocess.TimeoutExpired:
            tried.kill()
            raise TimeoutError(f"no answer within {CONNECT_TIMEOUT:g} seconds") from None
    if tried.returncode != 0:
        lines = stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ConnectionError(lines[-1][:300])


def _import_ray() -> Any:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    with name_missing_extra(), _silence_warnings():
        return importlib.import_module("ray")


@contextmanager
def _silence_warnings() -> Iterator[None]:
    """Ray warns of its own future, and of files that it leaves open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Ray's C++ says on the terminal that it was told to say nothing."""
    copy = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(copy, 2)
        os.close(copy)
