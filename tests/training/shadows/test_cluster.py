"""Workers of a local Ray cluster, one of which is killed in the middle."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from divulge.errors import MissingExtra, SpecError
from divulge.training.shadows import workers, workers_by_name

from ...patience import PATIENCE

SUBJECT = """
import os, signal, time
from pathlib import Path
import numpy as np
from sklearn.tree import DecisionTreeClassifier

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 6))
y = np.where(rng.random(300) < 0.3, rng.integers(0, 3, 300), np.argmax(x[:, :3], axis=1))
members, nonmembers = (x[:150], y[:150]), (x[150:], y[150:])

def model():
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(*members)

def first(path):
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

def train(x, y, seed):
    folder = Path(__file__).parent
    with open(folder / "log.txt", "a") as log:
        log.write(f"{seed} {os.getpid()}\\n")
    calls = len((folder / "log.txt").read_text().splitlines())
    if "KILL" in os.environ and calls >= 2 and first(folder / "killed.txt"):
        os.kill(os.getpid(), signal.SIGKILL)
    if "KILL_ALL" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    if "NEVER_END" in os.environ:
        time.sleep(float(os.environ["NEVER_END"]))
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)
"""

SETTINGS = """
[target]
model = "subject.py:model"
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
[shadows]
models = {models}
train = "subject.py:train"
[[attacks]]
name = "calibrated"
"""


def audit(
    folder: Path, *more: str, models: int = 6, **environment: str
) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "audit.toml").write_text(SETTINGS.format(models=models))
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "divulge", "audit", str(folder / "audit.toml"),
         "--run", str(folder / "run"), *more],
        check=False, capture_output=True, text=True, timeout=PATIENCE,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
    )  # fmt: skip


def kept(folder: Path) -> list[bytes]:
    (rows,) = (folder / "run" / "shadows").glob("*.npy")
    (scores,) = (folder / "run" / "findings").glob("*.npz")
    return [rows.read_bytes(), scores.read_bytes()]


def here(folder: Path, models: int) -> list[bytes]:
    """What the same audit comes to without workers elsewhere."""
    done = audit(folder, models=models)
    assert done.returncode == 0, done.stderr
    return kept(folder)


@pytest.mark.slow
def test_a_killed_worker_costs_its_wave_and_no_bit(tmp_path: Path) -> None:
    """Three models: few enough for waves of one model on any number of processors."""
    pytest.importorskip("ray")
    there = audit(tmp_path / "there", "--workers", "ray", models=3, KILL="1")
    assert there.returncode == 0, there.stderr
    assert kept(tmp_path / "there") == here(tmp_path / "here", 3)
    log = [line.split() for line in (tmp_path / "there" / "log.txt").read_text().splitlines()]
    assert len({seed for seed, _ in log}) == 3
    assert len(log) == 4  # the one that was killed was trained again
    assert len({process for _, process in log}) >= 2


@pytest.mark.slow
def test_workers_that_always_die_are_an_error_in_our_words(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    done = audit(tmp_path / "audit", "--workers", "ray", models=1, KILL_ALL="1")
    assert done.returncode == 2
    assert "expected workers to finish their work, one after another died 4 times" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_lost_cluster_writes_nothing_of_its_own_on_the_terminal(tmp_path: Path) -> None:
    """Its models never end, so that the audit cannot be over before its cluster is lost."""
    pytest.importorskip("ray")
    log = tmp_path / "there" / "log.txt"
    over = threading.Event()
    killing = threading.Thread(target=_kill_raylets, args=(log, over))
    killing.start()
    done = audit(tmp_path / "there", "--workers", "ray", NEVER_END=str(PATIENCE))
    over.set()
    killing.join()
    assert done.returncode != 0
    assert not re.search(r"\(raylet\)|state-dump|\.cc:\d", done.stdout + done.stderr)


def _kill_raylets(log: Path, over: threading.Event) -> None:
    """The cluster that the audit has started, once it trains."""
    killed = 0
    while not killed and not over.wait(0.05):
        for child in psutil.Process().children(recursive=True) if log.exists() else ():
            with contextlib.suppress(psutil.NoSuchProcess):  # others of its processes come and go
                if child.name() == "raylet":
                    child.kill()
                    killed += 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ray:auto", "ray:{}"])
def test_a_cluster_that_does_not_answer_is_named(name: str, monkeypatch: Any) -> None:
    """Somebody listens there, and never says a word."""
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(
            SpecError, match=r"expected a Ray cluster at (auto|127.*), got TimeoutE"
        ):
            workers_by_name(name.format(address)).processors()


@pytest.mark.parametrize("name", ["", "local:2", "rays", "ray:", "dask"])
def test_workers_that_do_not_exist(name: str) -> None:
    with pytest.raises(SpecError, match="expected workers to be local, ray"):
        workers_by_name(name)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[ray\]'"):
        workers_by_name("ray")
    assert isinstance(workers_by_name("local"), workers.LocalWorkers)
