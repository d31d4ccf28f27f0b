"""A table says of each row how its attack did on its controls; and why, where it did not run."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from divulge.attacks.membership.threshold import Threshold
from divulge.audits.challenges.model import pose_view
from divulge.cli.main import main
from divulge.core import Estimate, Membership, ModelView, Need, Records, Scores
from divulge.targets.function import FunctionTarget
from divulge_papers import page
from divulge_papers import table as tables
from divulge_papers.attempts import RowResult, attempt
from divulge_papers.result import Outcome, read_outcome
from divulge_papers.run import reproduce
from divulge_papers.table import Row, Table

MEMBER = np.arange(400) < 200
FAULT = "FAILED: its guess fits the truth although its input was shuffled"


@dataclasses.dataclass(frozen=True)
class Told:
    """Knows who is a member from elsewhere, and asks the model nothing."""

    name: ClassVar[str] = "told"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.NONE

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del view
        return Scores(MEMBER + rng.random(len(MEMBER)))


@dataclasses.dataclass(frozen=True)
class Unable(Told):
    """Wants what no view of these tables has."""

    name: ClassVar[str] = "unable"
    needs: ClassVar[Need] = Need.SHADOWS


@dataclasses.dataclass(frozen=True)
class Deaf(Told):
    """Says the same of a record whatever the model answers."""

    name: ClassVar[str] = "deaf"

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del view, rng
        return Scores(np.random.default_rng(1).random(len(MEMBER)))


ATTACKS: dict[str, Any] = {
    "honest": Threshold(),
    "told": Told(),
    "unable": Unable(),
    "deaf": Deaf(),
}


def work(seed: int, size: str, *, attack: str) -> RowResult:
    """The AUC of an attack on a model that leaks."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(MEMBER), 2))
    sure = {row.tobytes(): 0.6 + 0.3 * member for row, member in zip(x, MEMBER, strict=True)}

    def predict(asked: np.ndarray) -> np.ndarray:
        first = np.array([sure[row.tobytes()] for row in asked])
        return np.column_stack([first, 1 - first])

    view = ModelView(FunctionTarget(predict), Records(x, np.zeros(len(x), np.int64)))
    _, entry = attempt(pose_view(view, Membership(MEMBER)), ATTACKS[attack], seed)
    return RowResult({"AUC": [entry.finding.metrics["auc"].value]}, [entry])


def unattacked(seed: int, size: str, *, attack: str) -> RowResult:
    """A figure that needs no attack."""
    del size, attack
    return RowResult({"AUC": [seed / 10]})


TABLE = Table(
    title="Attacks on one model",
    source="Nobody 2026, table 0",
    columns=("AUC",),
    rows=tuple(Row(name, {"attack": name}) for name in ATTACKS),
    work=f"{__name__}:work",
    units="models",
    seeds={"small": 2, "paper": 2},
    minutes={"small": 0, "paper": 0},
    differs=dict.fromkeys(("small", "paper"), "everything"),
    nested=False,
)
BARE = dataclasses.replace(TABLE, rows=TABLE.rows[:1], work=f"{__name__}:unattacked")


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    listed = dict(tables.TABLES)
    tables.TABLES.clear()
    tables.TABLES.update(attacked=f"{__name__}:TABLE", bare=f"{__name__}:BARE")
    yield
    tables.TABLES.clear()
    tables.TABLES.update(listed)


def measured(folder: Path, name: str = "attacked") -> Outcome:
    return next(reproduce({name: folder}, "small"))


def line(text: str, row: str) -> list[str]:
    """Cells of a row of the Markdown table."""
    (found,) = [one for one in text.splitlines() if one.startswith(f"| {row} |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


@pytest.mark.slow
def test_an_attack_that_was_told_fails_its_control_in_the_row(tmp_path: Path) -> None:
    done = measured(tmp_path)
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert line(text, "told")[1].startswith("1.000")  # its figure is the best of all
    assert line(text, "told")[-1] == "FAILED"
    assert f"{FAULT}, 2 of 2: told" in text.splitlines()
    assert line(text, "honest")[-1] == "passed"
    assert read_outcome(tmp_path / "table.json") == done
    assert "<td>FAILED</td>" in page.render_page(page.TableRuns((done,), ()))
    (told,) = [one for one in json.loads(done.as_json())["controls"] if one["row"] == "told"]
    assert (told["outcome"], told["attacks"], told["failed"]) == ("FAILED", 2, 2)


@pytest.mark.slow
def test_an_attack_that_looks_at_nothing_misses_the_planted_leak(tmp_path: Path) -> None:
    found = {one.row: one for one in measured(tmp_path).controls or ()}
    assert found["deaf"].faults == {"it did not find a leak planted on purpose": 2}


def test_an_attack_that_cannot_run_says_why_in_its_row(tmp_path: Path) -> None:
    done = measured(tmp_path)
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert line(text, "unable")[1:] == ["not measured", "0 of 2", "did not run"]
    assert "\nNot measured (needs shadows, which this audit does not have" in text
    (cell,) = done.of_row("unable")
    assert cell.reason.startswith("needs shadows")


def test_the_terminal_shows_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    said = CliRunner().invoke(main, ["reproduce", "attacked", "--processes", "1"])
    lines = [one.split() for one in said.stdout.splitlines()]
    assert [one[1:] for one in lines if one[:1] == ["controls"]] == [
        ["passed"], ["FAILED"], ["did", "not", "run"], ["FAILED"],
    ]  # fmt: skip
    assert f"{FAULT}, 2 of 2: told" in said.stdout


def test_a_table_without_attacks_says_so(tmp_path: Path) -> None:
    assert measured(tmp_path, "bare").control_sentences == ()
    assert line((tmp_path / "table.md").read_text(encoding="utf-8"), "honest")[-1] == "no attack"


def test_a_table_that_is_older_than_controls_says_that_they_were_not_run(tmp_path: Path) -> None:
    measured(tmp_path)
    stored: dict[str, Any] = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    del stored["controls"]
    (tmp_path / "table.json").write_text(json.dumps(stored), encoding="utf-8")
    old = read_outcome(tmp_path / "table.json")
    assert isinstance(old.cells[0].ours, Estimate)
    assert line(old.markdown(), "told")[-1] == "not run"
    assert "Controls: not run." in old.markdown()
    assert "Controls: not run." in page.render_page(page.TableRuns((old,), ()))
