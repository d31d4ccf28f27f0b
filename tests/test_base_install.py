"""Without any extra every command works, or names the extra that it needs."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from divulge._util.extras import EXTRAS
from divulge.cli.main import main
from tests.distributions import SOURCES
from tests.installs.hiding import hide

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Command:
    """A command line, how it ends, and what it says."""

    line: str
    code: int = 0
    says: str = ""


FEDERATE = """
[data]
train = "subject.py:members"
[clients]
count = 2
[training]
network = "subject.py:model"
"""
COMPARE = """
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
[training]
network = "subject.py:model"
"""

HARDEN = """
ceiling = {auc = 0.6}
[data]
records = "subject.py:members"
[training]
network = "subject.py:model"
"""

URL = """
[target]
url = "http://127.0.0.1:9/predict"
fingerprint = "1"
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
"""

COMMANDS = [
    Command("--version"),
    Command("list attacks", says="lira"),
    Command("list defences", says="[torch]"),
    Command("list targets", says="onnx"),
    Command("list data", says="digits"),
    Command("init .", says="wrote audit.toml"),
    Command("plan audit.toml"),
    Command("check nobody", 3, "7 of 8 passed"),
    Command("check decaf", 2, "[torch]"),
    Command("plan --exposed 0.5"),
    Command("canary plan --epsilon 4 --delta 1e-5 --canaries 100", says="canaries"),
    Command("canary make subject.py:members canaries --count 40", says="Sealed"),
    Command("canary clients canary-clients --count 40", says="Sealed"),
    Command("canary score canary-clients nowhere scores.npz", 2, "expected a transcript"),
    Command("canary audit canaries none.npz --epsilon 4 --delta 1e-5", 2, "expected a file"),
    Command(
        "canary run none.py subject.py:members --epsilon 4 --delta 1e-5", 2, "expected a script"
    ),
    Command("bench none.py:Attack", 2, "none.py"),
    Command("audit audit.toml --run run", says="Report"),
    Command("report run", says="report.html"),
    Command("export nowhere --junit junit.xml", 2, "expected a run folder"),
    Command("evidence nowhere", 2, "expected a run folder"),
    Command("history nowhere nowhere", 2, "expected a run folder"),
    Command("diff nowhere nowhere", 2, "expected a run folder"),
    Command("questions nowhere", 2, "expected a run folder"),
    Command("measure run", says="Report"),
    Command("transcript inspect nowhere", 2, "expected a transcript"),
    Command("federate federate.toml", 2, "[torch]"),
    Command("compare compare.toml", 2, "[torch]"),
    Command("harden harden.toml", 2, "[dp]"),
    Command("reproduce decaf-table3 --run table", 2, "./papers"),
    Command("reproduce", 2, "./papers"),
    Command("data", 2, "./papers"),
    Command("data convert mnist nowhere --folder data", 2, "./papers"),
    Command("audit other.toml --workers ray", 2, "ray>=2.40"),
    Command("audit url.toml", 2, "[urls]"),
    Command("demo --run demo", says="Report"),
]
"""In this order, in one folder."""


def write_settings(folder: Path) -> None:
    (folder / "federate.toml").write_text(FEDERATE)
    (folder / "compare.toml").write_text(COMPARE)
    (folder / "harden.toml").write_text(HARDEN)
    (folder / "url.toml").write_text(URL)
    (folder / "other.toml").write_text('[predictions]\nfile = "x.csv"\n')


def run_all(program: list[str], folder: Path, paths: list[str], commands: list[Command]) -> None:
    """Run commands, with these paths for imports, and compare how each ends."""
    write_settings(folder)
    found = {"PYTHONPATH": os.pathsep.join(paths), "DIVULGE_DATA": ""}
    for command in commands:
        done = subprocess.run(
            [*program, *command.line.split()],
            cwd=folder,
            env=os.environ | found,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == command.code, f"{command.line}: {said[-2000:]}"
        assert command.says in said, command.line
        assert "Traceback" not in said, command.line


def names_of_commands(group: click.Group) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from (f"{name} {inner}" for inner in names_of_commands(command))
        else:
            yield name


def test_one_place_names_the_extra_that_brings_a_package() -> None:
    places = {
        f"{name}/{path.relative_to(source).as_posix()}"
        for name, source in SOURCES.items()
        for path in source.rglob("*.py")
        if re.search(r"except \(?ImportError|MissingExtra\(", path.read_text(encoding="utf-8"))
    }
    assert places == {"divulge/_util/extras.py", "divulge/errors.py"}


def test_every_command_is_in_the_list() -> None:
    for name in names_of_commands(main):
        assert any(command.line.startswith(name) for command in COMMANDS), name


@pytest.mark.slow
def test_commands_name_the_extra_that_they_need_where_none_can_be_imported(tmp_path: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    hide(EXTRAS, start)
    program = [sys.executable, "-m", "divulge"]
    prepared = [command for command in COMMANDS if command.line.startswith("init")]
    needing = [command for command in COMMANDS if command.says.startswith(("[", "./", "ray>"))]
    assert len(needing) >= 8
    run_all(program, tmp_path, [str(start), *sys.path], [*prepared, *needing])
    assert not (tmp_path / "table").exists()
