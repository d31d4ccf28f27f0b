"""Workers of a local Ray cluster, one of which is killed in the middle."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leakscope.errors import MissingExtra, SpecError
from leakscope.shadowing import workers

SUBJECT = """
import os, signal
from pathlib import Path
import numpy as np
from sklearn.tree import DecisionTreeClassifier

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 6))
y = np.where(rng.random(300) < 0.3, rng.integers(0, 3, 300), np.argmax(x[:, :3], axis=1))
members, nonmembers = (x[:150], y[:150]), (x[150:], y[150:])

def model():
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(*members)

def train(x, y, seed):
    with open(Path(__file__).parent / "log.txt", "a") as log:
        log.write(f"{seed} {os.getpid()}\\n")
    calls = len((Path(__file__).parent / "log.txt").read_text().splitlines())
    if calls == 3 and "KILL" in os.environ or "KILL_ALL" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
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
        [sys.executable, "-W", "error", "-m", "leakscope", "audit", str(folder / "audit.toml"),
         "--run", str(folder / "run"), *more],
        check=False, capture_output=True, text=True, timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
    )  # fmt: skip


def kept(folder: Path) -> list[bytes]:
    (rows,) = (folder / "run" / "shadows").glob("*.npy")
    (scores,) = (folder / "run" / "findings").glob("*.npz")
    return [rows.read_bytes(), scores.read_bytes()]


@pytest.mark.slow
def test_a_killed_worker_costs_its_wave_and_no_bit(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    here = audit(tmp_path / "here")
    there = audit(tmp_path / "there", "--workers", "ray", KILL="1")
    assert (here.returncode, there.returncode) == (0, 0), here.stderr + there.stderr
    assert kept(tmp_path / "there") == kept(tmp_path / "here")
    log = [line.split() for line in (tmp_path / "there" / "log.txt").read_text().splitlines()]
    assert len({seed for seed, _ in log}) == 6
    assert len(log) == 7  # the one that was killed was trained again
    assert len({process for _, process in log}) >= 2


@pytest.mark.slow
def test_workers_that_always_die_are_an_error_in_our_words(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    done = audit(tmp_path / "audit", "--workers", "ray", models=1, KILL_ALL="1")
    assert done.returncode == 2
    assert "expected workers to train models, one after another died 4 times" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["", "local:2", "rays", "ray:", "dask"])
def test_workers_that_do_not_exist(name: str) -> None:
    with pytest.raises(SpecError, match="expected workers to be local, ray"):
        workers.named(name)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'leakscope\[ray\]'"):
        workers.named("ray")
    assert isinstance(workers.named("local"), workers.Local)
