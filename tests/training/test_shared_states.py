"""Memory that processes share is used again, and never while somebody holds an array in it."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from divulge.training.engine.shared_states import StateMemory, state_form

STATE = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "steps": np.array(7),
    "none": np.empty((0, 3)),
    "mask": np.array([True, False, True]),
}


@pytest.fixture(params=["Linux", "elsewhere"])
def memory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StateMemory:
    if request.param == "elsewhere":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    return StateMemory(tmp_path)


def test_what_one_writes_the_other_reads(memory: StateMemory) -> None:
    shared, mapped = memory.take(state_form(STATE), 3)
    for name, array in shared.arrays(shared.map(), 2).items():
        array[...] = STATE[name]
    found = shared.arrays(mapped, 2)
    assert list(found) == list(STATE)
    for name, array in found.items():
        assert (array.dtype, array.shape) == (STATE[name].dtype, STATE[name].shape)
        np.testing.assert_array_equal(array, STATE[name])
        assert array.ctypes.data % 64 == 0 or not array.size
    assert not shared.arrays(mapped, 1)["weight"].any()


def test_memory_is_used_again_once_no_array_is_left(memory: StateMemory) -> None:
    form = state_form(STATE)
    shared, mapped = memory.take(form, 2)
    held = shared.arrays(mapped, 0)["weight"]
    held[...] = 5
    del mapped
    other, mapped_too = memory.take(form, 2)
    assert other.path != shared.path
    other.arrays(mapped_too, 0)["weight"][...] = 9
    assert (held == 5).all()
    del held, mapped_too
    gc.collect()
    again, _ = memory.take(form, 1)
    assert again.path in (shared.path, other.path)


def test_files_go_with_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    memory = StateMemory(tmp_path)
    taken = [memory.take(state_form(STATE), 1) for _ in range(6)]
    assert len(list(tmp_path.iterdir())) == 6
    del taken
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 3
    del memory
    gc.collect()
    assert not list(tmp_path.iterdir())
