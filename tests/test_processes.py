"""Processes that work for another one end with it, however it ends."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import psutil
import pytest
from joblib import delayed

from divulge._util.processes import parallel_calls
from divulge.errors import DivulgeError, MissingExtra

WORK = """
import os, sys, time
from joblib import delayed
from divulge._util.processes import parallel_calls

def work(number):
    os.write(1, b"%d\\n" % os.getpid())  # at once: two workers share the pipe
    time.sleep(PAUSE)
    return number

if __name__ == "__main__":
    print(list(parallel_calls([delayed(work)(number) for number in range(2)], 2)), flush=True)
    time.sleep(600)
"""

POOL = """
import os, time
from divulge_papers.pool import CellWorkers

def work(number):
    os.write(1, b"%d\\n" % os.getpid())  # at once: two workers share the pipe
    time.sleep(PAUSE)

if __name__ == "__main__":
    with CellWorkers(2) as workers:
        list(workers.each(work, [0, 1]))
        print("idle", flush=True)
        time.sleep(600)
"""


@pytest.mark.slow
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


# a thread of joblib's own may fail while it is stopped, after it has ended the processes
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_who_needs_no_further_result_is_not_warned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = parallel_calls([delayed(time.sleep)(pause) for pause in (0, 1, 1, 1)], 2)
        assert next(results) is None
        results.close()
    assert list(results) == []


@pytest.mark.parametrize(("told", "chosen"), [(None, "1"), ("0", "0")], ids=["usual", "told"])
def test_torch_takes_huge_pages_unless_told_otherwise(told: str | None, chosen: str) -> None:
    name = "THP_MEM_ALLOC_ENABLE"
    given = {key: value for key, value in os.environ.items() if key != name}
    given |= {} if told is None else {name: told}
    code = f"import os, divulge; print(os.environ[{name!r}])"
    found = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True)
    assert found.stdout.strip() == chosen


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_a_worker_that_is_killed_is_an_error_that_says_what_to_do(number: int) -> None:
    calls = [delayed(_die)(os.getpid(), k == number) for k in range(4)]
    with pytest.raises(DivulgeError, match=r"one died, perhaps for want of memory.*--resume"):
        list(parallel_calls(calls, 2))
    assert list(parallel_calls(calls[:1], 2)) == [False]  # and the next ones are others


def _die(parent: int, die: bool) -> bool:
    if die and os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return die


def test_a_worker_says_which_extra_it_lacks() -> None:
    with pytest.raises(MissingExtra, match=r"'\.\[torch\]'"):
        list(parallel_calls([delayed(_lack)(k) for k in range(2)], 2))


def _lack(number: int) -> None:
    raise MissingExtra("torch", "torch")
