"""Settle how a trainer works before it starts, so that resumed work goes on in the same way."""

import dataclasses
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from leakscope import atomic
from leakscope.core import Records, Trainer
from leakscope.shadowing.workers import Work


@runtime_checkable
class Settling(Protocol):
    """A dataclass that can fix what it would else choose anew each time, as a ``Fleet`` can.

    The fields that it fixes have ``identity`` False in their metadata.
    """

    def settled(self, pool: Records, subsets: Bool[np.ndarray, "models records"]) -> Trainer:
        """The same trainer, its choices made."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class _Kept:
    """``KEY.way.json``: settings that change how models come, not which."""

    settings: dict[str, Any]


def settled(work: Work, models: list[int], path: Path) -> Work:
    """The work with its trainer settled, as it was when these models were begun.

    Two ways of training give the same models up to rounding, and one way gives them bit for bit:
    what is resumed must not change it.

    Args:
        work: what to train.
        models: which of them are still to come.
        path: of the file that keeps the choice.

    Raises:
        StoreError: the file is damaged, or cannot be read or written.
    """
    if not models or not isinstance(work.trainer, Settling):
        return work
    trainer: Any = work.trainer
    with atomic.said(path):
        raw = path.read_bytes() if path.exists() else None
    if raw is not None:
        kept = atomic.from_json(raw, _Kept, path).settings
        return dataclasses.replace(work, trainer=dataclasses.replace(trainer, **kept))
    chosen = trainer.settled(work.pool, work.subsets)
    kept = {
        field.name: getattr(chosen, field.name)
        for field in dataclasses.fields(trainer)
        if not field.metadata.get("identity", True)
    }
    # single-threaded processes train the same models however many there are
    if kept.get("way") == "processes":
        del kept["workers"]
    atomic.write(path, atomic.to_json(_Kept(kept), _Kept).encode())
    return dataclasses.replace(work, trainer=dataclasses.replace(trainer, **kept))
