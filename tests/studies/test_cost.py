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
from divulge._util.progress import format_span
from divulge.cli.main import main
from divulge.studies import cost, cost_estimates
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
    assert answer["share"] == 1  # so few records are trained on at once
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
    assert all(
        isinstance(one, cost_estimates.CostEstimate) and one.models == 8 for one in found.values()
    )
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "compare.toml"), "--estimate"])
    assert "trees\nAbout " in done.stdout


def test_a_simulation_is_tried_for_two_rounds(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "queries.py").write_text(JUDGED)
    path = tmp_path / "federate.toml"
    path.write_text(USERS)
    about = divulge.estimate_file(path)["rounds"]
    assert isinstance(about, cost_estimates.SimulationCost)
    assert (about.rounds, about.simulated) == (5, 2)
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


class Clock:
    """A clock that training moves on, by so much a model and a record."""

    def __init__(self, start: float, model: float, record: float, power: float = 1.0) -> None:
        self.now, self.start, self.model, self.record, self.power = 0.0, start, model, record, power

    def train(self, x: np.ndarray, *_: Any) -> Any:
        self.now += self.start + self.model + self.record * len(x) ** self.power
        self.start = 0.0  # as of workers, once
        return lambda asked: np.full((len(asked), 2), 0.5)


def about(monkeypatch: pytest.MonkeyPatch, clock: Clock, models: int, records: int) -> Any:
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(LocalWorkers, "processors", lambda _: 2)
    pool = np.random.default_rng(0).normal(size=(records, 1)), np.arange(records) % 2
    return divulge.estimate(clock.train, records=pool, models=models)


@pytest.mark.parametrize("models", [10, 100, 2000])
@pytest.mark.parametrize(
    ("model", "record", "power"),
    [(1e-3, 1e-6, 1), (1.0, 1e-5, 1), (0.1, 1e-4, 1), (0.1, 0.01, 1), (0.0, 1e-7, 2)],
)
def test_a_trial_costs_a_twentieth_or_ten_seconds_and_comes_near(
    monkeypatch: pytest.MonkeyPatch, models: int, model: float, record: float, power: float
) -> None:
    found = about(monkeypatch, Clock(2.0, model, record, power), models, 20_000)
    right = 2.0 + models * (model + record * 10_000**power)
    assert found.trial <= max(10.0, 0.05 * right)
    assert found.seconds == pytest.approx(right, rel=0.1)
    assert f"trial of {format_span(found.trial)}: " in str(found)


def test_a_trial_ends_after_one_model_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    found = about(monkeypatch, Clock(0.0, 60.0, 0.0), 8, 20_000)
    assert (found.trained, found.trial) == (1, 60.0)
    assert found.at_least
    assert str(found).startswith("At least 8 min to train 8 models")


def test_a_trainer_that_refuses_few_records_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0, 0.01, 0.0)

    def train(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        if len(x) < 1000:
            raise ValueError("too few")
        return clock.train(x, y, seed)

    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    pool = np.random.default_rng(0).normal(size=(4000, 1)), np.arange(4000) % 2
    found = divulge.estimate(train, records=pool, models=10)
    assert found.share == 1
    assert found.seconds == pytest.approx(0.1)


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
    assert cost_estimates._bytes(after).endswith("B")
