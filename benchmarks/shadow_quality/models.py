"""Train the targets and shadows of a task, and keep what they say: what attacks then read."""

import copy
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from benchmarks.shadow_quality.rows import HALVES, MODES, Mode
from benchmarks.shadow_quality.tasks import Task
from divulge._util import atomic
from divulge._util.random import stream
from divulge.core import ModelView, Need, PoolPredictions, Records, Shadows
from divulge.metrics import signals
from divulge.metrics.softened import softened_log_probability
from divulge.targets.recorded import TableTarget

SEEDS = 2
"""Targets that learn the same half: how well their flagged records agree is measured."""


class Model(NamedTuple):
    """A model to be trained: on which records of which pool, from which seed."""

    name: str
    pool: int
    half: Bool[np.ndarray, " records"]
    seed: int


class Games:
    """The targets of one task, and views on them with some of its shadows.

    There are two disjoint pools. All shadows learn from the first: online they face targets of
    that pool, offline targets of the second.

    Args:
        task: records, and how a model of them is trained.
        shadows: how many.
        kept: the folder of what models say.
        seeds: targets that learn the same half, `SEEDS` at most.
    """

    def __init__(self, task: Task, shadows: int, folder: Path, seeds: int = SEEDS) -> None:
        pool = task.records()
        order = np.random.default_rng(0).permutation(len(pool))
        size = task.size
        self._records = pool.take(order[: 2 * size + task.reference])
        self._size = size
        self._task = task
        self._folder = folder
        self._shadows = [
            Model(f"shadow-{k}", 0, stream(0, "shadow", k).random(size) < 0.5, 1_000 + k)
            for k in range(shadows)
        ]
        self._targets: dict[Mode, list[Model]] = {
            mode: [
                Model(f"{mode}-{k}-{s}", pool, _half(size, pool, k), pool * 100 + k * SEEDS + s)
                for k in range(HALVES)
                for s in range(seeds)
            ]
            for mode, pool in _POOLS.items()
        }

    def with_shadows(self, name: str, task: Task) -> "Games":
        """The same targets beside shadows that another task trains on the same records.

        Args:
            name: before the names of their files.
            task: the same records, another trainer.
        """
        other = copy.copy(self)
        other._task = task
        other._shadows = [model._replace(name=f"{name}-{model.name}") for model in self._shadows]
        return other

    def train(self) -> None:
        """Train every model whose answers are not kept yet, and keep its answers."""
        for pool in (0, 1):
            everyone = [*self._shadows, *(model for mode in MODES for model in self._targets[mode])]
            missing = [
                model for model in everyone
                if model.pool == pool and not self._file(model).exists()
            ]  # fmt: skip
            if missing:
                self._train(pool, missing)

    def _train(self, pool: int, models: Sequence[Model]) -> None:
        own = self._records.take(np.arange(pool * self._size, (pool + 1) * self._size))
        halves = np.stack([model.half for model in models])
        seeds = [model.seed for model in models]
        begun = time.process_time()
        trained = self._task.trainer().many(own, halves, seeds)
        for model, target in zip(models, trained, strict=True):
            spent = time.process_time() - begun
            table = TableTarget.record(target, self._records.x)
            raw = table.answers if table.raw is None else table.raw
            atomic.write_arrays(
                self._file(model),
                {"answers": raw, "logits": np.array(table.raw is not None), "cpu": np.array(spent)},
            )
            begun = time.process_time()

    def _file(self, model: Model) -> Path:
        return self._folder / f"{model.name}.npz"

    def _answers(self, model: Model) -> TableTarget:
        with np.load(self._file(model), allow_pickle=False) as arrays:
            raw, logits = arrays["answers"], bool(arrays["logits"])
        offers = Need.PROBABILITIES | Need.HARD_LABELS
        if not logits:
            return TableTarget(raw, offers)
        weights = np.exp(raw - raw.max(axis=1, keepdims=True), dtype=np.float64)
        return TableTarget(weights / weights.sum(axis=1, keepdims=True), offers, raw)

    def _phi(self, model: Model) -> np.ndarray:
        return signals.compute_signal("scaled_logit", self._answers(model).answers, self._records.y)

    def _softened(self, model: Model) -> np.ndarray:
        return softened_log_probability(self._answers(model).answers, self._records.y)

    def shadow_cpu(self) -> float:
        """CPU seconds of the training of one shadow, on average."""
        spent = []
        for model in self._shadows:
            with np.load(self._file(model), allow_pickle=False) as arrays:
                spent.append(float(arrays["cpu"]))
        return float(np.mean(spent))

    def views(self, mode: Mode) -> "Iterator[Views]":
        """Each target, with whom it was trained on."""
        pool = _POOLS[mode]
        rows = np.arange(len(self._records))
        candidates = rows[pool * self._size : (pool + 1) * self._size]
        reference = rows[2 * self._size :]
        phi = np.stack([self._phi(model) for model in self._shadows], axis=1)
        softened = np.stack([self._softened(model) for model in self._shadows], axis=1)
        member = np.stack([model.half for model in self._shadows], axis=1)
        for model in self._targets[mode]:
            yield Views(
                self._answers(model), self._as_records(candidates), self._as_records(reference),
                phi[candidates], member, phi[reference],
                None if mode == "online" else (self._records.y[: self._size], phi[: self._size]),
                model.half, softened[candidates],
            )  # fmt: skip

    def logits(self, mode: Mode) -> dict[str, np.ndarray]:
        """What `benchmarks.peers.drivers.stored` reads: logits, or log probabilities."""
        pool = _POOLS[mode]
        candidates = slice(pool * self._size, (pool + 1) * self._size)
        reference, y = slice(2 * self._size, None), self._records.y
        targets = [self._logits(model) for model in self._targets[mode]]
        shadows = [self._logits(model) for model in self._shadows]
        half = np.stack([model.half for model in self._shadows])
        return {
            "target": np.stack([logits[candidates] for logits in targets]),
            "target_reference": np.stack([logits[reference] for logits in targets]),
            "shadows": np.stack([logits[candidates] for logits in shadows]),
            "shadows_reference": np.stack([logits[reference] for logits in shadows]),
            "half": half if mode == "online" else np.zeros_like(half),
            "member": np.stack([model.half for model in self._targets[mode]]),
            "y": y[candidates],
            "y_reference": y[reference],
        }

    def _logits(self, model: Model) -> np.ndarray:
        table = self._answers(model)
        if table.raw is not None:
            return table.raw
        logits: np.ndarray = np.log(np.maximum(table.answers, signals.SMALLEST))
        return logits

    def first_pool(self) -> tuple[np.ndarray, np.ndarray, Records]:
        """The rows of the first pool, those of the reference records, and all records."""
        rows = np.arange(len(self._records))
        return rows[: self._size], rows[2 * self._size :], self._records

    def _as_records(self, rows: np.ndarray) -> Records:
        """Records whose one feature is their row in the table of answers."""
        return Records(rows[:, None], self._records.y[rows])

    def accuracy(self) -> dict[str, list[float]]:
        """Of each target on the records it was trained on, and on the rest of their pool."""
        accuracies: dict[str, list[float]] = {"members": [], "others": []}
        for mode, pool in _POOLS.items():
            own = slice(pool * self._size, (pool + 1) * self._size)
            for model in self._targets[mode]:
                right = self._answers(model).answers.argmax(axis=1) == self._records.y
                accuracies["members"].append(float(right[own][model.half].mean()))
                accuracies["others"].append(float(right[own][~model.half].mean()))
        return accuracies


def _half(size: int, pool: int, k: int) -> Bool[np.ndarray, " records"]:
    """Exactly half of a pool: so many non-members, however small the pool, are enough for 0.1 %."""
    half: Bool[np.ndarray, " records"] = stream(pool, "half", k).permutation(size) < size // 2
    return half


_POOLS: dict[Mode, int] = {"online": 0, "offline": 1}


class Views(NamedTuple):
    """A target, and all shadows that it may be seen with."""

    target: TableTarget
    records: Records
    reference: Records
    phi: np.ndarray
    member: np.ndarray
    reference_phi: np.ndarray
    pool: tuple[np.ndarray, np.ndarray] | None
    """Classes and answers of the records that offline shadows were trained on."""
    learned: Bool[np.ndarray, " records"]
    softened: np.ndarray

    def of(self, count: int) -> ModelView:
        """What an attacker with the first so many shadows sees."""
        member = self.member[:, :count]
        phi, reference_phi = self.phi[:, :count], self.reference_phi[:, :count]
        softened = (self.softened[:, :count],)
        if self.pool is None:
            shadows = Shadows(phi, member, reference_phi, softened=softened)
        else:
            y, own = self.pool
            pool = PoolPredictions(y, own[:, :count], member)
            shadows = Shadows(phi, np.zeros_like(member), reference_phi, (), pool, softened)
        return ModelView(self.target, self.records, self.reference, shadows if count else None)
