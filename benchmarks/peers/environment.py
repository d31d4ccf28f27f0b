"""A virtual environment for each peer, made once, in a folder that the user chooses."""

import hashlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

import benchmarks
from benchmarks.peers import process

HOME = "DIVULGE_PEERS"
"""The variable that names the folder; each peer takes about a gigabyte in it."""

WHEELS = "DIVULGE_PEER_WHEELS"
"""The variable that names the folder with wheels of peers that no package index has."""

LIMIT = 900.0
"""Seconds that an installation may take."""

REQUIREMENTS = Path(__file__).parent / "requirements"

ROOT = Path(benchmarks.__file__).parents[1]
"""Where drivers run, so that they find `benchmarks`."""

_READY = "ready"


class NotInstalled(Exception):
    """A peer cannot be installed here; the message says why."""


class Peer(NamedTuple):
    """A tool beside divulge."""

    name: str
    """Name of the tool, and of its requirements file."""
    module: str
    """Module that is imported to check the installation."""
    wheel: str | None = None
    """Pattern of the file name of its wheel; None where its requirements name its release."""


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

    What was installed is kept until the peer's requirements or its wheel change. A failure is not
    kept.

    Raises:
        NotInstalled: with the reason.
    """
    wanted = REQUIREMENTS / f"{peer.name}.txt"
    wheels = [] if peer.wheel is None else [find_wheel(peer.wheel)]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (wanted, *wheels))).hexdigest()
    folder = home() / f"{peer.name}-{digest[:12]}"
    python = folder / "bin" / "python"
    if (folder / _READY).exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [*pip, "--requirement", str(wanted)],
        *([*pip, "--no-deps", str(wheel)] for wheel in wheels),
        [str(python), "-c", f"import {peer.module}"],
    )
    log = home() / f"{peer.name}.log"
    for step in steps:
        try:
            process.run(step, clean(), ROOT, log, LIMIT)
        except process.CommandError as failed:
            raise NotInstalled(f"{' '.join(step[1:4])}: {failed}") from failed
    (folder / _READY).touch()
    return python


def find_wheel(pattern: str) -> Path:
    """The one wheel that fits a pattern, in the folder that the user names.

    Raises:
        NotInstalled: none fits, or several do.
    """
    folder = os.environ.get(WHEELS)
    if not folder:
        raise NotInstalled(f"{WHEELS} does not name a folder with {pattern}")
    wheels = sorted(Path(folder).glob(pattern))
    if len(wheels) != 1:
        raise NotInstalled(f"expected one file {pattern} in {folder}, found {len(wheels)}")
    return wheels[0].resolve()


def clean() -> dict[str, str]:
    """The environment variables of a peer: one thread, and nothing of ours to import."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return variables | one_thread()


def ours() -> dict[str, str]:
    """Environment variables of divulge's own side."""
    return {**os.environ, **one_thread()}


def one_thread() -> dict[str, str]:
    """Arithmetic in one thread a process: others would spend CPU seconds on waiting."""
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
