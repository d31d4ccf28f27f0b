"""Finished work is thrown away when what it ran has changed, and not when anything else has."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from divulge_papers import source
from divulge_papers.table import TABLES, find_table

STUDIES = sorted({find_table(name).work.partition(":")[0] for name in TABLES})
STUDY = "divulge_papers.papers.decaf.study"
USED = [
    "divulge_papers/papers/decaf/study.py",
    "divulge/attacks/composition/decaf/attack.py",  # by its name in the registry alone
    "divulge/attacks/composition/decaf/regression.py",
    "divulge/core/rounds.py",
    "divulge/training/recipe.py",
    "divulge_fast/kernels.py",  # by an entry point
    "divulge/defences/training/dp_sgd/trainer.py",  # imported in a function
    "divulge/attacks/__init__.py",
    "divulge/secrets/composition.py",
    "divulge/secrets/blind/composition.py",
]
UNUSED = [
    "divulge/cli/main.py",
    "divulge/audits/api.py",
    "divulge/audits/challenges/membership.py",
    "divulge/audits/config.py",
    "divulge/audits/from_file.py",
    "divulge/audits/runner.py",
    "divulge/report/page.py",
    "divulge/report/words.py",
    "divulge_papers/page.py",
    "divulge_papers/papers/raifle/study.py",
    "divulge/federation/flower/grid.py",
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with copies of the packages' source, which may be changed."""
    for name, place in source.ROOTS.items():
        copy = tmp_path / name
        shutil.copytree(place, copy, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setitem(source.ROOTS, name, copy)
    forget()
    yield tmp_path
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
    package = root / "divulge"
    page, recipe = package / "report" / "page.py", package / "training" / "recipe.py"
    assert page not in source.reachable_files(STUDY)
    recipe.write_text(f"{recipe.read_text()}\ndef later():\n    from ..report import page\n")
    forget()
    assert page in source.reachable_files(STUDY)


def test_a_public_name_of_a_package_leads_to_all_of_its_public_names(root: Path) -> None:
    package = root / "divulge"
    recipe, api = package / "training" / "recipe.py", package / "audits" / "api.py"
    assert api not in source.reachable_files(STUDY)
    recipe.write_text(f"{recipe.read_text()}\nfrom divulge import audit_file\n")
    forget()
    assert package / "__init__.pyi" in source.reachable_files(STUDY)
    assert api in source.reachable_files(STUDY)


LOADED = """
import importlib, sys
importlib.import_module(sys.argv[1])
ours = [name for name in sys.modules if name.split(".")[0] in sys.argv[2:]]
print(*(sys.modules[name].__file__ for name in ours), sep="\\n")
"""


@pytest.mark.parametrize("module", STUDIES)
def test_a_study_takes_no_more_of_audits_than_its_challenges(module: str) -> None:
    names = {source._address(path) for path in source.reachable_files(module)}
    assert "divulge.audits.challenges.base" in names
    unused = {name.removesuffix(".py").replace("/", ".") for name in UNUSED[:6]}
    assert not names & unused
    assert not [name for name in names if re.match(r"divulge\.(report|cli)\.|\w+\.cli\.", name)]


@pytest.mark.slow
@pytest.mark.parametrize("module", STUDIES)
def test_what_python_loads_for_a_study_is_in_its_key(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, module, *source.ROOTS],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {Path(line) for line in done.stdout.split()}
    assert source.ROOTS["divulge"] / "core" / "rounds.py" in loaded
    assert loaded <= source.reachable_files(module)
