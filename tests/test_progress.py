"""How far work is: bars in a terminal, lines elsewhere, and nothing unless asked."""

import io
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge._util import progress

from .patience import PATIENCE

X = np.random.default_rng(0).normal(size=(200, 3))
Y = np.arange(200) % 2


def audit(shown: progress.Progress, run: Path | None = None) -> divulge.Audit:
    return divulge.audit(
        DecisionTreeClassifier(random_state=0).fit(X[:100], Y[:100]),
        members=(X[:100], Y[:100]),
        nonmembers=(X[100:], Y[100:]),
        attacks=[divulge.attack("threshold", signal="loss"), divulge.attack("lira")],
        shadows=4,
        run=run,
        options=divulge.Options(progress=shown),
    )


@pytest.mark.slow
def test_each_step_says_what_runs_and_how_much_of_it_there_is() -> None:
    seen: list[tuple[str, int]] = []

    def track(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
        seen.append((text, len(items) + done))
        return items

    audit(track)
    assert ("Training shadows", 4) in seen
    assert {"threshold(signal=loss)", "Controls of threshold(signal=loss)", "lira"} <= {
        text for text, _ in seen
    }


@pytest.mark.parametrize("asked", [True, False])
def test_lines_come_where_there_is_no_terminal(
    asked: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "BRIEF", 0.0)
    audit(asked)
    said = capfd.readouterr().err
    assert ("Training shadows: 4 of 4 done in " in said) == asked
    assert ("lira: done in " in said) == asked


def test_a_long_step_is_told_now_and_then_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "PERIOD", 0.01)
    said = io.StringIO()  # pytest's capture loses what is written while it is read
    monkeypatch.setattr("sys.stderr", said)
    for number in progress.track_with_lines(["a", "b", "c"], "Training shadows", 5):
        before, wanted = said.getvalue(), f"Training shadows: {5 + 'abc'.index(number)} of 8, "
        while wanted not in said.getvalue().removeprefix(before):  # before an item is done as well
            time.sleep(0.005)
    lines = said.getvalue().splitlines()
    assert all("left" not in line for line in lines if " 5 of 8" in line)
    assert any("left" in line for line in lines if " 7 of 8" in line)


def test_the_time_left_is_that_of_what_was_done_in_this_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter([100.0, 160.0, 160.0])
    # the clock of this module alone: threads that other tests have left look at the time too
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
    step = progress._Step("Training shadows", 9, before=50)
    step.done = 3
    assert step.line() == "Training shadows: 53 of 59, 60 s so far, about 2 min left"
    assert step.end() == "Training shadows: 53 of 59 done in 60 s"


def test_a_line_counts_what_is_done_within_an_item() -> None:
    step = progress._Step("decaf", 6, before=0)
    seen = [step.line() for _ in progress.count_within("abc", 3, "clients trained")]
    assert "decaf: 0 of 6, 0 of 3 clients trained," in seen[0]
    assert "decaf: 0 of 6, 2 of 3 clients trained," in seen[2]
    assert "clients trained" not in step.line()


def test_a_line_that_says_the_same_is_not_printed_twice(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PERIOD", 0.01)
    monkeypatch.setattr(progress._Step, "line", lambda step: f"{step.text}: 2 min so far")
    for _ in progress.track_with_lines([1], "decaf", 0):
        time.sleep(0.3)
    assert capfd.readouterr().err.count("2 min so far") == 1


@pytest.mark.parametrize(
    "begin",
    [
        "progress.track_with_lines([1, 2], 'Training', 0)",
        "http_loop.background_loop.__wrapped__()",
    ],
    ids=["lines", "an endpoint"],
)
def test_what_an_error_left_open_does_not_keep_python_from_ending(begin: str) -> None:
    """A cycle keeps it until the interpreter ends, when its thread runs no more."""
    code = f"""
import gc, sys
from divulge._util import progress
from divulge.targets import http_loop
class Kept: pass
kept = Kept()
kept.itself, kept.open = kept, {begin}
next(kept.open)
gc.disable()
sys.exit(3)
"""
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=False, timeout=PATIENCE).returncode == 3
