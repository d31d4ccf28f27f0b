"""A table with one loss or score a record: ranked as it is, and nothing invented besides."""

import csv
import html
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sklearn.metrics import roc_auc_score, roc_curve

import divulge
from divulge.audits.result import Audit
from divulge.cli.main import main
from divulge.core import ControlOutcome, Membership, Scores, Status
from divulge.errors import DataError, SpecError, StoreError
from divulge.metrics.measure import measure
from divulge.targets.given_scores import read_scores
from tests import resealed
from tests.slow import slow

SIZE = 300
DRAWN = divulge.Options(membership="fixed")
"""Members were drawn at random, so that what tells them apart is a leak."""


def draw(shift: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Losses, and who is a member: members' logarithms are lower by so many deviations."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(2 * SIZE) < SIZE
    return np.exp(rng.normal(size=2 * SIZE) - shift * member), member


def write(path: Path, member: np.ndarray, **columns: Any) -> Path:
    names = (*columns, "member")
    rows = zip(*columns.values(), member.astype(int), strict=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def call(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def table(tmp_path: Path) -> Path:
    loss, member = draw(1.0)
    return write(tmp_path / "table.csv", member, loss=loss, score=-loss)


def test_figures_are_those_of_others_and_of_the_guess(table: Path) -> None:
    loss, member = draw(1.0)
    found = divulge.audit_predictions(table, loss="loss", options=DRAWN)
    (finding,) = found.findings
    assert (finding.label, finding.status) == ("given-score", Status.DONE)
    assert finding.metrics["auc"].value == pytest.approx(roc_auc_score(member, -loss), abs=1e-12)
    fpr, tpr, _ = roc_curve(member, -loss, drop_intermediate=False)
    for rate in (0.1, 0.01):
        reached = tpr[fpr <= rate + 1e-12].max()
        assert finding.metrics[f"tpr@{rate}"].value == pytest.approx(reached, abs=1e-12)
    expected = measure(Scores(-loss), Membership(member), 0.0)
    assert expected.metrics.keys() == finding.metrics.keys()
    for name in expected.metrics.keys() - {"advantage", "balanced_accuracy"}:  # halves are drawn
        assert finding.metrics[name] == expected.metrics[name]
    assert finding.metrics["epsilon"].low > 0
    assert found.verdict.level == "leak"
    assert "an attacker who sees only the loss in column 'loss'" in found.verdict.sentences[0]
    (entry,) = found.contents.entries
    assert entry.control is not None
    assert entry.control.outcome is ControlOutcome.PASSED


def test_a_loss_is_minus_a_score_exactly(table: Path) -> None:
    one = divulge.audit_predictions(table, loss="loss")
    other = divulge.audit_predictions(table, score="score")
    assert one.findings[0].metrics == other.findings[0].metrics
    assert one.findings[0].unmeasured == other.findings[0].unmeasured
    assert one.contents.entries[0].control == other.contents.entries[0].control
    np.testing.assert_array_equal(one.contents.entries[0].score, other.contents.entries[0].score)
    assert one.summary.exposed == other.summary.exposed
    assert one.verdict.p_value == other.verdict.p_value


def test_ties_are_ties_and_minus_zero_is_zero(tmp_path: Path) -> None:
    loss, member = draw(1.0)
    rounded = np.round(loss)
    found = divulge.audit_predictions(write(tmp_path / "t.csv", member, l=rounded), loss="l")
    auc = found.findings[0].metrics["auc"].value
    assert auc == pytest.approx(roc_auc_score(member, -rounded), abs=1e-12)
    ties = next(check for check in found.checks if check.name == "ties")
    assert ties.verdict == "warning"
    assert f"{np.mean(rounded == 0):.0%} of the records share the highest score" in ties.text
    signs = write(tmp_path / "z.csv", np.array([1, 0, 1]), s=["-0.0", "0.0", "-1"])
    assert str(read_scores(signs, "score", "s").score.tolist()) == "[0.0, 0.0, -1.0]"


def read(name: str, content: bytes) -> str:
    """What people read of a file: of a page or drawing its text."""
    text = content.decode()
    if not name.endswith((".html", ".svg")):
        return text
    shown = re.sub(r"<(style|script).*?</\1>", "", text, flags=re.S)
    return html.unescape(re.sub(r"<[^>]+>", " ", shown))


def written(folder: Path) -> dict[str, str]:
    """Every text of a run folder."""
    ends = (".html", ".json", ".md", ".csv", ".svg")
    files = [file for file in folder.rglob("*") if file.suffix in ends]
    return {file.name: read(file.name, file.read_bytes()) for file in files}


def packed(pack: Path) -> dict[str, str]:
    """Every text of a pack of evidence but its script and its list of files."""
    with zipfile.ZipFile(pack) as opened:
        names = [name for name in opened.namelist() if name.endswith((".json", ".md", ".html"))]
        return {name: read(name, opened.read(name)) for name in names}


@pytest.mark.parametrize("kind", ["loss", slow("score")])
@pytest.mark.parametrize("shift", [1.0, 0.0, -1.0])
def test_no_output_invents_an_accuracy_or_a_class(kind: str, shift: float, tmp_path: Path) -> None:
    loss, member = draw(shift, seed=3)
    write(tmp_path / "t.csv", member, number=loss if kind == "loss" else -loss)
    settings = tmp_path / "audit.toml"
    settings.write_text(f'[predictions]\nfile = "t.csv"\n{kind} = "number"\nmembership = "fixed"\n')
    run = tmp_path / "run"
    said = call("audit", settings, "--run", run)
    level = {1.0: "leak", 0.0: "no leak found", -1.0: "inputs doubtful"}[shift]
    found = divulge.load(run)
    assert isinstance(found, Audit)
    assert found.verdict.level == level
    junit, sarif, card = tmp_path / "j.xml", tmp_path / "s.sarif", tmp_path / "card.md"
    call("export", run, "--junit", junit, "--sarif", sarif, "--model-card", card)
    texts = {file.name: file.read_text() for file in (junit, sarif, card)}
    texts |= packed(divulge.evidence(run, tmp_path / "pack.zip"))
    texts |= {"terminal": " ".join(said.output.split()), **written(run)}
    assert {"report.html", "summary.json", "evidence/report.html"} <= texts.keys()
    for name, text in texts.items():
        # the balanced accuracy is that of the attack
        assert re.findall(r".{30}(?<!balanced[ _])accurac.{30}|.\bgap\b.", text, re.I) == [], name
        if not name.endswith((".json", ".sarif")):  # whose keys are those of all audits
            assert re.findall(r"\bclass(?:es)?\b|\blabels?\b", text, re.I) == [], name
    for name in ("report.html", "terminal", "card.md"):
        assert f"the {kind} in column 'number'" in html.unescape(texts[name])
    summary = json.loads((run / "summary.json").read_text())
    assert [row["attack"] for row in summary["attacks"]] == ["given-score"]
    assert summary["exposure"]["classes"] == []
    assert summary["remedies"] == []
    assert not {"model accuracy", "class mix"} & {check["name"] for check in summary["checks"]}
    assert (run / "exposed.csv").read_text().splitlines()[0] == "position,id,score,p,q"
    assert not (run / "figures" / "classes.svg").exists()


def test_members_that_rank_below_are_doubted_with_advice_on_the_sign(table: Path) -> None:
    found = divulge.audit_predictions(table, score="loss")
    assert found.verdict.level == "inputs doubtful"
    assert "the score in column 'loss' is passed with the wrong sign" in found.verdict.sentences[0]
    assert "pass it as loss or as score" in found.verdict.next_step
    right = divulge.audit_predictions(table, loss="loss", options=DRAWN)  # as advised
    auc, other = (one.findings[0].metrics["auc"].value for one in (found, right))
    assert auc == pytest.approx(1 - other, abs=1e-12)
    assert right.verdict.level == "leak"


@pytest.mark.parametrize(
    ("shift", "gate", "code"),
    [
        (1.0, ("--fail-on", "leak"), 3),
        slow(1.0, ("--fail-above", "auc=0.6"), 3),
        (1.0, ("--fail-above", "auc=0.9"), 0),
        (0.0, ("--fail-on", "leak"), 0),
        (-1.0, ("--fail-on", "leak"), 4),
        slow(-1.0, ("--fail-above", "auc=0.9"), 4),
    ],
)
def test_a_gate_rules_as_for_other_audits(
    shift: float, gate: tuple[str, str], code: int, tmp_path: Path
) -> None:
    loss, member = draw(shift, seed=3)
    write(tmp_path / "t.csv", member, nll=loss)
    settings = tmp_path / "audit.toml"
    settings.write_text('[predictions]\nfile = "t.csv"\nloss = "nll"\nmembership = "fixed"\n')
    call("audit", settings, *gate, code=code)


@pytest.mark.slow
def test_a_run_is_continued_and_compared_with_another(table: Path, tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    found = divulge.audit_predictions(table, loss="loss", run=first)
    divulge.audit_predictions(table, loss="loss", run=again)
    next((again / "findings").glob("*.json")).unlink()
    continued = divulge.audit_predictions(
        table, loss="loss", run=again, options=divulge.Options(resume=True)
    )
    assert continued.findings[0].metrics == found.findings[0].metrics
    assert continued.verdict == found.verdict
    loss, member = draw(0.5)
    less = write(tmp_path / "less.csv", member, loss=loss)
    divulge.audit_predictions(less, loss="loss", run=other)
    (change,) = (one for one in divulge.diff(other, first).figures if one.metric == "auc")
    assert change.attack == "given-score"
    kept = (first / "report.html").read_text()
    call("report", first)
    assert (first / "report.html").read_text() == kept
    settings = tmp_path / "audit.toml"
    settings.write_text(f'[predictions]\nfile = "{table.name}"\nloss = "loss"\n')
    call("audit", settings, "--not-worse-than", other, code=3)
    call("plan", settings)
    with pytest.raises(StoreError, match="got different ones: start a new run"):
        divulge.audit_predictions(
            table, score="loss", run=first, options=divulge.Options(resume=True)
        )


def test_ids_and_values_of_members_work_as_for_answers(tmp_path: Path) -> None:
    loss, member = draw(2.0)
    names = [f"patient {k}" for k in range(len(member))]
    table = tmp_path / "t.csv"
    with table.open("w", newline="") as file:
        rows = zip(names, loss, np.where(member, "2019", "2020"), strict=True)
        csv.writer(file).writerows([("who", "nll", "year"), *rows])
    run = tmp_path / "run"
    divulge.audit_predictions(
        table, loss="nll", member="year", member_value="2019", ids="who", run=run
    )
    listed = list(csv.DictReader((run / "exposed.csv").read_text().splitlines()))
    assert {row["id"] for row in listed} == {names[k] for k in np.flatnonzero(member)}
    lowest = np.flatnonzero(member)[np.argmin(loss[member])]
    assert listed[0]["id"] == names[lowest]
    assert float(listed[0]["score"]) == -loss[lowest]


def test_a_parquet_file_gives_the_same(table: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.read_csv(table).to_parquet(tmp_path / "t.parquet")
    one, other = (
        divulge.audit_predictions(file, loss="loss") for file in (table, tmp_path / "t.parquet")
    )
    assert one.findings[0].metrics == other.findings[0].metrics


@pytest.mark.parametrize("scale", [1.0, 1e20])
@pytest.mark.parametrize(("kind", "sign"), [("loss", 1), ("score", -1)])
def test_an_infinite_loss_ranks_last(kind: str, sign: int, scale: float, tmp_path: Path) -> None:
    loss, member = draw(1.0)
    loss *= scale
    endless = loss > np.quantile(loss, 0.98)
    loss[endless] = np.inf
    # so that their AUC is lower where the two tie
    member[endless.argmax()], member[np.where(endless, -np.inf, loss).argmax()] = True, False
    table = write(tmp_path / "t.csv", member, number=sign * loss)
    found = divulge.audit_predictions(table, **{kind: "number"})  # type: ignore[arg-type]
    auc = roc_auc_score(member, -np.where(endless, 1e9 * scale, loss))
    assert found.findings[0].metrics["auc"].value == pytest.approx(auc, abs=1e-12)
    (said,) = (check.text for check in found.checks if check.name == f"{kind} column")
    assert f"{endless.sum()} of 600 records have" in said
    assert "rank last" in said


@pytest.mark.parametrize(
    ("kind", "cells", "message"),
    [
        ("loss", [0.5, "nan", 1], "a loss in .*column 'v', row 2 below the header, got nan"),
        ("loss", [0.5, "", 1], "a number in .*column 'v', row 2 below the header"),
        ("loss", [0.5, "low", 1], "a number in .*row 2 below the header, got 'xxx'"),
        ("loss", [0.5, 1, "-inf"], "1e\\+100 at most, or inf, .*row 3 below the header, got -inf"),
        ("score", ["inf", 1, 2], "1e\\+100 at most, or -inf, .*row 1 below the header, got inf"),
        ("score", [1, 1e200, 2], "row 2 below the header, got 9e\\+999: .* or take its logarithm"),
        (
            "loss",
            [0.25, 0.25, 0.25],
            "a loss that differs .*column 'v', got 9.99 in each of 3",
        ),
        ("loss", ["inf", "inf", "inf"], "a loss that differs .*got inf in each of 3 rows"),
    ],
)
def test_cells_that_rank_nobody_are_refused(
    kind: str, cells: list[Any], message: str, tmp_path: Path
) -> None:
    table = write(tmp_path / "t.csv", np.array([1, 0, 1]), v=cells)
    with pytest.raises(DataError, match=message):
        divulge.audit_predictions(table, **{kind: "v"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"loss": "nll"}, "expected a column 'nll' in .*got loss, score, member: pass loss="),
        ({"loss": "loss", "member": "in"}, "expected a column 'in' in .* pass loss= and member="),
        ({"loss": "member"}, "two columns for the loss and the membership, got 'member' for both"),
        ({"score": "score", "ids": "score"}, "two columns for the score and your ids, got 'score'"),
    ],
)
def test_columns_that_are_missing_or_shared_are_refused(
    table: Path, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        divulge.audit_predictions(table, **asked)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("score", "score"),
        ("probabilities", "p_*"),
        ("label", "label"),
        ("output", "probabilities"),
        ("output", "logits"),
        ("class_names", ["a", "b"]),
    ],
)
def test_what_cannot_stand_beside_a_loss_is_refused_by_name(
    table: Path, name: str, value: Any
) -> None:
    settings = table.parent / "audit.toml"
    settings.write_text(
        f'[predictions]\nfile = "{table.name}"\nloss = "loss"\n{name} = {json.dumps(value)}\n'
    )
    message = f"expected no {name} beside loss = 'loss', got "
    said = call("audit", settings, code=2)
    assert message in " ".join(said.output.split())
    options, asked = divulge.Options(), {name: value}
    if name == "class_names":
        options, asked = divulge.Options(class_names=value), {}
    with pytest.raises(SpecError, match=message):
        divulge.audit_predictions(table, loss="loss", options=options, **asked)
    assert not (table.parent / "runs").exists()


def test_other_attacks_are_refused_by_name_and_this_one_on_models(table: Path) -> None:
    message = "no attack but given-score beside loss, got 'gap', which needs labels, hard labels"
    with pytest.raises(SpecError, match=message):
        divulge.audit_predictions(
            table, loss="loss", attacks=[divulge.attack("given-score"), divulge.attack("gap")]
        )
    settings = table.parent / "audit.toml"
    settings.write_text(
        f'[predictions]\nfile = "{table.name}"\nloss = "loss"\n[[attacks]]\nname = "gap"\n'
    )
    assert message in " ".join(call("audit", settings, code=2).output.split())
    x, y = np.arange(8.0)[:, None], np.arange(8) % 2
    found = divulge.audit(
        lambda x: np.full((len(x), 2), 0.5),
        members=(x[:4], y[:4]),
        nonmembers=(x[4:], y[4:]),
        attacks=[divulge.attack("given-score")],
    )
    assert found.findings[0].status is Status.NOT_APPLICABLE
    assert found.findings[0].reason.startswith("needs scores")


def test_few_values_are_not_taken_for_a_broken_instrument(tmp_path: Path) -> None:
    """A score of two values, one of them rare, still shows a planted leak."""
    rng = np.random.default_rng(0)
    member = rng.permutation(400) < 200
    rare = (rng.random(400) < 0.01).astype(float)
    for score in (rare, 1 - rare):
        found = divulge.audit_predictions(write(tmp_path / "t.csv", member, s=score), score="s")
        control = found.contents.entries[0].control
        assert control is not None
        assert control.sees


@pytest.mark.parametrize(("share", "level"), [(0.4, "leak"), (0.97, "inputs doubtful")])
def test_infinite_losses_of_most_records_take_back_a_reassurance(
    share: float, level: str, tmp_path: Path
) -> None:
    loss, member = draw(1.0)
    endless = np.random.default_rng(1).random(len(loss)) < share
    table = write(tmp_path / "t.csv", member, loss=np.where(endless, np.inf, loss))
    found = divulge.audit_predictions(table, loss="loss", options=DRAWN)
    assert found.verdict.level == level


@pytest.mark.parametrize(("metric", "value"), [("auc", 2.0), ("auc", -0.1), ("advantage", 1.5)])
def test_a_stored_rate_out_of_range_is_refused(metric: str, value: float, tmp_path: Path) -> None:
    loss, member = draw(0.5)
    table = write(tmp_path / "t.csv", member, loss=loss)
    run = tmp_path / "run"
    divulge.audit_predictions(table, loss="loss", options=DRAWN, run=run)
    (place,) = (run / "findings").glob("*.json")
    stored = json.loads(place.read_text())
    stored["finding"]["metrics"][metric]["value"] = value
    resealed.write(place, stored)
    with pytest.raises(StoreError, match=f"as divulge wrote it.*{metric} of "):
        divulge.load(run)
