"""Weights of many networks in memory that this process shares with those it has started."""

import math
import mmap
import os
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import UInt8

_ALIGNMENT = 64
"""Bytes: every array begins where the processor's widest loads do."""


Memory = UInt8[np.ndarray, " bytes"]


class ArrayForm(NamedTuple):
    """What an array is like, without its numbers."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def room(self) -> int:
        """Bytes that it takes with the gap to the next one."""
        return -(-self.size // _ALIGNMENT) * _ALIGNMENT


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

    def map(self) -> Memory:
        """The memory, in another process; it stays for as long as somebody holds an array in it.

        Processes that joblib starts are ended when they hold much more memory than before: let it
        go with the call that mapped it.
        """
        with Path(self.path).open("r+b") as file:
            return _map(mmap.mmap(file.fileno(), 0))

    def arrays(self, memory: Memory, position: int) -> dict[str, np.ndarray]:
        """The arrays of one state, in the memory itself, which each of them holds."""
        views, start = {}, position * _state_size(self.form)
        for name, form in self.form.items():
            numbers = memory[start : start + form.size].view(form.dtype)
            views[name] = numbers.reshape(form.shape)
            start += form.room
        return views


_KEPT: Final = 3
"""Pieces of memory that are kept for later: of a round, of the one before, and of what was sent."""


class StateMemory:
    """Memory for states, which is used again once nobody holds an array in it.

    Getting memory from the system, page by page, takes longer than writing states into it. On Linux
    it has no name in any folder: it goes with the last process that holds a part of it, even if all
    are killed.

    Args:
        folder: where other systems keep files for it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free: list[_SharedBlock] = []

    def take(self, form: StateForm, many: int) -> tuple[SharedStates, Memory]:
        """Room for so many states of a form, for processes and for this one.

        The room is taken until the memory and all arrays in it are gone.
        """
        size = max(1, many * _state_size(form))
        block = next((free for free in self._free if free.size >= size), None)
        if block is None:
            block = _SharedBlock(size, self._folder)
        else:
            self._free.remove(block)
        memory = _map(block.memory)
        weakref.finalize(memory, _give_back, self._free, block)
        return SharedStates(block.path, form), memory


def _give_back(free: "list[_SharedBlock]", block: "_SharedBlock") -> None:
    free.append(block)
    del free[:-_KEPT]


class _SharedBlock:
    """A file of zeros, mapped into memory."""

    def __init__(self, size: int, folder: Path) -> None:
        self.size = size
        create = getattr(os, "memfd_create", None)
        if create is not None:
            handle = create("divulge")
            self.path = f"/proc/{os.getpid()}/fd/{handle}"
        else:
            handle, self.path = mkstemp(dir=folder)
        os.ftruncate(handle, size)
        self.memory = mmap.mmap(handle, size)
        weakref.finalize(self, _close, handle, None if create else Path(self.path))


def _close(handle: int, path: Path | None) -> None:
    os.close(handle)
    if path is not None:
        with suppress(OSError):  # Windows keeps what is mapped: it goes with the folder
            path.unlink()


def _map(memory: mmap.mmap) -> Memory:
    return np.frombuffer(memory, np.uint8)


def _state_size(form: StateForm) -> int:
    return sum(array.room for array in form.values())
