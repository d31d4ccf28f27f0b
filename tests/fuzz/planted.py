"""Readers with a fault each, which the search must find, and two without."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from divulge.errors import DataError

from .formats import Format


def _make(folder: Path) -> None:
    (folder / "number.txt").write_text("1")


def _only_if_damaged(fault: Callable[[Path], object]) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        if (folder / "number.txt").read_bytes() != b"1":
            fault(folder)

    return read


def _read(folder: Path) -> None:
    pass


def _refuse(folder: Path) -> None:
    raise DataError("expected 1, got something else: write 1")


def _raise(folder: Path) -> None:
    raise KeyError("x")


def _write_outside(folder: Path) -> None:
    (folder.parent / "outside.txt").write_text("x")


def _write_through_a_link(folder: Path) -> None:
    (folder.parent / "target").mkdir(exist_ok=True)
    (folder / "link").symlink_to(folder.parent / "target", target_is_directory=True)
    (folder / "link" / "outside.txt").write_text("x")


def _start(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def _allocate(folder: Path) -> None:
    bytes(4 * 2**30)


def _hide_lack_of_memory(folder: Path) -> None:
    try:
        _allocate(folder)
    except MemoryError as error:
        raise DataError("expected a small file, got a large one: split it") from error


def _print(folder: Path) -> None:
    sys.stdout.write("\x1b[2J")


def _say(folder: Path) -> None:
    raise DataError("expected 1, got \x1b[2J: write 1")


def _leave_behind(folder: Path) -> None:
    import tempfile

    Path(tempfile.gettempdir(), "left").write_text("x")


def _crash(folder: Path) -> None:
    os.abort()


def _wait(folder: Path) -> None:
    time.sleep(10**6)


def _spin(folder: Path) -> None:
    while True:
        pass


VERDICTS: Mapping[str, tuple[str, Callable[[Path], object]]] = {
    "reads": ("result", _read),
    "refuses": ("refused", _refuse),
    "raises": ("traceback", _raise),
    "writes outside": ("touched", _write_outside),
    "writes through a link": ("touched", _write_through_a_link),
    "starts a program": ("touched", _start),
    "takes all memory": ("memory", _allocate),
    "hides lack of memory": ("memory", _hide_lack_of_memory),
    "prints": ("control character", _print),
    "says": ("refused", _say),
    "leaves a file": ("left behind", _leave_behind),
    "crashes": ("crash", _crash),
    "waits": ("hang", _wait),
    "spins": ("hang", _spin),
}

FORMATS = {name: Format(_make, _only_if_damaged(fault)) for name, (_, fault) in VERDICTS.items()}
