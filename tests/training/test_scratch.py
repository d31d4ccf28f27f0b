"""Folders for processes go with their owner, and with a process that is killed."""

import gc
import signal
import subprocess
import sys
import time
from pathlib import Path

from divulge.training.engine.processes import TemporaryFolder

from ..patience import PATIENCE


class Owner:
    """Something that can be referred to weakly."""


def test_a_folder_goes_with_its_owner() -> None:
    owner = Owner()
    scratch = TemporaryFolder(owner)
    (scratch.path / "file").write_text("held")
    assert scratch.path.is_dir()
    assert scratch.path.stat().st_mode & 0o077 == 0  # for nobody else to read
    del owner
    gc.collect()
    assert not scratch.path.exists()


def test_a_folder_can_go_before() -> None:
    owner = Owner()
    scratch = TemporaryFolder(owner)
    scratch.remove()
    assert not scratch.path.exists()
    scratch.remove()  # a second time changes nothing


PROGRAM = """
import os, signal, sys
from divulge.training.engine.processes import TemporaryFolder
class Owner: ...
owner = Owner()
path = TemporaryFolder(owner).path
(path / "file").write_text("held")
print(path, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def ended(how: str) -> tuple[int, Path, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=False
    )
    return done.returncode, Path(done.stdout.strip()), done.stderr


def test_a_folder_goes_when_its_process_is_killed() -> None:
    code, path, _ = ended("killed")
    assert code == -signal.SIGKILL
    deadline = time.monotonic() + PATIENCE  # another process removes it
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not path.exists()


def test_nothing_is_left_to_complain_of_when_a_process_ends() -> None:
    code, path, said = ended("by itself")
    assert code == 0
    assert not path.exists()
    assert said == ""
