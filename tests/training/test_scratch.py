"""Folders for processes go with their owner, and with a process that is killed."""

import errno
import gc
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from divulge._util import atomic
from divulge.errors import StoreError
from divulge.training.engine import processes
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("size", [10, 10**6])
def test_a_full_disk_for_temporary_files_is_said(tmp_path: Path, size: int) -> None:
    """NumPy says it without an error number."""
    (tmp_path / "0.npy").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"expected room for .*0\.npy, the disk is full"):
        processes._memory_map(np.zeros(size), tmp_path / "0.npy")


def test_arrays_that_find_no_room_to_be_packed_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(StoreError, match="the disk is full"):
        atomic.pack_arrays({"a": np.zeros(1)})
