"""Weights of many networks in memory that this process shares with those it has started."""

import math
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import NamedTuple

import numpy as np

_ALIGNMENT = 64
"""Bytes: every array begins where the processor's widest loads do."""


class ArrayForm(NamedTuple):
    """What an array is like, without its numbers."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def room(self) -> int:
        """Bytes that it takes, with the gap to the next one."""
        return -(-math.prod(self.shape) * np.dtype(self.dtype).itemsize // _ALIGNMENT) * _ALIGNMENT


StateForm = Mapping[str, ArrayForm]
"""The arrays of a state dictionary by name."""


def state_form(state: Mapping[str, np.ndarray]) -> dict[str, ArrayForm]:
    """The form of a state dictionary."""
    return {name: ArrayForm(array.shape, array.dtype.str) for name, array in state.items()}


class SharedStates(NamedTuple):
    """State dictionaries of one form, one after another in a file that is mapped into memory.

    Processes get this in place of the arrays.
    """

    path: str
    form: StateForm

    def map(self) -> memoryview:
        """The memory; it stays for as long as somebody holds an array in it."""
        with Path(self.path).open("r+b") as file:
            return memoryview(mmap.mmap(file.fileno(), 0))

    def arrays(self, memory: memoryview, position: int) -> dict[str, np.ndarray]:
        """The arrays of one state, in the memory itself."""
        found, start = {}, position * _state_size(self.form)
        for name, form in self.form.items():
            found[name] = np.ndarray(form.shape, form.dtype, memory, start)
            start += form.room
        return found


def _state_size(form: StateForm) -> int:
    return sum(one.room for one in form.values())


@contextmanager
def share_states(form: StateForm, many: int, folder: Path) -> Iterator[SharedStates]:
    """Memory for so many states of this form; others can map it until the block ends.

    On Linux the memory has no name in any folder, so it goes with the last process that holds a
    part of it, even if all are killed.

    Args:
        form: the form of each.
        many: how many states.
        folder: where other systems keep a file for it.
    """
    with _new_file(max(1, many * _state_size(form)), folder) as path:
        yield SharedStates(path, form)


@contextmanager
def _new_file(size: int, folder: Path) -> Iterator[str]:
    """The path of a new file of zeros, for as long as the block lasts."""
    create = getattr(os, "memfd_create", None)
    if create is not None:
        handle = create("divulge")
        path = f"/proc/{os.getpid()}/fd/{handle}"
    else:
        handle, path = mkstemp(dir=folder)
    try:
        os.ftruncate(handle, size)
        yield path
    finally:
        os.close(handle)
        if create is None:
            with suppress(OSError):  # Windows keeps what is mapped: it goes with the folder
                Path(path).unlink()
