"""An own attack beside those of divulge: files, paired differences, and a bench that goes on."""

import csv
import io
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from divulge.cli.main import main
from divulge.core import Estimate, Records
from divulge.errors import SpecError
from divulge.studies.bench import run as bench_run
from divulge.studies.bench import targets
from divulge.studies.bench.result import BenchRow, _latex_cell
from divulge.studies.bench.targets import BenchTarget

MINE = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import divulge


@dataclass(frozen=True)
class Surest:
    name: ClassVar[str] = "surest"
    paper: ClassVar[str] = "Somebody 2026"

    @property
    def needs(self):
        return divulge.Need.PROBABILITIES

    def __call__(self, view: divulge.ModelView, rng) -> divulge.Scores:
        return divulge.Scores(view.target.predict(view.records.x).max(axis=1))
"""


def draw() -> Records:
    rng = np.random.default_rng(0)
    return Records(rng.normal(size=(240, 4)), rng.integers(2, size=240))


def tree() -> Any:
    from sklearn.tree import ExtraTreeClassifier

    return ExtraTreeClassifier(max_depth=4, random_state=0)


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    small = {"one": BenchTarget(draw, tree, "a tree"), "two_%": BenchTarget(draw, tree, "a tree")}
    monkeypatch.setattr(targets, "TARGETS", small)
    monkeypatch.setattr(bench_run, "TARGETS", small)
    monkeypatch.setattr(bench_run, "SHADOWS", 4)


def test_an_own_attack_is_put_beside_five_others(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["bench", "mine.py:Surest", "--run", "b"])
    assert done.exit_code == 0, done.output
    assert "surest less each other attack" in done.stdout
    rows = list(csv.DictReader(io.StringIO((tmp_path / "b/bench.csv").read_text())))
    assert len(rows) == 12
    assert [row["attack"] for row in rows[:6]] == [
        *("surest", "threshold(signal=loss)", "gap", "calibrated", "lira", "rmia")
    ]
    for row in rows:
        paired = row["auc_difference"]
        if row["attack"] != "surest" and not row["reason"]:
            own = next(one for one in rows if one["target"] == row["target"])
            assert float(paired) == pytest.approx(float(own["auc"]) - float(row["auc"]), abs=1e-4)
    table = (tmp_path / "b/bench.tex").read_text()
    assert r"two\_\%" in table
    assert table.count(r"\\") == 7
    assert b"surest" in (tmp_path / "b/bench.svg").read_bytes()
    assert (tmp_path / "b/one/report.html").exists()
    before = (tmp_path / "b/bench.csv").read_bytes()
    again = bench_run.bench_attack("mine.py:Surest", run="b")  # nothing is attacked again
    assert (tmp_path / "b/bench.csv").read_bytes() == before
    mean = again.mean("gap", "auc")
    each = [row.differences["auc"] for row in again.rows if row.attack == "gap" and row.differences]
    assert mean is not None
    assert mean.value == pytest.approx(np.mean([one.value for one in each]))
    below = math.hypot(*(one.value - one.low for one in each)) / len(each)
    assert mean.low == pytest.approx(mean.value - below)


def test_a_figure_that_does_not_count_has_a_dash_in_its_place() -> None:
    row = BenchRow("one", "gap", "", {"auc": Estimate(0.7, 0.6, 0.8)}, {})
    cells = (row, replace(row, metrics={}), replace(row, reason="too few"))
    assert [_latex_cell(each) for each in cells] == ["0.700 (0.600--0.800)", "--", "--"]


def test_what_is_no_attack_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="expected 'Nobody' in mine"):
        bench_run.bench_attack("mine.py:Nobody", run="b")
    assert not (tmp_path / "b").exists()
