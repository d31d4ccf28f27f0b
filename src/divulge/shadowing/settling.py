"""Settle how a trainer works before it starts, so that resumed work goes on in the same way."""

import dataclasses
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from divulge import atomic
from divulge.core import Records, Trainer
from divulge.shadowing.workers import Work


@runtime_checkable
class Settling(Protocol):
    """A dataclass that can fix what it would else choose anew each time, as a ``Fleet`` can.

    The fields that it fixes have ``identity`` False in their metadata.
    """

    def settled(self, pool: Records, subsets: Bool[np.ndarray, "models records"]) -> Trainer:
        """The same trainer, its choices made."""
        ...

    @property
    def together(self) -> int:
        """How many models are one computation; 1 where each stands for itself."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class _Kept:
    """``KEY.way.json``: settings that change how models come, not which."""

    settings: dict[str, Any]


def settled(work: Work, missing: list[int], path: Path) -> tuple[Work, list[int]]:
    """The work with its trainer settled as it was when these models were begun, and what to train.

    Two ways of training give the same models up to rounding, and one way gives them bit for bit:
    what is resumed must not change it. Models that are one computation are trained together again.

    Args:
        work: what to train.
        missing: the models still to come.
        path: of the file that keeps the choice.

    Raises:
        StoreError: the file is damaged, or cannot be read or written.
    """
    if not missing or not isinstance(work.trainer, Settling):
        return work, missing
    trainer: Any = work.trainer
    with atomic.said(path):
        raw = path.read_bytes() if path.exists() else None
    if raw is None:
        kept = _Kept(_choices(trainer.settled(work.pool, work.subsets)))
        atomic.write(path, atomic.to_json(kept, _Kept).encode())
    else:
        kept = atomic.from_json(raw, _Kept, path)
    trainer = dataclasses.replace(trainer, **kept.settings)
    waves = {k // trainer.together for k in missing}
    models = [k for k in range(len(work.seeds)) if k // trainer.together in waves]
    return dataclasses.replace(work, trainer=trainer), models


def _choices(trainer: Any) -> dict[str, Any]:
    choices = {
        field.name: getattr(trainer, field.name)
        for field in dataclasses.fields(trainer)
        if not field.metadata.get("identity", True)
    }
    # single-threaded processes train the same models however many there are
    if choices.get("way") == "processes":
        del choices["workers"]
    return choices
