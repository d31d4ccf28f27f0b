"""What every driver does besides its work: read the task, time itself, leave its scores."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = "seconds.json"

PRINTED = "printed.json"

METRICS = ("AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")


class Desk:
    """``python -m benchmarks.peers.drivers.NAME TASK OUT [MORE...]``: two folders, and what else.

    The task's arrays are read without unpickling. Scores go to ``OUT/ATTACK.npy``, and the CPU
    seconds of each attack, those of its ended child processes among them, to one file.
    """

    def __init__(self) -> None:
        self.more = sys.argv[3:]
        self._task, self._out = Path(sys.argv[1]), Path(sys.argv[2])
        self._seconds: dict[str, float] = {}
        self._printed: dict[str, dict[str, float]] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """How models are trained, and how many."""
        settings: dict[str, Any] = json.loads((self._task / "settings.json").read_text())
        return settings

    @property
    def same_shadows(self) -> bool:
        """Whether the task brings shadow models; else tools train their own."""
        return (self._task / "shadows.npz").exists()

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """The arrays in one file of the task."""
        with np.load(self._task / f"{name}.npz", allow_pickle=False) as stored:
            return dict(stored)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Count the CPU seconds of what is done inside."""
        begun = _cpu()
        yield
        self._seconds[what] = self._seconds.get(what, 0.0) + _cpu() - begun
        (self._out / SECONDS).write_text(json.dumps(self._seconds))

    def leave(self, attack: str, score: np.ndarray) -> None:
        """Store one score a record, in the records' order; higher means member."""
        np.save(self._out / f"{attack}.npy", np.asarray(score, np.float64), allow_pickle=False)

    def leave_printed(self, attack: str, *printed: float) -> None:
        """Store what the tool itself prints of an attack: `METRICS`, as many as it prints."""
        self._printed[attack] = dict(zip(METRICS, printed, strict=False))
        (self._out / PRINTED).write_text(json.dumps(self._printed))


def _cpu() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
