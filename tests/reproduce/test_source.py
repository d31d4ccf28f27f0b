"""Finished work is thrown away when what it ran has changed, and not when anything else has."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from divulge.reproduce import source
from divulge.reproduce.table import TABLES, find_table

STUDIES = sorted({find_table(name).work.partition(":")[0] for name in TABLES})
STUDY = "divulge.reproduce.papers.decaf.study"
USED = [
    "reproduce/papers/decaf/study.py",
    "attacks/composition/decaf/attack.py",  # by its name in the registry alone
    "attacks/composition/decaf/regression.py",
    "core/rounds.py",
    "training/recipe.py",
    "defences/training/dp_sgd/trainer.py",  # imported in a function
    "attacks/__init__.py",
    "audits/challenges/federation.py",
    "audits/challenges/blind.py",
]
UNUSED = [
    "cli/main.py",
    "audits/api.py",
    "audits/challenges/membership.py",
    "audits/config.py",
    "audits/from_file.py",
    "audits/runner.py",
    "report/page.py",
    "report/words.py",
    "reproduce/page.py",
    "reproduce/papers/raifle/study.py",
    "federation/flower/grid.py",
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package's source, which may be changed."""
    copy = tmp_path / "divulge"
    shutil.copytree(source.ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(source, "ROOT", copy)
    forget()
    yield copy
    forget()


def forget() -> None:
    source.code.cache_clear()
    source._imports_of.cache_clear()


def changed(path: Path) -> bool:
    """Whether the study's key is another one once a comment was added to this file."""
    before, text = source.code(STUDY), path.read_text(encoding="utf-8")
    path.write_text(f"{text}# changed\n", encoding="utf-8")
    source.code.cache_clear()  # what each file imports is as before
    after = source.code(STUDY)
    path.write_text(text, encoding="utf-8")
    source.code.cache_clear()
    assert source.code(STUDY) == before
    return after != before


def test_an_edit_counts_where_the_study_runs_it_and_nowhere_else(root: Path) -> None:
    assert {name: changed(root / name) for name in USED + UNUSED} == {
        **dict.fromkeys(USED, True),
        **dict.fromkeys(UNUSED, False),
    }


def test_a_new_import_counts(root: Path) -> None:
    page, recipe = root / "report" / "page.py", root / "training" / "recipe.py"
    assert page not in source.reachable_files(STUDY)
    recipe.write_text(f"{recipe.read_text()}\ndef later():\n    from ..report import page\n")
    forget()
    assert page in source.reachable_files(STUDY)


def test_a_public_name_of_a_package_leads_to_all_of_its_public_names(root: Path) -> None:
    recipe, api = root / "training" / "recipe.py", root / "audits" / "api.py"
    assert api not in source.reachable_files(STUDY)
    recipe.write_text(f"{recipe.read_text()}\nfrom divulge import audit_file\n")
    forget()
    assert root / "__init__.pyi" in source.reachable_files(STUDY)
    assert api in source.reachable_files(STUDY)


LOADED = """
import importlib, sys
importlib.import_module(sys.argv[1])
ours = [name for name in sys.modules if name.split(".")[0] == "divulge"]
print(*(sys.modules[name].__file__ for name in ours), sep="\\n")
"""


@pytest.mark.parametrize("module", STUDIES)
def test_a_study_takes_no_more_of_audits_than_its_challenges(module: str) -> None:
    names = {path.relative_to(source.ROOT).as_posix() for path in source.reachable_files(module)}
    assert "audits/challenges/base.py" in names
    assert not names.intersection(UNUSED[:6])
    assert not [name for name in names if name.startswith(("report/", "cli/"))]


@pytest.mark.slow
@pytest.mark.parametrize("module", STUDIES)
def test_what_python_loads_for_a_study_is_in_its_key(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, module], capture_output=True, text=True, check=True
    )
    loaded = {Path(line) for line in done.stdout.split()}
    assert source.ROOT / "core" / "rounds.py" in loaded
    assert loaded <= source.reachable_files(module)
