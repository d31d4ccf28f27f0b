"""Train networks briefly from given weights, many times, as clients of a federation do.

One network object is built once and reused for all trainings of a process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from pickle import loads
from time import perf_counter
from typing import Any, Final, TypeVar
from uuid import uuid4

import numpy as np
import torch

from divulge._util import atomic
from divulge._util.arguments import check_arguments
from divulge._util.packing import pickle_settings
from divulge._util.processes import parallel_calls
from divulge._util.progress import count_within
from divulge.core import Records
from divulge.errors import SpecError
from divulge.targets.batching import translate_model_errors
from divulge.training.engine.loop import (
    Job,
    build_network,
    torch_threads,
)
from divulge.training.engine.native import native_clients
from divulge.training.engine.processes import TemporaryFolder, keep_freed_memory
from divulge.training.engine.reusable import ClientTask, ReusableTrainer, train_tasks
from divulge.training.engine.shared_states import (
    SharedStates,
    StateMemory,
    state_form,
)
from divulge.training.losses import Adversary
from divulge.training.recipe import RaggedRows, Recipe
from divulge.training.tensors import PoolArrays
from divulge.training.weights import as_arrays

T = TypeVar("T")


_SECONDS_BEFORE_PROCESSES: Final = 5.0
"""Seconds of training before processes are started: importing PyTorch takes them some."""

_CHUNKS_PER_PROCESS: Final = 2
"""Pieces of work a process and call: with more of them none waits long for the others."""

_REMEDY: Final = "build the network yourself, and run it on a few records to see why"


def deal(rows: Sequence[RaggedRows], workers: int) -> list[list[int]]:
    """Positions of clients in chunks of like work, some for each worker.

    Examples:
        >>> deal([np.arange(5), np.arange(9), np.arange(7)], 1)
        [[1, 0], [2]]
    """
    many = _CHUNKS_PER_PROCESS * workers
    # the longest ones first, dealt out like cards
    order = sorted(range(len(rows)), key=lambda k: -len(rows[k]))
    return [order[k::many] for k in range(min(many, len(rows)))]


@check_arguments
class ClientWorkers:
    """Trains networks from given starts, in this process at first, later in several.

    Small networks that native code can train are trained in threads of this process, if
    divulge-fast is installed. However many threads or processes there are: each network is trained
    on one thread, and comes out the same, bit for bit, on one machine.

    Args:
        recipe: how a network is trained.
        pool: the records that the networks are trained on.
        workers: how many processes, or threads, are used; one a core unless given.

    Raises:
        SpecError: there are no workers, or the recipe holds records out.
        TargetError: the recipe makes no network.
    """

    def __init__(self, recipe: Recipe, pool: Records, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise SpecError(f"expected workers from 1, got {workers}: leave it out")
        if recipe.selects is not None:
            raise SpecError(
                "expected a recipe without patience and select for clients, got "
                f"{recipe.selects!r}: each trains for the epochs that the server asked for"
            )
        if isinstance(recipe.loss, Adversary):
            raise SpecError(
                f"expected a loss without an adversary for clients, got {recipe.loss!r}: its "
                "records held out are a client's own"
            )
        with translate_model_errors("the recipe to make a network", _REMEDY):
            network = build_network(recipe, Job(np.arange(1), 0))
            self._form = state_form(as_arrays(network.state_dict()))
            self._data = PoolArrays.prepare(pool, network)
            self._native = native_clients(recipe, self._data, network)
        self._recipe, self._workers = recipe, workers
        self._here: ReusableTrainer | None = None
        self._scratch: TemporaryFolder | None = None
        self._states: StateMemory | None = None
        self._spent = 0.0

    def states(
        self, start: Mapping[str, np.ndarray], rows: Sequence[RaggedRows], seeds: Sequence[int]
    ) -> list[dict[str, np.ndarray]]:
        """The state dictionary of each network after its training.

        Args:
            start: the state dictionary from which each of them sets out; what it lacks is fresh.
            rows: for each network, the row numbers of its records in the pool.
            seeds: the seed of each network's own randomness.

        Raises:
            TargetError: a network could not be trained.
        """
        if self._native:
            return self.each(start, rows, seeds, lambda _, trained: trained)
        if not self._uses_processes:
            return self.each(start, rows, seeds, copy_state)
        results, memory = self._memory().take(self._form, len(rows))
        self.each(start, rows, seeds, partial(_write_state_at, results))
        return [results.arrays(memory, k) for k in range(len(rows))]

    def each(
        self,
        start: Mapping[str, np.ndarray],
        rows: Sequence[RaggedRows],
        seeds: Sequence[int],
        use: Callable[[int, dict[str, np.ndarray]], T],
    ) -> list[T]:
        """What a function makes of each network's state after its training.

        Args:
            start: as for `states`.
            rows: as for `states`.
            seeds: as for `states`.
            use: a function of a network's position and state dictionary, called on one thread,
                perhaps in another process. The next training overwrites the state.

        Raises:
            TargetError: a network could not be trained.
        """
        tasks = [ClientTask(*task) for task in zip(rows, seeds, strict=True)]
        with translate_model_errors("a network to train", _REMEDY):
            if self._uses_processes:
                return self._train_elsewhere(start, tasks, use)
            begun = perf_counter()
            with torch_threads(1):
                trained = count_within(
                    self._train_here(start, tasks), len(tasks), "clients trained"
                )
                results = [use(k, model) for k, model in enumerate(trained)]
            self._spent += perf_counter() - begun
            return results

    def one_by_one(
        self, start: Mapping[str, np.ndarray], rows: Sequence[RaggedRows], seeds: Sequence[int]
    ) -> Iterator[dict[str, np.ndarray]]:
        """The states of `states`, trained here; each is overwritten by the next.

        Raises:
            TargetError: a network could not be trained.
        """
        tasks = [ClientTask(*task) for task in zip(rows, seeds, strict=True)]
        with translate_model_errors("a network to train", _REMEDY), torch_threads(1):
            yield from self._train_here(start, tasks)

    @property
    def _uses_processes(self) -> bool:
        waited = self._spent > _SECONDS_BEFORE_PROCESSES
        return waited and self._native is None and self._process_count > 1

    @property
    def _process_count(self) -> int:
        import joblib

        return int(self._workers or joblib.cpu_count())

    def _train_here(
        self, start: Mapping[str, np.ndarray], tasks: Sequence[ClientTask]
    ) -> Iterator[dict[str, np.ndarray]]:
        if self._native:
            return self._native.states(start, tasks, self._process_count)
        if self._here is None:
            self._here = ReusableTrainer(self._recipe, self._data.tensors("cpu"))
        return train_tasks(self._here, start, tasks)

    def _train_elsewhere(
        self,
        start: Mapping[str, np.ndarray],
        tasks: Sequence[ClientTask],
        use: Callable[[int, dict[str, np.ndarray]], T],
    ) -> list[T]:
        from joblib import delayed

        chunks = deal([task.rows for task in tasks], self._process_count)
        folder = self._share_pool()
        given, memory = self._memory().take(state_form(start), 1)
        _write_state(given.arrays(memory, 0), start)
        # sent once a process, however large what it holds
        used = folder / f"use-{uuid4().hex}"
        with atomic.translate_os_errors(used):
            used.write_bytes(pickle_settings(use, self._recipe.network))
        calls = (
            delayed(_train_tasks_in_worker)(folder, given, used, chunk, [tasks[k] for k in chunk])
            for chunk in chunks
        )
        results: dict[int, T] = {}
        made = parallel_calls(calls, self._process_count, batch_size=1, max_nbytes=None)
        counted = count_within(made, len(chunks), "groups of clients trained")
        for chunk, some in zip(chunks, counted, strict=True):
            results |= zip(chunk, some, strict=True)
        used.unlink()
        return [results[k] for k in range(len(tasks))]

    def _memory(self) -> StateMemory:
        if self._states is None:
            self._states = StateMemory(self._share_pool())
        return self._states

    def _share_pool(self) -> Path:
        """The folder where processes read recipe and records; it names these workers."""
        if self._scratch is None:
            self._scratch = TemporaryFolder(self)
            folder = self._scratch.path
            recipe = pickle_settings(self._recipe, self._recipe.network)
            with atomic.translate_os_errors(folder):
                for name, value in self._data._asdict().items():
                    np.save(folder / name, np.asarray(value))
                (folder / "recipe").write_bytes(recipe)
        return self._scratch.path


_trainers_in_worker: dict[Path, ReusableTrainer] = {}
"""The replica of the workers that called last, by their folder; used in worker processes."""

_used_in_worker: dict[Path, Callable[[int, dict[str, np.ndarray]], Any]] = {}
"""The function that states were last used by, by its file."""


def _train_tasks_in_worker(
    folder: Path,
    given: SharedStates,
    used: Path,
    positions: Sequence[int],
    tasks: Sequence[ClientTask],
) -> list[Any]:
    """Train in a process of its own, and use each state."""
    if folder not in _trainers_in_worker:
        if not _trainers_in_worker:
            _set_up_worker()
        _trainers_in_worker.clear()
        _trainers_in_worker[folder] = ReusableTrainer(*_read_shared(folder))
    if used not in _used_in_worker:
        _used_in_worker.clear()
        _used_in_worker[used] = loads(used.read_bytes())  # noqa: S301 (what this program packed)
    use, start = _used_in_worker[used], given.arrays(given.map(), 0)
    states = train_tasks(_trainers_in_worker[folder], start, tasks)
    return [use(position, trained) for position, trained in zip(positions, states, strict=True)]


def copy_state(position: int, trained: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A state to keep, for ``ClientWorkers.each``."""
    del position
    return {name: np.array(array, order="C") for name, array in trained.items()}


def _write_state_at(
    results: SharedStates, position: int, trained: Mapping[str, np.ndarray]
) -> None:
    _write_state(results.arrays(results.map(), position), trained)


def _write_state(place: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]) -> None:
    for name, array in place.items():
        np.copyto(array, state[name])


def _set_up_worker() -> None:
    """Set up a worker process, once: its memory and one thread."""
    keep_freed_memory()
    torch.set_num_threads(1)


def _read_shared(folder: Path) -> tuple[Recipe, Any]:
    x, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in "xy")
    recipe = loads((folder / "recipe").read_bytes())  # noqa: S301 (what this program has packed)
    channels_last = bool(np.load(folder / "channels_last.npy"))
    return recipe, PoolArrays(x, y, channels_last).tensors("cpu")
