"""A tool at work on a task: run in its environment, and what it left."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

import benchmarks
from benchmarks.peers import environment, process
from benchmarks.peers.drivers.desk import SECONDS
from benchmarks.peers.environment import NotInstalled, Peer
from benchmarks.peers.process import Spent

LIMIT = 1800.0
"""Seconds on the clock after which a side is given up."""

_ROOT = Path(benchmarks.__file__).parents[1]


class Side(NamedTuple):
    """One contender."""

    name: str
    driver: str | None
    """The module in `benchmarks.peers.drivers`; None for a tool that nobody could install yet."""
    peer: Peer | None = None
    """Tool whose environment is used; None uses divulge's own."""
    more: tuple[str, ...] = ()
    """Further arguments of the driver."""


class Result(NamedTuple):
    """Scores that a side found, and the resources that it used."""

    scores: Mapping[str, np.ndarray]
    seconds: Mapping[str, float]
    """CPU seconds of each attack, and of what its attacks share."""
    spent: Spent


class Missing(NamedTuple):
    """Why there is no result."""

    reason: str


def run(side: Side, task: Path, scratch: Path) -> Result | Missing:
    """Put a side to the task in a process of its own.

    Args:
        side: who.
        task: the folder that its driver reads.
        scratch: an existing folder for what it leaves.
    """
    out = scratch / side.name.replace(" ", "-")
    out.mkdir()
    try:
        python = sys.executable if side.peer is None else environment.interpreter(side.peer)
        variables = environment.ours() if side.peer is None else environment.clean()
        if side.driver is None:
            return Missing("it installs here: it wants a driver")
        module = f"benchmarks.peers.drivers.{side.driver}"
        command = [str(python), "-m", module, str(task), str(out), *side.more]
        spent = process.run(command, variables, _ROOT, out / "log", LIMIT)
    except NotInstalled as error:
        return Missing(f"not installed: {error}")
    except process.Failed as error:
        return Missing(f"failed: {error}")
    scores = {path.stem: np.load(path, allow_pickle=False) for path in sorted(out.glob("*.npy"))}
    return Result(scores, json.loads((out / SECONDS).read_text()), spent)
