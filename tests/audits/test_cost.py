"""An estimate before anything long starts."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import divulge
from divulge.audits import cost
from divulge.cli.main import main
from divulge.training.shadows.workers import LocalWorkers

SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier

rng = np.random.default_rng(0)
x, y = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
members, nonmembers, records = (x[:100], y[:100]), (x[100:], y[100:]), (x, y)

def model(asked):
    raise AssertionError("an answer of the model under audit may cost money")

def train(x, y, seed):
    return DecisionTreeClassifier(random_state=seed).fit(x, y)
"""

SHADOWS = """
[target]
model = "subject.py:model"
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
[shadows]
models = 40
train = "subject.py:train"
"""

IN_TURN = """
[data]
records = "subject.py:records"
[leave_one_out]
models = 10
targets = 3
train = "subject.py:train"
"""


def estimate(folder: Path, settings: str, *more: str) -> Any:
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "audit.toml").write_text(settings)
    arguments = ["audit", str(folder / "audit.toml"), "--estimate", *more]
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize(("settings", "models"), [(SHADOWS, 40), (IN_TURN, 10)])
def test_an_estimate_trains_a_few_and_stops(tmp_path: Path, settings: str, models: int) -> None:
    done = estimate(tmp_path, settings)
    assert done.exit_code == 0, done.output
    assert f"to train {models} models and to ask each about 200 records" in done.stdout
    assert done.stdout.startswith("About ")
    assert not (tmp_path / "runs").exists()
    found = json.loads(estimate(tmp_path, settings, "--format", "json").stdout)
    (answer,) = found.values()
    assert found.keys() == {"shadows" if settings == SHADOWS else "models"}
    assert answer["models"] == models
    assert answer["trained"] == min(models, 2 * LocalWorkers().processors())
    # rows of 200 numbers, and for three targets 200 answers about three classes
    assert answer["disk"] == 8 * (200 * models + (3 * 600 if settings == IN_TURN else 0))


COMPARED = """
models = 8
targets = 2
[data]
records = "subject.py:records"
[[defences]]
train = "subject.py:train"
label = "trees"
[[defences]]
train = "subject.py:train"
label = "others"
"""
USERS = """
rounds = 5
[ranker]
queries = "queries.py:judged"
truth = "clicks.csv"
users = 3
"""
JUDGED = """
import numpy as np
from divulge.data.ranking import Queries

rng = np.random.default_rng(0)
judged = Queries(rng.normal(size=(80, 4)), rng.integers(0, 3, 80), np.repeat(np.arange(8), 10))
"""


def test_each_defence_of_a_comparison_has_an_estimate(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "compare.toml").write_text(COMPARED)
    found = divulge.estimate_file(tmp_path / "compare.toml")
    assert found.keys() == {"trees", "others"}
    assert all(isinstance(one, cost.CostEstimate) and one.models == 8 for one in found.values())
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "compare.toml"), "--estimate"])
    assert "trees\nAbout " in done.stdout


def test_a_simulation_is_tried_for_two_rounds(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "queries.py").write_text(JUDGED)
    path = tmp_path / "federate.toml"
    path.write_text(USERS)
    about = divulge.estimate_file(path)["rounds"]
    assert isinstance(about, cost.SimulationCost)
    assert (about.rounds, about.trained) == (5, 2)
    assert about.seconds > about.trial > 0
    run = divulge.federate_file(path)
    written = sum(file.stat().st_size for file in run.iterdir())
    assert abs(about.disk / written - 1) < 0.01  # a number of a round may have a digit more
    shown = CliRunner().invoke(main, ["federate", str(path), "--estimate"]).stdout
    assert "to simulate 5 rounds" in shown
    assert [one.name for one in (tmp_path / "runs").iterdir()] == [run.name]


def test_without_models_there_is_nothing_to_estimate(tmp_path: Path) -> None:
    done = estimate(tmp_path, SHADOWS[: SHADOWS.index("[shadows]")])
    assert done.exit_code == 2
    assert "nothing to estimate" in done.output


def test_seconds_are_those_of_the_trial_for_each_model(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 30.0, 70.0, 999.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    monkeypatch.setattr(LocalWorkers, "processors", lambda _: 5)

    def train(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        return lambda asked: np.full((len(asked), 2), 0.5)

    about = divulge.estimate(train, records=(np.ones((10, 1)), np.arange(10) % 2), models=8)
    assert (about.trained, about.trial, about.seconds) == (2, 70.0, 280.0)  # the limit is a minute
    assert "About 5 min to train 8 models" in str(about)
    assert "2 models in 70 s" in str(about)


def test_the_start_of_workers_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once: 5 s for the first, start included; then 2 s for two more."""
    now = iter([0.0, 5.0, 5.0, 7.0, 7.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    monkeypatch.setattr(LocalWorkers, "processors", lambda _: 2)

    def train(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        return lambda asked: np.full((len(asked), 2), 0.5)

    about = divulge.estimate(train, records=(np.ones((10, 1)), np.arange(10) % 2), models=100)
    assert (about.trained, about.trial, about.seconds) == (4, 7.0, 5.0 + 98.0)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc of Linux")
def test_memory_is_that_of_this_process_and_its_children() -> None:
    before = cost.peak_memory()
    assert before is not None
    code = "import numpy as np; block = np.ones(10**7); print(block[0], flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it holds 80 MB now
        after = cost.peak_memory()
        child.kill()
    assert after is not None
    assert after - before > 75e6
    assert cost._bytes(after).endswith("B")
