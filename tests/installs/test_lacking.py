"""A test is left out where another extra brings what it needs, and for nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from divulge._util.extras import EXTRAS
from tests.slow import slow

from . import names
from .hiding import hide
from .lacking import lacking, promised

NEEDS_IN_A_TEST = "def test_it():\n    import numba\n"
NEEDS_IN_A_FILE = "import numba\ndef test_it(): pass\n"
ASKS_ANOTHER_PROCESS = """
import subprocess, sys
def test_it():
    code = "raise ModuleNotFoundError(\\"No module named 'numba'\\")"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
"""
IS_REFUSED_BY_DIVULGE = """
from divulge._util.extras import name_missing_extra
from divulge.errors import DivulgeError
def test_it():
    try:
        with name_missing_extra():
            import numba
    except DivulgeError:
        code = 2
    assert code == 0
"""
SKIPS_ITSELF = "import pytest\ndef test_it(): pytest.importorskip('numba')\n"
FAILS = "def test_it(): assert 'numba' == 'torch'\n"
LOOKS_FOR_WHAT_IT_CAN_DO_WITHOUT = """
from divulge._util.extras import import_optional
def test_it():
    assert import_optional("numba") is not None
"""
PASSES = "def test_it(): pass\n"


def run(
    folder: Path, text: str, install: str, *options: str, hidden: str = "numba"
) -> tuple[int, dict[str, int]]:
    """The exit code and the counts of one file of tests where a package is not there."""
    hide([hidden], folder)
    (folder / "test_file.py").write_text(text)
    plugin = ["-p", "tests.installs.lacking", "--install", install, "--counts", "counts.json"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(names.ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    counts = folder / "counts.json"
    assert counts.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(counts.read_text("utf-8"))


@pytest.mark.parametrize(
    "text",
    [NEEDS_IN_A_TEST, *map(slow, (ASKS_ANOTHER_PROCESS, IS_REFUSED_BY_DIVULGE, SKIPS_ITSELF))],
)
def test_what_needs_another_extra_is_left_out(text: str, tmp_path: Path) -> None:
    code, counts = run(tmp_path, text, "torch")
    assert (code, counts) == (0, {"passed": 0, "failed": 0, "skipped": 1, "files": 0})


@pytest.mark.parametrize("workers", [[], slow(["-n1"])])
def test_a_file_that_cannot_be_imported_is_counted(workers: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_more.py").write_text(PASSES)
    code, counts = run(tmp_path, NEEDS_IN_A_FILE, "torch", *workers)
    assert (code, counts["passed"], counts["failed"], counts["files"]) == (0, 1, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [NEEDS_IN_A_TEST, NEEDS_IN_A_FILE, ASKS_ANOTHER_PROCESS, IS_REFUSED_BY_DIVULGE, SKIPS_ITSELF],
)
def test_what_the_install_promises_has_to_be_there(text: str, tmp_path: Path) -> None:
    code, counts = run(tmp_path, text, "fast")
    assert code != 0
    assert (counts["passed"], counts["failed"]) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("text", [FAILS, LOOKS_FOR_WHAT_IT_CAN_DO_WITHOUT])
def test_another_failure_is_one(text: str, tmp_path: Path) -> None:
    code, counts = run(tmp_path, text, "torch")
    assert (code, counts["failed"]) == (1, 1)


@pytest.mark.slow
def test_a_name_that_nothing_promises_is_a_failure(tmp_path: Path) -> None:
    text = "def test_it():\n    import nunba\n"
    assert run(tmp_path, text, "base", hidden="nunba")[1]["failed"] == 1


@pytest.mark.slow
def test_too_few_tests_that_pass_are_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path, PASSES, "base", "--at-least", "1")[0] == 0
    assert run(tmp_path, PASSES, "base", "--at-least", "2")[0] == 1


def test_an_install_promises_what_its_extras_ask_for() -> None:
    assert {"numpy", "sklearn", "pytest"} <= promised("base")
    assert {"torch", "numba", "PIL", "mlflow"} <= lacking("base")
    assert {"torch", "safetensors", "opacus", "dp_accounting"} <= promised("dp")
    assert {"divulge_papers", "opacus", "xgboost"} <= promised("papers")
    assert {"divulge_fast", "numba", "torch"} <= promised("fast")
    assert {"divulge_papers", "divulge_fast"} <= lacking("all")
    assert {"flwr", "torch", "cryptography", "opacus"} <= promised("dp,federated")
    assert {"ray", "nvflare", "keras"} <= lacking("all")
    for install in names.installs():
        assert not lacking(install) & promised(install)


def test_users_have_at_most_ten_extras() -> None:
    named = set(names.PROJECT["optional-dependencies"]) - names.DEVELOPERS
    assert len(named) <= 10
    (everything,) = names.PROJECT["optional-dependencies"]["all"]
    assert Requirement(everything).extras == named - {"all"}


def test_a_message_names_an_extra_or_a_version_that_is_tested() -> None:
    tested = names.PROJECT["optional-dependencies"]["nightly"]
    for brings in EXTRAS.values():
        assert brings in names.EXTRAS or brings in tested


def test_each_install_that_users_may_have_is_tested() -> None:
    found = names.installs()
    extras = set(names.EXTRAS) - names.DEVELOPERS
    assert {"base", "dp,federated"} | extras == set(found)
    assert names.FLOORS.keys() == set(found)
    assert all(count > 3000 for count in names.FLOORS.values())
