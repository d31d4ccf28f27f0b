"""kill -9 while canaries are made, watched or judged: nothing or all is there, and again works."""

import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from divulge.canaries.audit import audit_canaries
from divulge.canaries.make import make_canaries
from divulge.canaries.recorder import CanaryRecorder
from divulge.canaries.result import SUMMARY, CanaryAudit
from divulge.data import canary_files as files
from divulge.finished_runs.run_json import HEAD
from divulge.finished_runs.stored import PAGE
from tests.canaries import sets
from tests.killing import kill_before_writing

TRAIN = """
from tests.canaries import test_kill
test_kill.kill_before_writing("*white.npz", 2)
test_kill.train()
"""


def killed(work: Callable[[], object], pattern: str) -> None:
    """Do this in a process that ends where such a file or folder is put in place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it forks beside threads: no PyTorch
        process = os.fork()
    if not process:
        kill_before_writing(pattern)
        work()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


def content(folder: Path) -> dict[str, bytes]:
    """All files of a set of canaries but the lock of a dead process."""
    found = [path for path in folder.rglob("*.npz") if ".writing-" not in str(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("pattern", "there"),
    [("*/sealed.npz", []), ("*/train.npz", []), ("canaries/for-trainer", [str(files.SEALED)])],
    ids=["first file", "last file", "between the parts"],
)
def test_the_making_of_canaries_is_whole_or_made_anew(
    tmp_path: Path, pattern: str, there: list[str]
) -> None:
    folder = tmp_path / "canaries"
    killed(lambda: make_canaries(sets.records(), folder, 40, seed=1), pattern)
    assert list(content(folder)) == there
    assert not (folder / files.TRAIN.parent).exists()  # nobody trains on a part of a set
    again = make_canaries(sets.records(), folder, 40, seed=1).folder
    whole = make_canaries(sets.records(), tmp_path / "whole", 40, seed=1).folder
    assert content(again).keys() == {str(files.SEALED), str(files.CANDIDATES), str(files.TRAIN)}
    assert files.read_candidates(again).digest == files.read_candidates(whole).digest
    assert np.array_equal(sets.coins(again), sets.coins(whole))
    assert not list(folder.glob(".writing-*"))


@pytest.mark.parametrize(
    "pattern", [f"*/{files.OPENED.name}", f"*/{HEAD}", f"*/{SUMMARY}", f"*/{PAGE}"]
)
def test_an_audit_ends_the_same_after_a_kill(tmp_path: Path, pattern: str) -> None:
    folder, run = sets.make(tmp_path, 60), tmp_path / "run"
    scores = sets.write_scores(folder, sets.leak(folder, 3.0), "../scores.npz")

    def judge() -> CanaryAudit:
        return audit_canaries(folder, [scores], epsilon=1.0, delta=1e-5, run=run)

    killed(judge, pattern)
    assert not (run / PAGE).exists()
    found = judge()
    assert found.facts == audit_canaries(folder, [scores], epsilon=1.0, delta=1e-5).facts
    assert {path.name for path in run.iterdir()} >= {PAGE, SUMMARY, HEAD}
    assert not list(run.glob(".writing-*"))


def train(resume: bool = False) -> Path:
    """Two epochs that save after each; steps are those of a fixed order."""
    import torch

    model = sets.linear()
    recorder = CanaryRecorder("canaries", model, "white.npz", resume=resume)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    if resume:
        model.load_state_dict(torch.load("checkpoint.pt", weights_only=True))
    recorder.watch(model, optimiser)
    records = sets.records()
    x, y = torch.from_numpy(np.array(records.x)), torch.from_numpy(np.array(records.y))
    for _ in range(1 if resume else 2):
        for start in range(0, len(x), 20):
            optimiser.zero_grad()
            rows = slice(start, start + 20)
            loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        if recorder.steps <= 3:
            torch.save(model.state_dict(), "checkpoint.pt")
        recorder.save()
    return Path("white.npz").resolve()


@pytest.mark.slow
def test_a_watched_training_goes_on_from_its_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(sets.make(tmp_path, 40), tmp_path / "canaries")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-c", TRAIN]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    monkeypatch.chdir(tmp_path)
    with np.load("white.npz") as held:
        assert held["steps"].tolist() == [3]
    assert list(tmp_path.glob(".writing-white.npz-*"))  # a part of the second file
    again = np.load(train(resume=True))["score"]
    assert not list(tmp_path.glob(".writing-*"))
    Path("white.npz").unlink()
    whole = np.load(train())["score"]
    assert again == pytest.approx(whole)
