"""Processes that work for another one end with it, however it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest

from divulge._util.processes import parallel_calls

WORK = """
import os, sys, time
from functools import partial
from divulge._util.processes import parallel_calls

def work(number):
    os.write(1, b"%d\\n" % os.getpid())  # at once: two workers share the pipe
    time.sleep(PAUSE)
    return number

if __name__ == "__main__":
    print(list(parallel_calls([partial(work, number) for number in range(2)], 2)), flush=True)
    time.sleep(600)
"""

POOL = """
import os, time
from divulge.reproduce.pool import CellWorkers

def work(number):
    os.write(1, b"%d\\n" % os.getpid())  # at once: two workers share the pipe
    time.sleep(PAUSE)

if __name__ == "__main__":
    with CellWorkers(2) as workers:
        list(workers.each(work, [0, 1]))
        print("idle", flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("pause", [0, 600], ids=["idle", "at work"])
@pytest.mark.parametrize("code", [WORK, POOL], ids=["joblib", "pool"])
def test_workers_do_not_outlive_a_kill(tmp_path: Path, code: str, pause: int) -> None:
    file = tmp_path / "work.py"
    file.write_text(code.replace("PAUSE", str(pause)))
    with subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        workers = [psutil.Process(int(process.stdout.readline())) for _ in range(2)]
        if not pause:
            assert process.stdout.readline()  # all is done: they wait
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60  # of themselves, they would wait for five minutes
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_who_needs_no_further_result_ends_the_work_at_once() -> None:
    pauses = [0.0] * 8 + [600.0] * 8  # the first ones race with the end, the last are not begun
    for _ in range(3):
        results = parallel_calls([partial(time.sleep, pause) for pause in pauses], 2)
        assert next(results) is None
        results.close()
        assert list(results) == []
    assert not [one for one in threading.enumerate() if "Executor" in one.name]


def test_results_come_in_order_and_a_mapped_file_is_mapped_again(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(2, 3))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    calls = [partial(_describe, part, 0.2 * (not k)) for k, part in enumerate((mapped, mapped[1:]))]
    whole, part = parallel_calls(calls, 2)
    assert whole == ("memmap", 15, False)
    assert part == ("ndarray", 12, True)


def _describe(array: np.ndarray, pause: float) -> tuple[str, int, bool]:
    time.sleep(pause)
    return type(array).__name__, int(array.sum()), array.flags.writeable


def test_an_error_in_a_call_ends_the_others() -> None:
    with pytest.raises(ZeroDivisionError):
        list(parallel_calls([partial(divmod, 1, 0), partial(time.sleep, 600)], 2))
    assert list(parallel_calls([partial(divmod, 7, 2)] * 3, 2)) == [(3, 1)] * 3
