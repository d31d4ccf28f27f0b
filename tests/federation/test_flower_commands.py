"""The example app runs by the commands of its page, and Flower installs what it lists.

Its dependencies come from the package index: without one these tests are skipped.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from divulge.federation.transcript.reader import Transcript

from ..patience import PATIENCE
from .flower_processes import Processes, free_ports

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "flower.md").read_text(encoding="utf-8")
PATIENT = f"timeout={PATIENCE}"
"""The app gives a round a minute, which a busy machine may need for a client's imports alone."""


def block(heading: str, language: str) -> str:
    """The first code block of a language under a heading."""
    found = re.search(rf"^### {heading}\n.*?^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    assert found, f"the page has no {language} under {heading}"
    return found[1]


def checkout(folder: Path) -> Processes:
    """Flower's programs in a copy of the example, with installation on, as it is by default."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples" / "flower", folder / "examples" / "flower", ignore=ignored)
    made = Processes(folder)
    made.environment.pop("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", None)
    return made


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("finds the processes that it has to stop in /proc, and there is none")
    look = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-cache", "-"]
    answer = subprocess.run(
        look, input="iniconfig", capture_output=True, text=True, timeout=PATIENCE
    )
    if answer.returncode:
        pytest.skip(f"NOT TESTED, no package index: {answer.stderr[-300:]}")
    made = checkout(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def check_installed(log: str) -> None:
    """Flower installed what the app lists, and neither divulge nor PyTorch."""
    found = re.search(r"Installed: \[(.*?)\]", log)
    assert found, log
    names = {each.split("==")[0] for each in found[1].split(", ")}
    assert {"ray", "scikit-learn"} <= names
    assert not names & {"divulge", "torch", "flwr"}


@pytest.mark.slow
def test_the_example_runs_simulated(processes: Processes, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    processes.environment["FLWR_LOCAL_SUPERLINK_HTTP_API_PORT"] = str(port)
    commands = block("Simulated", "sh")
    # Ray hands on what clients log a little later, and not what it has not read at the end
    patient = f"--run-config 'rounds=10 {PATIENT}' --run-config"
    log = processes.run("bash", "-ec", commands.replace("--run-config", patient, 1))
    check_installed(log)
    assert "an update leaks class mix" in log, "the guardrail's warnings are streamed"
    assert "10 rounds, 5 clients" in log, "the transcript was inspected"
    there = Transcript.open(tmp_path / "examples" / "flower" / "transcript")
    assert [len(seen.clients) for seen in there.rounds] == [5] * 10


@pytest.mark.slow
def test_the_example_runs_with_a_superlink_and_two_supernodes(
    processes: Processes, tmp_path: Path
) -> None:
    heading = "With a SuperLink and two SuperNodes"
    configuration, commands = block(heading, "text"), block(heading, "sh")
    link, *nodes = free_ports(3)
    for shown, free in zip(("8000", "9094", "9095"), (link, *nodes), strict=True):
        configuration = configuration.replace(shown, str(free))
        commands = commands.replace(shown, str(free))
    commands = commands.replace("num-partitions=2", "num-partitions=5")  # uneven enough to warn
    processes.write("home/config.toml", configuration)
    superlink, *supernodes, submission = commands.splitlines()
    processes.start("superlink", *shlex.split(superlink))
    processes.wait_for_port(link)
    for number, command in enumerate(supernodes):
        processes.start(f"supernode-{number}", *shlex.split(command))
    shorter = submission.replace("rounds=3", f"rounds=1 {PATIENT}")
    check_installed(processes.run("bash", "-ec", shorter))
    for log in tmp_path.glob("supernode-*.log"):
        assert "an update leaks class mix" in log.read_text()
    there = Transcript.open(tmp_path / "transcript")
    assert [len(seen.clients) for seen in there.rounds] == [2]
    assert there.rounds[0].training.lr == 0.1
