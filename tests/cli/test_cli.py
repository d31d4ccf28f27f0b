"""The command line as a user meets it: in a process of its own, by exit codes and messages."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from divulge.attacks.catalog import CATALOGUE
from divulge.audits import config
from divulge.cli.main import main
from divulge.secrets.registry import SECRETS
from tests.golden import golden

CSV_ROWS = 300


def call(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `divulge init` writes, with two quick attacks."""
    monkeypatch.chdir(tmp_path)
    call("init", "mine")
    settings = tmp_path / "mine" / "audit.toml"
    quick = '[[attacks]]\nname = "threshold"\n[[attacks]]\nname = "gap"\n'
    settings.write_text(settings.read_text() + quick)
    return settings


def test_from_init_to_a_report(project: Path) -> None:
    done = call("audit", project, "--format", "json")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert set(answer) == {"run", "report", "verdict", "findings", "claim"}
    assert Path(answer["report"]).read_text().lower().startswith("<!doctype html>")
    assert {finding["status"] for finding in answer["findings"]} == {"done"}
    for finding in answer["findings"]:
        assert set(finding["metrics"]["auc"]) == {"value", "low", "high"}
    assert Path(answer["run"]).parent == project.parent / "runs"
    page = Path(answer["report"])
    before = page.read_text()
    page.unlink()
    assert call("report", answer["run"]).stdout.strip() == str(page)
    assert page.read_text() == before
    again = json.loads(call("measure", answer["run"], "--format", "json").stdout.splitlines()[-1])
    assert again == answer


@pytest.mark.parametrize("code", ["0", "3", "'good bye'"])
def test_code_of_the_user_ends_no_command_as_if_it_had_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(f"import sys\nsys.exit({code})\n")
    settings = tmp_path / "audit.toml"
    settings.write_text('[target]\nmodel = "mine.py:f"\n[data]\nmembers = "m"\nnonmembers = "n"\n')
    for words in (["check", "mine.py:Attack"], ["audit", "audit.toml", "--fail-on", "leak"]):
        done = call(*words, code=2)
        assert "it ended the program (sys.exit with" in done.stderr


def test_no_memory_is_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(config, "read_config", fail)
    said = call("audit", "audit.toml", code=2)
    assert said.stderr.startswith("Error: expected memory for this work, got too little")


def test_the_gate(project: Path) -> None:
    run = project.parent / "runs" / "run"
    tripped = call("audit", project, "--run", run, "--fail-above", "auc=0.5", code=3)
    assert tripped.stderr.splitlines()[-1].startswith("Gate failed: auc: lower limit")
    call("export", run, "--fail-above", "auc=0.999", "--judge", "value", code=0)
    passed = call("export", run, "--fail-above", "auc=1")
    assert "Gate passed: auc: lower limit" in passed.stderr
    agreed = call("audit", project, "--ceiling", "auc=1").stderr.splitlines()
    assert agreed[-1].startswith("Gate passed: auc is at most ")  # before the verdict, on stdout
    over = call("export", run, "--ceiling", "auc=0.501", code=3)
    assert "Gate failed: auc is at least" in over.stderr
    missing = call("export", run, "--fail-above", "tpr@0.001=0.5", code=4)
    assert "Gate undecided: tpr@0.001 was measured by no attack" in missing.stderr
    project.write_text(project.read_text() + '\n[gate]\nfail_above = { "auc" = 0.5 }\n')
    call("audit", project, code=3)
    call("audit", project, "--fail-above", "auc=1", code=3)  # both are judged


SUBJECT = """
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(400, 6))
y = rng.integers(2, size=400)
members, nonmembers = (x[:200], y[:200]), (x[200:], y[200:])
known = {{row.tobytes(): label for row, label in zip(x[:{exposed}], y)}}


def model(rows):
    p = 0.5 + 0.2 * np.tanh(rows[:, 0])
    answers = np.stack([1 - p, p], axis=1)
    for number, row in enumerate(np.ascontiguousarray(rows, float)):
        if row.tobytes() in known:
            answers[number] = np.eye(2)[known[row.tobytes()]] * 0.9 + 0.05
    return answers
"""


@pytest.mark.parametrize(("exposed", "code"), [(200, 3), (24, 3), (0, 0)])
def test_the_gate_of_the_readme_and_the_tutorial_decides_with_200_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exposed: int, code: int
) -> None:
    line = "divulge audit audit.toml --fail-on leak"
    for page in ("README.md", "docs/tutorial.md"):
        assert f"\n{line}\n" in Path(__file__).parents[2].joinpath(page).read_text("utf-8")
    (tmp_path / "subject.py").write_text(SUBJECT.format(exposed=exposed))
    (tmp_path / "audit.toml").write_text(
        '[target]\nmodel = "subject.py:model"\n'
        '[data]\nmembers = "subject.py:members"\nnonmembers = "subject.py:nonmembers"\n'
    )
    monkeypatch.chdir(tmp_path)
    done = call(*line.split()[1:], code=code)
    assert ("Gate failed: " if code else "Gate passed: ") in done.stderr


def test_a_gate_that_cannot_be_decided_says_how_many_records_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = SUBJECT.format(exposed=0).replace("x[:200], y[:200]", "x[:6], y[:6]")
    (tmp_path / "subject.py").write_text(few.replace("x[200:], y[200:]", "x[200:206], y[200:206]"))
    (tmp_path / "audit.toml").write_text(
        '[target]\nmodel = "subject.py:model"\n'
        '[data]\nmembers = "subject.py:members"\nnonmembers = "subject.py:nonmembers"\n'
    )
    monkeypatch.chdir(tmp_path)
    done = call("audit", "audit.toml", "--fail-on", "leak", code=4)
    assert "Give at least" in done.stderr


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("auk=0.5", "did you mean 'auc'"),
        ("auc", "METRIC=CEILING"),
        ("auc=x", "METRIC=CEILING"),
        ("auc=nan", "METRIC=CEILING"),
        ("tpr@1%=0.05", "did you mean 'tpr@0.01'"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused_before_any_work(
    project: Path, gate: str, message: str
) -> None:
    refused = call("audit", project, "--fail-above", gate, code=2)
    assert message in refused.stderr
    assert not (project.parent / "runs").exists()


def test_an_attack_that_fails_is_exit_code_1(project: Path) -> None:
    (project.parent / "broken.py").write_text(
        "def model(x):\n    global asked\n    raise RuntimeError('down')\n"
    )
    # a model that fails from the start cannot be audited at all: bad input
    text = project.read_text().replace("subject.py:model", "broken.py:model")
    project.write_text(text)
    assert "RuntimeError: down" in call("audit", project, code=2).stderr


def test_a_failed_finding_sets_exit_code_1(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from divulge.attacks.membership.gap import Gap

    def fall(*arguments: object) -> None:
        raise ZeroDivisionError("by design")

    monkeypatch.setattr(Gap, "__call__", fall)
    done = call("audit", project, code=1)
    assert "ZeroDivisionError: by design" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "my model"', 'nme = "x"', "did you mean 'name'"),
        ("subject.py:model", "subject.py:modl", "did you mean 'model'"),
        ("subject.py:model", "nothing.py:model", "there is none"),
        ("subject.py:model", "none.onnx", "none.onnx"),
        ("subject.py:model", "no.such.module:model", "ModuleNotFoundError"),
        ("subject.py:members", "subject.py:x", "a pair"),
        ("subject.py:members", "none.npz", "there is none"),
        ("subject.py:nonmembers", "subject.py:members", "exact copies of members"),
        ('name = "gap"', 'name = "gapp"', "did you mean 'gap'"),
        ('name = "gap"', 'name = "gap"\nx = 1', "expected a setting of gap"),
        ('name = "gap"', 'name = "threshold"', "twice"),
        ("[data]", "budget = 3\n[data]", "budget"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_line(
    project: Path, old: str, new: str, message: str
) -> None:
    text = project.read_text()
    assert old in text
    project.write_text(text.replace(old, new, 1))
    refused = call("audit", project, code=2)
    assert message in refused.stderr
    assert refused.stderr.splitlines()[-1].startswith("Error: ")
    assert not (project.parent / "runs").exists()


@pytest.mark.parametrize(
    ("file", "code", "message"),
    [
        ("x, y = 1, 2\n", "x, y = 1, 2\nraise ValueError('ouch')\n", "ValueError (subject.py"),
        ("def (", "", "SyntaxError"),
    ],
)
def test_an_error_in_the_users_code_names_the_line(
    project: Path, file: str, code: str, message: str
) -> None:
    (project.parent / "subject.py").write_text(code or file)
    assert message in call("audit", project, code=2).stderr


def test_lengths_that_differ_are_refused_without_the_shape_checker(project: Path) -> None:
    """In a process of its own, as users run it: no run-time checking of annotations."""
    subject = project.parent / "subject.py"
    subject.write_text(subject.read_text().replace("return x_train, y", "return x_train[1:], y"))
    done = subprocess.run(
        [sys.executable, "-m", "divulge", "audit", project], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "equal length" in done.stderr
    assert "Traceback" not in done.stderr


def test_init_never_overwrites(project: Path) -> None:
    before = project.read_text()
    assert "move it away" in call("init", project.parent, code=2).stderr
    assert project.read_text() == before


@pytest.mark.parametrize("command", ["report", "measure"])
def test_a_folder_that_is_no_run(tmp_path: Path, command: str) -> None:
    assert "expected a run folder" in call(command, tmp_path, code=2).stderr
    assert "expected a run folder" in call(command, tmp_path / "none", code=2).stderr


def test_a_run_folder_that_is_in_use_is_not_touched(project: Path) -> None:
    call("audit", project, "--run", "here")
    assert "--resume" in call("audit", project, "--run", "here", code=2).stderr
    call("audit", project, "--run", "here", "--resume")


def test_resuming_with_other_data_is_refused(project: Path) -> None:
    call("audit", project, "--run", "here")
    project.write_text("seed = 1\n" + project.read_text())
    refused = call("audit", project, "--run", "here", "--resume", code=2)
    assert "start a new run" in refused.stderr


@pytest.mark.slow
def test_a_table_of_predictions_needs_no_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), CSV_ROWS)
    member = rng.random(CSV_ROWS) < 0.5
    y = np.where(member, p.argmax(1), rng.integers(0, 3, CSV_ROWS))
    with (tmp_path / "p.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["p_0", "p_1", "p_2", "label", "member"])
        rows.writerows([*row, label, int(m)] for row, label, m in zip(p, y, member, strict=True))
    settings = tmp_path / "audit.toml"
    settings.write_text('[predictions]\nfile = "p.csv"\n')
    answer = json.loads(call("audit", settings, "--format", "json").stdout.splitlines()[-1])
    by_name = {finding["label"]: finding for finding in answer["findings"]}
    assert by_name["threshold(signal=loss)"]["metrics"]["auc"]["low"] == golden(0.7690)
    assert by_name["quantile(signal=scaled_logit)"]["status"] == "not applicable"
    assert "features" in by_name["quantile(signal=scaled_logit)"]["reason"]


@pytest.mark.parametrize("what", ["attacks", "defences", "targets", "data"])
def test_lists(what: str) -> None:
    lines = call("list", what).stdout.splitlines()
    assert len(lines) >= 2
    assert all(len(line.split()) > 3 for line in lines)


def test_attacks_are_listed_by_secret_each_once() -> None:
    everything = call("list", "attacks").stdout.splitlines()
    parts = [call("list", "attacks", secret).stdout.splitlines() for secret in SECRETS]
    assert [line for part in parts for line in part] == everything
    assert [line.split()[0] for line in parts[3]][1:] == list(CATALOGUE["interactions"])
    refused = call("list", "targets", "membership", code=2)
    assert "expected no secret beside targets" in refused.stderr


def test_the_help_of_all_commands_has_whole_sentences() -> None:
    shown = call("--help").stdout.partition("Commands:\n")[2]
    assert "..." not in shown
    starts = re.findall(r"^  (\w+) ", shown, re.M)
    assert starts == sorted(main.commands)
    assert len(re.findall(r"\.$", shown, re.M)) == len(starts)


def test_help_is_there_for_every_command() -> None:
    for name in main.commands:
        shown = call(name, "--help").stdout
        assert "Example:" in shown


def test_without_its_data_a_table_says_first_how_to_get_it_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIVULGE_DATA", raising=False)
    command = ["reproduce", "decaf-table3", "--run", str(tmp_path / "run"), "--processes", "1"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.output.splitlines() if line]
    assert line.startswith("Error: expected mnist in the folder that DIVULGE_DATA names, now unset")
    assert "divulge data convert mnist FROM" in line
    assert not (tmp_path / "run").exists()
