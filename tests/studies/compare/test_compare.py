"""Defences on the same halves of the same records, audited alike; run folder, tables, page."""

import csv
import dataclasses
import io
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import divulge
from divulge.attacks import catalog
from divulge.cli import render
from divulge.cli.main import main
from divulge.core import Estimate
from divulge.defences import catalog as defences_catalog
from divulge.defences.answers.coarse import TopOne
from divulge.errors import SpecError, StoreError
from divulge.finished_runs import run_json
from divulge.metrics.intervals import student_mean
from divulge.metrics.shared_shadows import covariance_between
from divulge.metrics.utility import aop_estimate
from divulge.report.sentences import BACKWARDS
from divulge.studies.compare import page as compare_page
from divulge.studies.compare import table as compare_table
from divulge.studies.compare.result import Comparison
from divulge.studies.leave_one_out import means
from divulge.studies.leave_one_out.result import LeaveOneOut
from divulge.targets.function import FunctionTarget
from tests import memorising
from tests.golden import golden
from tests.report import markup

RECORDS = memorising.draw(320)
ATTACKS = tuple(catalog.attack(name) for name in ("threshold", "gap", "calibrated"))
TRAINED: list[int] = []


def remember(x: np.ndarray, y: np.ndarray, seed: int) -> FunctionTarget:
    TRAINED.append(seed)
    return memorising.train(x, y, seed)


def forget(x: np.ndarray, y: np.ndarray, seed: int) -> FunctionTarget:
    """The rule behind the labels: as good as can be, and nothing of the records."""
    return FunctionTarget(lambda asked: np.where(asked[:, :1] > 0, [[0.2, 0.8]], [[0.8, 0.2]]))


WAYS = {"plain": remember, "rule": forget, "label": (remember, TopOne())}


def compared(folder: Path | None, ways: Mapping[str, Any] = WAYS, **more: Any) -> Comparison:
    return divulge.compare(
        {**ways, **more},
        records=RECORDS,
        rotation=divulge.Rotation(4, targets=3),
        attacks=ATTACKS,
        lambdas=(0.0, 2.0),
        options=divulge.Options(
            name="<b>", resume=folder is not None and (folder / "run.json").exists()
        ),
        run=folder,
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    TRAINED.clear()
    return compared(tmp_path_factory.mktemp("compare") / "run")


@pytest.mark.slow
def test_every_defence_is_trained_on_the_same_halves(found: Comparison) -> None:
    for k in range(3):
        members = [one.audits.targets[k].candidates.member.tolist() for one in found.defences]
        assert members[0] == members[1] == members[2]
    halves = {tuple(a.candidates.member) for a in found.defences[0].audits.targets}
    assert len(halves) == 3


def test_accuracy_is_that_of_each_target_on_what_it_was_not_trained_on(found: Comparison) -> None:
    plain = found.defences[0]
    values = []
    for k, audit in enumerate(plain.audits.targets):
        member = audit.candidates.member
        target = memorising.train(RECORDS.x[member], RECORDS.y[member], TRAINED[k])
        right = target.predict(RECORDS.x).argmax(axis=1) == RECORDS.y
        values.append(right[~member].mean())
    assert found.rows[0].accuracy.value == pytest.approx(np.mean(values))
    assert found.rows[0].train_accuracy.value > found.rows[0].accuracy.value
    assert found.rows[0].accuracy.value == found.rows[2].accuracy.value  # the label stays


def test_what_remembers_leaks_and_what_forgets_does_not(found: Comparison) -> None:
    plain, rule, label = found.rows
    assert plain.strongest["auc"].estimate.value == golden(0.9028)
    assert 0.5 in rule.strongest["auc"].estimate
    assert label.strongest["auc"].attack == "gap"
    assert set(label.left_out) == {"threshold(signal=loss)", "calibrated"}
    assert rule.accuracy.value > plain.accuracy.value
    assert found.front == ("rule",)


def test_the_strongest_attack_is_the_highest_mean_of_those_that_count(found: Comparison) -> None:
    for one, row in zip(found.defences, found.rows, strict=True):
        counted = [f for f in one.audits.findings if f.label not in row.left_out]
        for name, best in row.strongest.items():
            assert best.estimate == one.audits.means(best.attack, len(counted))[name]
            if name == "epsilon":  # one bound of all targets, which pays for the choice itself
                assert best.estimate.value <= max(f.metrics[name].value for f in counted)
                continue
            assert best.estimate.value == max(f.metrics[name].value for f in counted)
            each = [
                finding.metrics[name]
                for audit in one.audits.targets
                for finding in audit.findings
                if finding.label == best.attack
            ]
            moved = one.audits.influences(best.attack, name)
            reads = one.audits.reads_shadows(best.attack)
            assert best.estimate == means.mean_over_targets(
                name, each, len(counted), covariance_between(moved) if reads else 0.0
            )


@pytest.mark.parametrize("targets", [3, 5, 8])
@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_the_interval_of_the_strongest_attack_allows_for_the_choice(
    targets: int, alike: float
) -> None:
    """Twelve attacks at chance. Student's own interval of the best covered 78 to 85 %."""
    rng, runs, covered = np.random.default_rng(0), 1000, 0
    for _ in range(runs):
        own = rng.normal(0, (1 - alike) ** 0.5, (12, targets))
        aucs = 0.5 + 0.02 * (own + rng.normal(0, alike**0.5, targets))
        best = aucs[aucs.mean(axis=1).argmax()]
        each = [Estimate(auc, auc - 0.04, auc + 0.04) for auc in best.tolist()]
        covered += 0.5 in means.mean_over_targets("auc", each, best_of=12)
    # three standard errors of a coverage of exactly 95 %
    assert covered / runs > 0.95 - 3 * (0.95 * 0.05 / runs) ** 0.5


def test_an_attack_that_fails_a_control_counts_for_nothing(found: Comparison) -> None:
    plain = found.defences[0]
    audit = plain.audits.targets[1]
    entries = list(audit.contents.entries)
    best = plain.strongest["auc"].attack
    at = next(k for k, entry in enumerate(entries) if entry.finding.label == best)
    control = entries[at].control
    assert control is not None
    blind = dataclasses.replace(control, planted=Estimate(0.5, 0.4, 0.6))
    entries[at] = dataclasses.replace(entries[at], control=blind)
    contents = dataclasses.replace(audit.contents, entries=tuple(entries))
    targets = list(plain.audits.targets)
    targets[1] = dataclasses.replace(audit, contents=contents)
    worse = dataclasses.replace(
        plain, audits=dataclasses.replace(plain.audits, targets=tuple(targets))
    )
    assert worse.left_out[best] == "it failed its controls on 1 targets"
    assert worse.strongest["auc"].attack != best


def test_aop_follows_from_accuracy_and_auc(found: Comparison) -> None:
    for row in found.rows:
        assert row.aop["0"] == row.accuracy
        assert row.aop["2"] == aop_estimate(row.accuracy, row.strongest["auc"].estimate, 2.0)


def test_differences_are_taken_target_by_target(found: Comparison) -> None:
    plain, rule, label = found.rows
    assert not plain.less
    each = [
        [
            finding.metrics["auc"].value
            for audit in one.audits.targets
            for finding in audit.findings
            if finding.label == one.strongest["auc"].attack
        ]
        for one in found.defences[:2]
    ]
    moved = [
        one.audits.influences(one.strongest["auc"].attack, "auc") for one in found.defences[:2]
    ]
    shared = covariance_between([one - other for one, other in zip(*moved[::-1], strict=True)])
    known = student_mean(np.subtract(each[1], each[0]).tolist(), covariance=shared)
    auc = rule.less["auc"]
    assert auc.value == pytest.approx(np.mean(each[1]) - np.mean(each[0]))
    assert (auc.low, auc.high) == pytest.approx((max(-1, known.low), known.high))
    assert auc.high is not None
    assert auc.high < 0
    assert label.less["accuracy"] == Estimate(0.0, 0.0, 0.0)  # the same models, and the label stays
    assert [one.entered.same_labels for one in found.defences] == [True, False, True]
    assert rule.less["accuracy"].low < rule.less["accuracy"].value
    assert "| label | 0, by definition: the same models and labels |" in found.table()
    assert "Seconds an epoch" in found.table()
    assert "not known" in found.table()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_shows_tables_that_fit(
    found: Comparison,
    width: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for shown in (found, found.defences[0].audits):
        render.show_result(shown)
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= width
        assert "|" not in said
        assert "**" not in said
        assert "threshold" in said
        assert f"{found.rows[0].strongest['auc'].estimate.value:.3f}" in said


@pytest.mark.slow
def test_what_is_read_back_is_what_was_found(found: Comparison) -> None:
    assert found.path is not None
    again = Comparison.load(found.path)
    assert again.rows == found.rows
    assert again.table() == found.table()
    before = {path: path.read_bytes() for path in found.path.glob("*.*")}
    assert again.report() == found.path / "report.html"
    assert {path: path.read_bytes() for path in found.path.glob("*.*")} == before


@pytest.mark.slow
def test_a_defence_that_is_added_is_all_that_is_trained(found: Comparison, tmp_path: Path) -> None:
    assert found.path is not None
    run = Path(shutil.copytree(found.path, tmp_path / "run"))
    TRAINED.clear()
    more = compared(run, again=(remember, defences_catalog.answer_defence("rounding")))
    assert len(TRAINED) == 4 + 1  # a fleet, and one alone
    assert more.rows[:3] == found.rows
    assert [row.name for row in more.rows] == ["plain", "rule", "label", "again"]
    assert more.head.created == found.head.created
    assert Comparison.load(run).rows == more.rows


def test_without_a_folder_the_figures_are_the_same_and_can_be_saved(
    found: Comparison, tmp_path: Path
) -> None:
    loose = compared(None, ways={"plain": remember})
    assert loose.rows[0].strongest == found.rows[0].strongest
    assert loose.rows[0].accuracy == found.rows[0].accuracy
    saved = Comparison.load(loose.save(tmp_path / "saved"))
    assert saved.rows[0].strongest == found.rows[0].strongest
    assert (tmp_path / "saved" / found.page).exists()
    assert loose.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_tables_say_the_same(found: Comparison) -> None:
    assert found.path is not None
    summary = json.loads((found.path / "summary.json").read_text())
    lines = list(csv.DictReader(io.StringIO((found.path / "summary.csv").read_text())))
    for row in found.rows:
        told = next(one for one in summary["rows"] if one["name"] == row.name)
        assert told["accuracy"]["value"] == row.accuracy.value
        auc = row.strongest["auc"]
        assert told["strongest"]["auc"]["estimate"]["high"] == auc.estimate.high
        (line,) = [one for one in lines if (one["defence"], one["figure"]) == (row.name, "auc")]
        assert float(line["low"]) == auc.estimate.low
        assert line["attack"] == auc.attack
    assert summary["front"]["auc"] == ["rule"]
    text = (found.path / "summary.md").read_text()
    assert "<b>" not in text
    assert text.count("\n| ") == 2 + len(found.rows) + 2 + len(found.rows) - 1


def test_the_page_is_whole_and_inert(found: Comparison) -> None:
    assert found.path is not None
    text = (found.path / "report.html").read_text()
    page = markup.parse(text)
    assert page.tags.count("script") == 1
    assert "default-src 'none'; script-src 'sha256-" in text
    assert "<b>" in page.text
    assert "b" not in page.tags
    assert page.tags.count("svg") == len(found.summary.metrics) > 1
    for row in found.rows:
        for cell in compare_table.cells(found.summary, row):
            assert " ".join(cell.split()) in page.text


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="check the path"):
        Comparison.load(tmp_path)
    (tmp_path / "x").write_text("")
    with pytest.raises(StoreError, match="expected a new folder"):
        compared(tmp_path)


def test_an_unfinished_comparison_says_so(found: Comparison, tmp_path: Path) -> None:
    run_json.store_head(tmp_path, dataclasses.replace(found.head, schema=99))
    with pytest.raises(StoreError, match="newer divulge"):
        Comparison.load(tmp_path)
    run_json.store_head(tmp_path, found.head)
    with pytest.raises(StoreError, match="check the path"):
        Comparison.load(tmp_path)


@pytest.mark.parametrize(
    ("ways", "message"),
    [({}, "expected defences by name"), ({"a": 3}, "a way to train"),
     ({"a": (forget, 3)}, "an answer defence beside")],
)  # fmt: skip
def test_what_is_no_defence_is_refused(ways: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        divulge.compare(ways, records=RECORDS)


POINT = st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([0.5, 0.6, 0.7]))


def row(name: str, accuracy: float, auc: float) -> compare_table.DefenceRow:
    def sure(value: float) -> Estimate:
        return Estimate(value, value, value)

    best = {"auc": compare_table.StrongestAttack("a", sure(auc))}
    one = sure(accuracy)
    return compare_table.DefenceRow(name, "", one, one, best, {}, None, None, 0, 1.0, None, {}, "",
                      "leak", 0.001, 0.9)  # fmt: skip


@given(points=st.lists(POINT, min_size=1, max_size=8))
def test_the_front_is_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    rows = [row(str(k), *point) for k, point in enumerate(points)]
    best = set(compare_table.pareto_front(rows))
    assert best

    def dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one[0] >= other[0] and one[1] <= other[1] and one != other

    for k, point in enumerate(points):
        assert (str(k) in best) == (not any(dominates(other, point) for other in points))


def test_a_defence_that_overshoots_is_no_choice() -> None:
    low = dataclasses.replace(row("low", 0.9, 0.2), level="inputs doubtful", doubt=BACKWARDS)
    assert compare_table.pareto_front([row("plain", 0.8, 0.6), low]) == ("plain",)
    assert "this way to train overshoots" in compare_table.describe_open_row(low, "2 ways")


def test_a_comparison_without_figures_of_privacy_has_a_page() -> None:
    bare = dataclasses.replace(row("a", 0.5, 0.5), strongest={}, left_out={"x": "failed: y"})
    told = compare_table.ComparisonSummary("n", "c", 10, 3, 2, 2, (bare,), "", (), {})
    assert told.metrics == ()
    page = markup.parse(compare_page.render_files(told)["report.html"].decode())
    assert "No attack could be measured" in page.text
    assert "x left out, failed: y" in page.text


SUBJECT = """
import numpy as np
from torch import nn

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 4)).astype(np.float32)
records = x, (x[:, 0] > 0).astype(int)

def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
"""

SETTINGS = """
name = "small"
models = 3
targets = 2
[data]
records = "subject.py:records"
[training]
network = "subject.py:network"
epochs = 2
batch_size = 50
[[defences]]
name = "none"
label = "undefended"
way = "one-by-one"
[[defences]]
name = "dp-sgd"
epsilon = 4.0
delta = 1e-5
epochs = 1
jobs = 1
[[defences]]
name = "none"
way = "one-by-one"
answers = {name = "rounding", digits = 2}
[[attacks]]
name = "calibrated"
"""


def test_the_command_compares_what_a_file_names(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "compare.toml").write_text(SETTINGS)
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "compare.toml"), "--format", "json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout.splitlines()[-1])
    assert [row["name"] for row in answer["rows"]] == ["undefended", "dp-sgd", "rounding"]
    plain, private, rounded = answer["rows"]
    assert (private["epsilon"], private["delta"]) == (4.0, 1e-5)
    assert plain["epsilon"] is rounded["epsilon"] is None
    assert (plain["epochs"], private["epochs"]) == (2, 1)
    assert plain["accuracy"] == rounded["accuracy"]
    assert min(row["seconds"] for row in answer["rows"]) > 0
    line = ["compare", str(tmp_path / "compare.toml"), "--estimate", "--format", "json"]
    costs = json.loads(CliRunner().invoke(main, line).stdout.splitlines()[-1])
    assert {name: cost["models"] for name, cost in costs.items()} == {
        row["name"]: 3 for row in answer["rows"]
    }
    run = tmp_path / "runs" / "small-001"
    assert answer["run"] == str(run)
    shown = CliRunner().invoke(main, ["report", str(run)])
    assert shown.output == f"{run / 'report.html'}\n"
    assert LeaveOneOut.load(run / private["run"]).facts.models == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("targets", "target"), "did you mean 'targets'"),
        (("records =", "members ="), r"data\.nonmembers"),
        (("epochs = 2", "epoch = 2"), "did you mean 'epochs'"),
        (("epsilon = 4.0", "epsilons = 4.0"), "expected"),
        (("dp-sgd", "dp-sdg"), "did you mean 'dp-sgd'"),
        (('name = "dp-sgd"', 'label = "dp-sgd"'), "either name or train"),
        (('label = "undefended"', 'label = "dp-sgd"'), "'dp-sgd' twice"),
        (("digits = 2", "digit = 2"), "did you mean 'digits'"),
        (("targets = 2", "targets = 1"), "targets"),
        (("targets = 2", "targets = 4"), "targets from 2 to 3"),
    ],
)
def test_wrong_settings_are_refused_in_words(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "compare.toml").write_text(SETTINGS.replace(*change))
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "compare.toml")])
    assert done.exit_code == 2, done.output
    assert "Error: " in done.stderr
    assert message in done.stderr or re.search(message, done.stderr)
    assert not (tmp_path / "runs").exists()
