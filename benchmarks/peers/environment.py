"""A virtual environment for each peer, made once, in a folder that the user chooses."""

import hashlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers import process

HOME = "DIVULGE_PEERS"
"""The variable that names the folder; each peer takes about a gigabyte in it."""

LIMIT = 900.0
"""Seconds that an installation may take."""

REQUIREMENTS = Path(__file__).parent / "requirements"

_READY = "ready"


class NotInstalled(Exception):
    """A peer cannot be installed here; the message says why."""


class Peer(NamedTuple):
    """A tool beside divulge."""

    name: str
    """Name of the tool, and of its requirements file."""
    module: str
    """Module that is imported to check the installation."""


def home() -> Path:
    """The folder of all environments.

    Raises:
        NotInstalled: the user has not said where.
    """
    folder = os.environ.get(HOME)
    if not folder:
        raise NotInstalled(f"{HOME} does not name a folder for the environments of peers")
    return Path(folder)


def interpreter(peer: Peer) -> Path:
    """The Python of a peer's environment, which is made if it is not there.

    What was installed is kept until the peer's requirements change. A failure is not kept.

    Raises:
        NotInstalled: with the reason.
    """
    wanted = REQUIREMENTS / f"{peer.name}.txt"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]
    folder = home() / f"{peer.name}-{digest}"
    python = folder / "bin" / "python"
    if (folder / _READY).exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(wanted)],
        [str(python), "-c", f"import {peer.module}"],
    )
    log = home() / f"{peer.name}.log"
    for step in steps:
        try:
            process.run(step, clean(), folder, log, LIMIT)
        except process.Failed as failed:
            raise NotInstalled(f"{' '.join(step[1:4])}: {failed}") from failed
    (folder / _READY).touch()
    return python


def clean() -> dict[str, str]:
    """The environment variables of a peer: one thread, and nothing of ours to import."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | one_thread()


def ours() -> dict[str, str]:
    """Environment variables of divulge's own side."""
    return {**os.environ, **one_thread()}


def one_thread() -> dict[str, str]:
    """Arithmetic in one thread a process: others would spend CPU seconds on waiting."""
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
