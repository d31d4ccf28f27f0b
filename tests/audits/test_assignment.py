"""Audits of who trained on what, from the tables of several clients to the page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from divulge.cli.main import main
from divulge.core import NOBODY, Assignment, Collusion, Status
from divulge.errors import DataError, SpecError, StoreError
from divulge.federation import prediction_tables
from divulge.metrics import assignment
from divulge.report.federation import small_samples
from divulge.testing import clients

from ..kinds import audit_federation, load_federation

NAMES = ("ann", "bob<b>", "cat")

SETTINGS = """
name = "three clinics"
[assignment]
colluder = "cat"
truth = "leaky/owners.csv"
[assignment.predictions]
ann = "leaky/ann.csv"
"bob<b>" = "leaky/bob.csv"
cat = "leaky/cat.csv"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assignment")
    for name, leak in (("leaky", 1.0), ("silent", 0.0)):
        game = clients.draw_game(0, leak=leak).challenge
        prediction_tables.write(folder / name, game.view, ("ann", "bob", "cat"), game.truth)
        owners = folder / name / "owners.csv"
        owners.write_text(owners.read_text().replace("bob", "bob<b>"))
        (folder / f"{name}.toml").write_text(SETTINGS.replace("leaky", name))
    return folder


def changed(place: Path, file: str, old: str, new: str, count: int = 1) -> Path:
    """Settings of a copy of the leaky federation with something else in one file."""
    text = (place / "leaky" / file).read_text()
    assert old in text
    (place / "changed.csv").write_text(text.replace(old, new, count))
    path = place / "changed.toml"
    path.write_text(SETTINGS.replace(f"leaky/{file}", "changed.csv"))
    return path


@pytest.mark.slow
def test_the_command_says_who_trained_on_what(place: Path) -> None:
    run = place / "run"
    command = ["audit", str(place / "leaky.toml"), "--run", str(run), "--format", "json"]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 0, said.output
    findings = {f["attack"]: f for f in json.loads(said.output.splitlines()[-1])["findings"]}
    assert set(findings) == {"cluster-lira", "variance-lira", "confidence-rule", "nobody"}
    assert findings["cluster-lira"]["metrics"]["accuracy"]["value"] > 0.8
    assert findings["nobody"]["metrics"]["specificity"]["value"] == 1.0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "beyond chance" in page
    assert "Client bob&lt;b&gt; trained on 20 candidates" in page
    assert "What so few records can and cannot show" in page
    assert "bob<b>" not in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["verdict"]["level"] == "leak"
    assert summary["verdict"]["p_value"] == 0.001
    assert summary["not_measured"][-1]["kind"] == "scope"
    assert summary["truth"] == {"ann": 20, "bob<b>": 20, "cat": 20, "nobody": 40}
    assert summary["best_constant"]["value"] == 0.6
    assert sum(summary["attacks"][0]["answers"].values()) == summary["candidates"] == 100
    assert summary["attacks"][0]["tests"]["p, permutation"] == 0.001
    assert summary["attacks"][3]["tests"]["p, z-test"] == 1.0

    first = load_federation(run)
    assert CliRunner().invoke(main, ["measure", str(run)]).exit_code == 0
    assert load_federation(run).findings == first.findings
    (run / "report.html").unlink()
    assert CliRunner().invoke(main, ["report", str(run)]).exit_code == 0
    assert (run / "report.html").read_text(encoding="utf-8") == page
    assert audit_federation(place / "leaky.toml", run, resume=True).findings == first.findings
    with pytest.raises(StoreError, match="begun with"):
        audit_federation(place / "silent.toml", run, resume=True)


def test_where_nothing_leaks_the_page_says_that_nothing_can_be_told(place: Path) -> None:
    found = audit_federation(place / "silent.toml", place / "quiet")
    assert found.verdict.level == "no leak found"
    assert found.verdict.p_value is not None
    assert found.verdict.p_value > 0.05
    assert any(
        "does not differ significantly from the best single answer" in line
        for line in found.lines()
    )


@pytest.mark.slow
def test_the_gate_trips_by_metrics_of_assignments(place: Path) -> None:
    command = ["audit", str(place / "leaky.toml"), "--run", str(place / "gated")]
    said = CliRunner().invoke(main, [*command, "--fail-above", "recall=0.4"])
    assert said.exit_code == 3
    assert "Gate failed: recall: lower limit" in said.output
    said = CliRunner().invoke(main, [*command, "--fail-above", "specificity=0.4"])
    assert said.exit_code == 2


@pytest.mark.slow
def test_without_a_truth_there_are_answers_alone(place: Path) -> None:
    (place / "blind.toml").write_text(SETTINGS.replace('truth = "leaky/owners.csv"\n', ""))
    found = audit_federation(place / "blind.toml", place / "blind")
    assert all(finding.status is Status.DONE for finding in found.findings)
    assert "the truth about the candidates is unknown" in found.findings[0].unmeasured["accuracy"]
    assert any(line.startswith("Of 100 candidates, the attack gives ") for line in found.lines())
    assert "nothing was checked" in (place / "blind" / "report.html").read_text()


def test_what_is_written_is_read_again(place: Path) -> None:
    game = clients.draw_game(0).challenge
    files = {name: place / "leaky" / f"{name}.csv" for name in ("ann", "bob", "cat")}
    view = prediction_tables.read(files, "cat")
    for k in range(3):
        parts = (
            (view.records, game.view.records),
            (view.relevant[k], game.view.relevant[k]),
            (view.external[k], game.view.external[k]),
        )
        for mine, theirs in parts:
            np.testing.assert_array_equal(mine.y, theirs.y)
            said, meant = view.targets[k].predict(mine.x), game.view.targets[k].predict(theirs.x)
            np.testing.assert_allclose(said, meant, rtol=1e-12)
    np.testing.assert_array_equal(view.collusion.relevant, game.view.collusion.relevant)
    np.testing.assert_array_equal(view.collusion.records, game.view.collusion.records)


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("ann.csv", "relevant,", "suspected,", "'relevant'"),
        ("ann.csv", "p_0,p_1,p_2,p_3", "a,b,c,d", r"p_\*"),
        ("cat.csv", ",member", ",mine", "'member'"),
        ("ann.csv", "\n0,0,", "\n2,0,", "0 or 1"),
        ("ann.csv", "\n0,0,", "\n1,1,", "both"),
        ("ann.csv", "\n0,0,", "\n1,0,", "same candidates"),
        ("ann.csv", "\n0,0,2,", "\n0,0,1,", "labels"),
        ("ann.csv", "\n0,0,2,", "\n0,0,9,", "classes of the columns p_0, p_1"),
        ("owners.csv", "client", "owner", "'client'"),
        ("owners.csv", "ann", "anna", "did you mean 'ann'"),
        ("owners.csv", "ann\n", "", "each of 100"),
        ("owners.csv", "ann", "cat", "contradict|something else"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    place: Path, file: str, old: str, new: str, says: str
) -> None:
    path = changed(place, file, old, new)
    with pytest.raises(DataError, match=says):
        audit_federation(path, place / "refused")


def test_answers_of_one_model_in_the_tables_of_all_clients_are_refused(place: Path) -> None:
    files = dict.fromkeys(("ann", "bob", "cat"), place / "leaky" / "cat.csv")
    with pytest.raises(DataError, match=r"got the same about all candidates .* not the server's"):
        prediction_tables.read(files, "cat")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('colluder = "cat"', 'colluder = "dog"', "dog"),
        ("ann =", "nobody =", "names of their own"),
        ("[assignment]", '[interactions]\ntranscript = "t"\n[assignment]', "alone"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_named(place: Path, old: str, new: str, says: str) -> None:
    (place / "odd.toml").write_text(SETTINGS.replace(old, new))
    with pytest.raises(SpecError, match=says):
        audit_federation(place / "odd.toml", place / "odd")


def test_every_metric_is_measured_or_says_why_not() -> None:
    truth = Assignment(np.array([0, 1, 2, *[NOBODY] * 40]))
    score = np.zeros((43, 3))
    score[0, 0] = score[1, 0] = 1.0  # the second for the wrong client
    known = Collusion(2, np.zeros(0, bool), truth.client == 2)
    guess = Assignment(np.full(43, NOBODY), score)
    metrics, unmeasured = assignment.measure(guess, truth, known)
    assert set(metrics) | set(unmeasured) == set(assignment.METRICS)
    # of 82 other pairs 2.46 may be accused: the one with a score, and by coins 1.46 of 81 that tie
    assert metrics["tpr@0.03"].value == pytest.approx(0.5 + 0.5 * (0.03 * 82 - 1) / 81)
    assert unmeasured["tpr@0.03"].endswith("cannot support a lower limit: give at least 122")
    assert "100" in unmeasured["tpr@0.01"]
    bare = assignment.measure(Assignment(guess.client), truth, known)
    assert "score" in bare.unmeasured["tpr@0.03"]
    owned = Assignment(np.array([0, 1]), np.zeros((2, 3)))
    nobody_known = Collusion(2, np.zeros(0, bool), np.zeros(2, bool))
    assert "non-members" in assignment.measure(owned, owned, nobody_known).unmeasured["specificity"]


def test_what_small_samples_show_is_said_in_numbers() -> None:
    accuracy, members, nonmembers = small_samples.small_sample_sentences(13, 103, 116, 103)
    trials = (116, 116)
    least = int(re.findall(r"give (\d+) right", accuracy)[0])
    assert assignment.two_proportion_test((least, 103), trials).p <= 0.05
    assert assignment.two_proportion_test((least - 1, 103), trials).p > 0.05
    assert "from 19 % to 75 %" in members  # the exact interval of 6 of 13
    assert "0.971 %" in nonmembers
    assert "2.9 %" in nonmembers  # 1 - .05 ** (1 / 103)
    assert not list(small_samples.small_sample_sentences(200, 300, 500, 300))
    assert "Not even" in next(iter(small_samples.small_sample_sentences(1, 9, 10, 9)))
