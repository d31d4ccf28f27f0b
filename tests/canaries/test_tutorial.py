"""The snippets and commands of docs/canary.md, in small, as newcomers run them; people too."""

import json
import re
import runpy
import secrets
import shlex
import warnings
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("opacus")

import torch

from divulge.cli.main import main

PAGE, PEOPLE = (
    (Path(__file__).parents[2] / "docs" / name).read_text("utf-8")
    for name in ("canary.md", "people.md")
)
START, FEDERATION = PAGE.split("\n## In a federation\n")


def snippets(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def small(code: str) -> str:
    """With a tenth of the records, and fewer canaries and features."""
    code = code.replace("250", "25").replace("--count 1000", "--count 24")
    return code.replace("1100", "170").replace("--count 500", "--count 40")


def call(commands: str) -> tuple[int, str]:
    """The exit code of the last command and what all print."""
    said, code = "", 0
    for line in small(commands).splitlines():
        program, *words = shlex.split(line)
        assert program == "divulge"
        done = CliRunner().invoke(main, words)
        code, said = done.exit_code, said + done.output
        assert done.exit_code in (0, 3, 4), said
    return code, said


def run(code: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus', about its generator and hooks
        Path("script.py").write_text(small(code))
        runpy.run_path("script.py")


@pytest.mark.slow
def test_an_opacus_script_leads_to_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(secrets, "randbits", lambda bits: bits)  # the same coins in each run
    data, script, sampling, chosen, *_ = snippets(START, "python")
    whole, plan, make, audit = snippets(START, "sh")
    assert "canary run" in whole
    assert "canary plan" in plan
    run(data)
    assert call(make)[0] == 0
    (line,) = re.findall(r"^recorder = .*\n", script, re.M)
    run(script)
    code, said = call(audit)
    assert (code, "cannot be tested with 24 canaries" in said) == (4, True), said
    stated, divide = chosen.splitlines(keepends=True)
    sampling = re.sub(r"^sampling = .*\n", lambda _: stated, sampling, flags=re.M)
    for lines, expected in (("", "is stated; that is the number of"), (divide, "Batches: as sta")):
        for folder in ("canaries", "runs"):
            Path(folder).rename(f"{folder}-{len(expected)}")
        Path("white.npz").unlink()
        assert call(make)[0] == 0
        watch = "recorder.watch(model, optimizer)"
        run(script.replace(line, sampling).replace(watch, lines + watch))
        assert expected in call(audit)[1]
    for folder in ("canaries", "runs"):
        Path(folder).rename(f"{folder}-of-records")
    Path("white.npz").unlink()
    (commands,) = (each for each in snippets(PEOPLE, "sh") if "--records-each 5" in each)
    make, audit = commands.splitlines()
    assert call(make)[0] == 0
    run(script)
    assert "for one person cannot be tested with 24 canaries" in call(audit)[1]


def test_one_command_takes_all_steps_and_goes_on_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, script, *_ = snippets(START, "python")
    run(data)
    (command,) = [one for one in snippets(START, "sh") if "canary run" in one]
    words = [*shlex.split(command)[1:], "--count", "24"]
    Path("train.py").write_text("raise SystemExit(7)")
    none = CliRunner().invoke(main, words)
    assert none.exit_code == 2, none.output
    assert "got 24, which contradict an ε up to 1." in none.stderr
    assert "it takes " in none.stderr
    assert not Path("canaries").exists()  # nothing was made, nothing was trained
    words[words.index("--epsilon") + 1] = "1"
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, "its exit code is 7" in done.stderr) == (2, True), done.output
    canaries = Path("canaries/for-trainer/train.npz").read_bytes()
    Path("train.py").write_text("import divulge")
    done = CliRunner().invoke(main, words)
    assert "expected train.py to write white.npz, it did not" in done.stderr
    Path("black.npz").write_bytes(b"of an earlier training")
    both = [*words, "--scores", "white.npz", "--scores", "black.npz"]
    done = CliRunner().invoke(main, both)
    assert "expected train.py to write white.npz, black.npz, it did not" in done.stderr
    Path("train.py").write_text(small(script))
    done = CliRunner().invoke(main, words)
    passed = done.exit_code == 0
    assert passed or done.exit_code == 3, done.output  # training and coins are random
    assert "24 canaries can contradict ε = 1; the largest ε that they can show is 1." in done.stderr
    ruling = "Gate passed: " if passed else "Gate failed: "
    assert done.stderr.splitlines()[-1].startswith(ruling)
    assert Path("canaries/for-trainer/train.npz").read_bytes() == canaries
    assert Path("runs/canaries-001/report.html").exists()
    environment = json.loads(Path("runs/canaries-001/run.json").read_text())["environment"]
    for name in ("torch", "opacus"):
        assert environment[name] == metadata.version(name)
    again = CliRunner().invoke(main, [*words, "--run", "runs/again"])  # nothing is trained again
    assert "Scores: those of white.npz" in again.stderr
    assert again.exit_code == done.exit_code, again.output
    Path("train.py").write_text("import nosuch")  # scores of another script are none of this one
    other = CliRunner().invoke(main, [*words, "--run", "runs/other"])
    assert (other.exit_code, "from the script that" in other.stderr) == (2, True), other.output
    more = CliRunner().invoke(main, [*words[:-1], "36", "--run", "runs/more"])
    assert (more.exit_code, "from the count that" in more.stderr) == (2, True), more.output
    people = CliRunner().invoke(main, [*words, "--records-each", "2", "--run", "runs/people"])
    assert (people.exit_code, "from the records of each" in people.stderr) == (2, True)


def test_a_federation_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, federate, judge, *_ = snippets(FEDERATION, "sh")
    (settings,) = snippets(FEDERATION, "toml")
    subject, *_ = snippets(FEDERATION, "python")
    Path("subject.py").write_text(subject)
    Path("federate.toml").write_text(
        settings.replace("rounds = 10", "rounds = 2").replace("epochs = 5", "epochs = 1")
    )
    assert call(make)[0] == 0
    assert call(federate)[0] == 0
    _, said = call(judge)
    assert "white box: ε is at least" in said
