"""The distributions are of one version and one licence, and divulge does without the others."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from .distributions import FOLDERS, ROOT, SOURCES, read_project
from .installs.hiding import hide

PROJECTS = {name: read_project(folder) for name, folder in FOLDERS.items()}
OTHERS = [name for name in FOLDERS if name != "divulge"]


def test_they_have_one_version() -> None:
    assert len({project["version"] for project in PROJECTS.values()}) == 1
    assert {project["requires-python"] for project in PROJECTS.values()} == {">=3.11"}


@pytest.mark.parametrize("name", OTHERS)
def test_each_asks_for_divulge_of_its_own_version(name: str) -> None:
    asked = [Requirement(text) for text in PROJECTS[name]["dependencies"]]
    (own,) = (one for one in asked if one.name == "divulge")
    assert str(own.specifier) == f"=={PROJECTS['divulge']['version']}"
    assert own.extras <= PROJECTS["divulge"]["optional-dependencies"].keys()


@pytest.mark.parametrize("name", OTHERS)
def test_each_has_the_licence(name: str) -> None:
    assert (FOLDERS[name] / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert PROJECTS[name]["license"] == PROJECTS["divulge"]["license"]


def test_divulge_asks_for_none_of_the_others() -> None:
    project = PROJECTS["divulge"]
    asked = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        asked += extra
    names = {Requirement(text).name for text in asked}
    assert not names & {PROJECTS[name]["name"] for name in OTHERS}


def test_the_makefile_installs_all_of_them_together() -> None:
    (line,) = re.findall(r"^ALL = (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert line == " ".join(f"--editable {name}" for name in OTHERS)


def test_what_papers_brings_has_two_addresses() -> None:
    pytest.importorskip("divulge_papers")

    import divulge_papers.table

    assert importlib.import_module("divulge.reproduce.table") is divulge_papers.table
    spec = divulge_papers.table.__spec__
    assert spec is not None
    assert spec.name == "divulge_papers.table"


NONSENSE = "from divulge.reproduce import nonsense"
WITHOUT = """
import divulge
assert divulge.reproduce.__doc__
try:
    import divulge.reproduce.table
except divulge.MissingExtra as error:
    print(error)
"""


def run(code: str, *paths: str) -> subprocess.CompletedProcess[str]:
    """Python code, with these folders first among the paths."""
    start = f"import sys; sys.path[:0] = {list(paths)}\n"
    return subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, check=False
    )


def test_without_papers_its_address_says_how_to_get_it(tmp_path: Path) -> None:
    hide(["divulge_papers"], tmp_path)
    done = run(WITHOUT, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "`pip install . ./papers` in a checkout of divulge" in done.stdout


def test_what_is_in_neither_is_not_found() -> None:
    pytest.importorskip("divulge_papers")
    assert "No module named 'divulge_papers.nonsense'" in run(NONSENSE).stderr


def test_each_source_is_where_it_is_imported_from() -> None:
    for name, source in SOURCES.items():
        found = pytest.importorskip(name)
        assert source.samefile(found.__path__[0])
