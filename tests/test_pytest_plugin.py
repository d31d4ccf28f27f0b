"""The plugin of pytest, in a process of its own, as in a project of somebody else."""

import os
import subprocess
import sys
from pathlib import Path

import junitparser

SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier

x = np.random.default_rng(0).normal(size=(400, 5))
y = np.random.default_rng(1).integers(2, size=400)
members, nonmembers = (x[:200], y[:200]), (x[200:], y[200:])
model = DecisionTreeClassifier(random_state=0).fit(*members)
"""
SETTINGS = """
[target]
model = "subject.py:model"
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
[[attacks]]
name = "gap"
"""
TESTS = """
import subject

def test_leak(divulge):
    assert divulge.audit("audit.toml").verdict.level != "leak"

def test_python(divulge):
    gap = divulge.attack("gap")
    found = divulge.audit(
        subject.model, members=subject.members, nonmembers=subject.nonmembers, attacks=[gap]
    )
    assert found.path.is_dir()
    assert found.gate(fail_above={"auc": 0.6}).passes

def test_stored(divulge):
    found = divulge.audit("audit.toml", run="stored")
    assert divulge.load("stored").verdict == found.verdict

def test_settings(divulge):
    divulge.audit("nowhere.toml")

def test_of_something_else():
    assert False
"""
LEAN = """
import sys
def test_nothing_is_loaded_before_a_test_asks():
    heavy = {"divulge", "numpy", "sklearn", "torch", "pydantic", "lazy_loader"}
    assert not heavy & {name.partition(".")[0] for name in sys.modules}
"""


def pytest_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "pytest_divulge", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *words],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_failure_says_what_was_found_by_what_and_where(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "audit.toml").write_text(SETTINGS)
    (tmp_path / "test_mine.py").write_text(TESTS)
    done = pytest_in(tmp_path, "-q", "--junitxml=results.xml", f"--basetemp={tmp_path / 'kept'}")
    assert done.returncode == 1, done.stderr
    (suite,) = junitparser.JUnitXml.fromfile(str(tmp_path / "results.xml"))
    ends = {test.name: [one.text or "" for one in test.result] for test in suite}
    for name in ("test_leak", "test_python"):
        (text,) = ends[name]
        assert text in done.stdout or text.strip() in done.stdout
        assert "This model leaks its training records" in text
        assert "Deciding attack: gap: auc 0." in text
        assert "95 % interval" in text
        page = Path(text.rpartition("Report: ")[2].strip())
        assert page.is_file()
        assert page.is_relative_to(tmp_path / "kept")
    assert not ends["test_stored"]
    (settings,) = ends["test_settings"]
    assert "nowhere.toml" in settings
    assert "Deciding attack" not in settings + "".join(ends["test_of_something_else"])
    assert (tmp_path / "stored" / "report.html").is_file()


def test_other_peoples_tests_start_as_before(tmp_path: Path) -> None:
    (tmp_path / "test_lean.py").write_text(LEAN)
    done = pytest_in(tmp_path, "-q")
    assert done.returncode == 0, done.stdout
