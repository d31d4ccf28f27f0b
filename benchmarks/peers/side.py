"""A tool at work on a task: run in its environment, and what it left."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from benchmarks.peers import environment, process
from benchmarks.peers.drivers.desk import PRINTED, SECONDS
from benchmarks.peers.environment import NotInstalled, Peer
from benchmarks.peers.process import Resources

LIMIT = 1800.0
"""Seconds on the clock after which a side is given up."""


class Side(NamedTuple):
    """One contender."""

    name: str
    driver: str
    """The module in `benchmarks.peers.drivers`."""
    peer: Peer | None = None
    """Tool whose environment is used; None uses divulge's own."""
    more: tuple[str, ...] = ()
    """Further arguments of the driver."""


class Result(NamedTuple):
    """Scores that a side found, and the resources that it used."""

    scores: Mapping[str, np.ndarray]
    seconds: Mapping[str, float]
    """CPU seconds of each attack, and of what its attacks share."""
    spent: Resources
    printed: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    """What a tool prints of its attacks, where it does: attack, metric, value."""


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
        module = f"benchmarks.peers.drivers.{side.driver}"
        command = [str(python), "-m", module, str(task), str(out), *side.more]
        spent = process.run(command, variables, environment.ROOT, out / "log", LIMIT)
    except NotInstalled as error:
        return Missing(f"not installed: {error}")
    except process.CommandError as error:
        return Missing(f"failed: {error}")
    scores = {path.stem: np.load(path, allow_pickle=False) for path in sorted(out.glob("*.npy"))}
    printed_path = out / PRINTED
    printed = json.loads(printed_path.read_text()) if printed_path.exists() else {}
    return Result(scores, json.loads((out / SECONDS).read_text()), spent, printed)
