"""A run folder is for one process at a time, and bad input leaves none behind."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import LeaseCompromise, SoftFileLease
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge._util import atomic
from divulge._util.folders import HEARTBEAT, LEASE, LOCK, hold_folder, take_folder
from divulge.errors import StoreError
from tests.slow import slow

X = np.random.default_rng(0).normal(size=(200, 3))
Y = np.arange(200) % 2

HOLD = """
import sys, time
from pathlib import Path
from divulge._util.folders import take_folder
with take_folder(Path(sys.argv[1])):
    print("taken", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> "subprocess.Popen[str]":
    """Another process that works in ``run``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def audit(run: Path, *, resume: bool = False) -> divulge.Audit:
    return divulge.audit(
        DecisionTreeClassifier(random_state=0).fit(X[:100], Y[:100]),
        members=(X[:100], Y[:100]),
        nonmembers=(X[100:], Y[100:]),
        attacks=[divulge.attack("gap")],
        run=run,
        options=divulge.Options(resume=resume),
    )


@pytest.mark.slow
def test_a_second_process_is_refused_with_the_first_ones_number_and_host(
    tmp_path: Path, holder: "subprocess.Popen[str]"
) -> None:
    host = os.uname().nodename if hasattr(os, "uname") else ""
    for resume in (False, True):
        with pytest.raises(StoreError, match=f"process {holder.pid} on {host}"):
            audit(tmp_path / "run", resume=resume)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LOCK]
    end(holder)
    audit(tmp_path / "run")  # the lock of who was killed is taken over
    assert not (tmp_path / "run" / LOCK).exists()


@pytest.mark.slow
def test_what_is_there_is_neither_rendered_nor_measured_while_another_process_works_in_it(
    tmp_path: Path,
) -> None:
    whole = divulge.leave_one_out(
        DecisionTreeClassifier(random_state=0),
        records=(X, Y),
        attacks=[divulge.attack("gap")],
        rotation=divulge.Rotation(3, targets=2),
        run=tmp_path / "run",
    )
    within = divulge.load(tmp_path / "run" / "targets" / "000")
    with hold_folder(tmp_path / "run"):
        refused = []

        def work(act: "object") -> None:
            try:
                act()  # type: ignore[operator]
            except StoreError as error:
                refused.append(str(error))

        for act in (whole.report, whole.measure, within.report, within.measure):
            thread = threading.Thread(target=work, args=(act,))  # another process, to the lock
            thread.start()
            thread.join()
        assert len(refused) == 4
        whole.report()  # who holds it may go on
        within.report()
    within.measure()


def test_a_lock_that_names_another_host_is_left_with_advice(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("17\nelsewhere\n1\n")
    with pytest.raises(StoreError, match=r"process 17 on elsewhere .* delete .*\.lock"):
        audit(tmp_path)
    (tmp_path / LOCK).write_text("\x1b[2J nonsense")
    with pytest.raises(StoreError, match="another process works in it"):
        audit(tmp_path)


@pytest.fixture
def elsewhere(holder: "subprocess.Popen[str]", tmp_path: Path) -> Path:
    """The lock of another process that works in ``run``, as if it were on another host."""
    place = tmp_path / "run" / LOCK
    text = place.read_text(encoding="utf-8")
    lines = [f"host=elsewhere{line[4:]}" if "host=" in line else line for line in text.splitlines()]
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    return place


def test_the_lock_of_a_machine_that_is_gone_is_taken_over(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before the time is up, in which it could have given a sign of life."""
    waited = []
    acquire = SoftFileLease.acquire

    def hurry(lock: SoftFileLease, timeout: float | None = None) -> Any:
        if timeout is not None:
            waited.append(timeout)
            seen, moment = lock._marker_seen or (None, 0.0)
            if seen is not None:
                lock._marker_seen = (seen, moment - timeout)  # as if the time had passed
        return acquire(lock, timeout=0)

    monkeypatch.setattr(SoftFileLease, "acquire", hurry)
    with take_folder(elsewhere.parent):
        assert "elsewhere" not in elsewhere.read_text(encoding="utf-8")
    assert LEASE - 1 <= sum(waited) <= LEASE + 3


def test_a_process_on_another_host_that_gives_a_sign_of_life_keeps_its_lock(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = SoftFileLease.acquire

    def live(lock: SoftFileLease, timeout: float | None = None) -> Any:
        if timeout is not None and elsewhere.exists():
            os.utime(elsewhere, (1, 10**9))
        return acquire(lock, timeout=0)

    monkeypatch.setattr(SoftFileLease, "acquire", live)
    with pytest.raises(StoreError, match="on elsewhere"), hold_folder(elsewhere.parent):
        pass


def test_a_process_whose_lock_was_taken_over_ends_with_an_error(tmp_path: Path) -> None:
    lock = SoftFileLease(
        tmp_path.resolve() / LOCK,
        timeout=0,
        mode=0o600,
        is_singleton=True,
        lease_duration=LEASE,
        heartbeat_interval=HEARTBEAT,
    )
    with pytest.raises(StoreError, match="another one took it over"), hold_folder(tmp_path):
        lock._claim.compromise = LeaseCompromise(str(tmp_path / LOCK), "x", "owner-changed", None)


@pytest.mark.slow
def test_what_was_being_written_at_a_kill_goes(tmp_path: Path) -> None:
    audit(tmp_path / "run")
    half = tmp_path / "run" / "findings" / f"{atomic.UNFINISHED}x"
    half.write_text("{")
    audit(tmp_path / "run", resume=True)
    assert not half.exists()


def fail_in(run: Path, preparations: tuple[str, ...], *files: str) -> None:
    """Take a folder, write these files, and break."""
    with take_folder(run, preparations):
        for name in files:
            (run / name).parent.mkdir(exist_ok=True)
            (run / name).touch()
        raise RuntimeError


@pytest.mark.parametrize("made", [True, False])
def test_an_error_before_anything_was_computed_leaves_no_folder(tmp_path: Path, made: bool) -> None:
    run = tmp_path / "runs" / "new"
    if made:
        run.mkdir(parents=True)
    with pytest.raises(RuntimeError):
        fail_in(run, ("head", "*.npy"), "head", "shadows/k.npy")
    assert (tmp_path / "runs").exists() == run.exists() == made
    assert not made or not any(run.iterdir())


def test_an_error_leaves_what_was_computed_and_what_was_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        fail_in(tmp_path / "one", ("head",), "head", "finding")
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"head", "finding"}
    with pytest.raises(RuntimeError):
        fail_in(tmp_path / "one", ("head", "finding"))
    assert (tmp_path / "one" / "finding").exists()


SUBJECT = """
import sys
from pathlib import Path
import numpy as np

there = sorted(path.name for path in Path(__file__).parent.glob("runs/*"))
assert there == ["audit-001"], there  # before anything of the user's is loaded
x = np.random.default_rng(0).normal(size=(200, 3))
y = np.arange(200) % 2
members, nonmembers, wrong = (x[:100], y[:100]), (x[100:], y[100:]), (x[100:], y[100:] + 7)

def model(asked):
    return np.full((len(asked), 2), 0.5)

def broken(x, y, seed):
    raise RuntimeError("no")
"""

MODEL = """
[target]
model = "subject.py:model"
[data]
members = "subject.py:members"
nonmembers = "subject.py:NONMEMBERS"
"""

IN_TURN = """
[data]
records = "subject.py:members"
[leave_one_out]
train = "subject.py:broken"
models = 3
"""


@pytest.mark.parametrize(
    "settings",
    [
        MODEL.replace("NONMEMBERS", "wrong"),
        slow(MODEL.replace("NONMEMBERS", "none")),
        slow(IN_TURN),
    ],
    ids=["labels", "name", "trainer"],
)
def test_bad_input_that_is_found_late_leaves_nothing(tmp_path: Path, settings: str) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "audit.toml").write_text(settings)
    command = [sys.executable, "-m", "divulge", "audit", str(tmp_path / "audit.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    first, *_, last = done.stderr.splitlines()
    assert first == f"Run folder: {tmp_path / 'runs' / 'audit-001'}"
    assert last.startswith("Error: expected")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_folder_is_there_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    text = MODEL.replace("NONMEMBERS", "nonmembers") + '[[attacks]]\nname = "gap"\n'
    (tmp_path / "audit.toml").write_text(text)
    command = [sys.executable, "-m", "divulge", "audit", str(tmp_path / "audit.toml"),
               "--format", "json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"].endswith("audit-001")
