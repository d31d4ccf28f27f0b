"""Recipes and images name what pyproject.toml names: the version, the account, the requirements."""

import json
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement

from . import fresh
from .distributions import ROOT, read_project

NAMES = runpy.run_path(str(ROOT / "packaging" / "names.py"))
PROJECT = read_project(ROOT)
CITATION: Any = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
ZENODO: Any = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "packaging" / "Dockerfile").read_text(encoding="utf-8")


def copy_to(folder: Path) -> None:
    """The files that name the version or the account, into an empty folder."""
    for path in {*NAMES["OWNER_FILES"], *NAMES["VERSION_FILES"], "CHANGELOG.md"}:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)


def owners(root: Path, owner: str) -> dict[str, int]:
    """By file, how often it names the repository of an account."""
    texts = {path: (root / path).read_text("utf-8") for path in NAMES["OWNER_FILES"]}
    return {path: len(re.findall(rf"\b{owner}/divulge\b", text)) for path, text in texts.items()}


def versions(root: Path) -> set[str]:
    texts = [(root / path).read_text(encoding="utf-8") for path in NAMES["VERSION_FILES"]]
    found = [{match[2] for match in NAMES["VERSIONED"].finditer(text)} for text in texts]
    assert all(found)  # each file names it
    return set().union(*found)


def test_the_version_is_the_same_in_all_files() -> None:
    assert versions(ROOT) == {PROJECT["version"]}
    assert CITATION["version"] == ZENODO["version"] == PROJECT["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{PROJECT['version']}] - " in changes


def test_one_command_sets_the_version_and_its_date(tmp_path: Path) -> None:
    copy_to(tmp_path)
    NAMES["set_version"](PROJECT["version"], tmp_path)  # it may have been dated already
    assert "- unreleased" not in (tmp_path / "CHANGELOG.md").read_text("utf-8").split("###")[0]
    changed = NAMES["set_version"]("9.8.7", tmp_path)
    assert changed == sorted(NAMES["VERSION_FILES"])
    assert versions(tmp_path) == {"9.8.7"}
    citation = yaml.safe_load((tmp_path / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == "9.8.7"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", str(citation["date-released"]))
    with pytest.raises(SystemExit, match=r"such as 0\.2\.0"):
        NAMES["set_version"]("v1", tmp_path)


def test_one_command_sets_the_account(tmp_path: Path) -> None:
    before = NAMES["owner"]()
    assert all(owners(ROOT, before).values())
    copy_to(tmp_path)
    assert sorted(NAMES["set_owner"]("my-lab", tmp_path)) == sorted(NAMES["OWNER_FILES"])
    assert NAMES["owner"](tmp_path) == "my-lab"
    assert owners(tmp_path, "my-lab") == owners(ROOT, before)
    assert not any(owners(tmp_path, before).values())
    with pytest.raises(SystemExit, match="letters, digits, hyphens"):
        NAMES["set_owner"]("my lab", tmp_path)


def test_no_other_file_names_the_account() -> None:
    pattern = rf"\b{NAMES['owner']()}/divulge\b"
    done = subprocess.run(
        [shutil.which("git") or "git", "-C", ROOT, "grep", "-lE", pattern],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode > 1:
        pytest.skip("this is no checkout of git")
    others = {"CONTRIBUTING.md"}  # which says how the account is named
    assert set(done.stdout.split()) - others == set(NAMES["OWNER_FILES"])


def test_what_a_doi_is_made_of_says_the_same_in_both_files() -> None:
    assert ZENODO["title"] == CITATION["title"]
    assert ZENODO["description"] == CITATION["abstract"]
    assert ZENODO["keywords"] == CITATION["keywords"]
    assert ZENODO["license"] == CITATION["license"] == PROJECT["license"]
    assert [one["name"] for one in ZENODO["creators"]] == [
        one["name"] for one in CITATION["authors"]
    ]
    assert CITATION["repository-code"] == PROJECT["urls"]["Source"]
    (source,) = ZENODO["related_identifiers"]
    assert source["identifier"] == CITATION["repository-code"]


CONDA = ROOT / "packaging" / "conda" / "recipe.yaml"


def test_the_conda_recipe_asks_for_what_divulge_asks_for() -> None:
    recipe = yaml.safe_load(CONDA.read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == PROJECT["version"]
    assert recipe["package"] == {"name": "divulge", "version": "${{ version }}"}
    asked = {str(Requirement(one.replace(" ", ""))) for one in recipe["requirements"]["run"]}
    wanted = {str(Requirement(one)) for one in PROJECT["dependencies"]}
    assert asked == {*wanted, f"python{PROJECT['requires-python']}"}
    (backend,) = read_backend()
    assert backend in {one.replace(" ", "") for one in recipe["requirements"]["host"]}
    (script,) = recipe["build"]["python"]["entry_points"]
    assert script == f"divulge = {PROJECT['scripts']['divulge']}"
    assert recipe["about"]["license"] == PROJECT["license"]


def test_rattler_build_renders_the_conda_recipe() -> None:
    rattler = pytest.importorskip("rattler_build")
    (variant,) = rattler.Stage0Recipe.from_file(CONDA).render(rattler.VariantConfig())
    package = variant.recipe.package
    assert (package.name, package.version) == ("divulge", PROJECT["version"])


def read_backend() -> list[str]:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed: list[str] = table["build-system"]["requires"]
    return needed


def test_the_image_runs_divulge_as_nobody_in_particular() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d+$", last, re.M)
    assert 'ENTRYPOINT ["divulge"]' in last
    assert "pip install" not in last  # the last stage installs nothing, and takes over
    assert "--constraint constraints.txt" in DOCKERFILE
    assert "/whl/cpu" in DOCKERFILE
    assert re.search(r"cyclonedx-py environment --output-reproducible", DOCKERFILE)


def test_the_image_is_made_of_files_that_are_there_and_not_ignored() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M)
    names = {name for line in copied for name in line.split()}
    ignored = (ROOT / "packaging" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    allowed = {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    assert names == allowed
    assert all((ROOT / name).exists() for name in names)


def test_the_image_is_linted_where_a_linter_is_at_hand() -> None:
    hadolint = shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("NOT TESTED: hadolint is not installed")
    done = subprocess.run(
        [hadolint, "--ignore", "DL3008", str(ROOT / "packaging" / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_development_container_installs_what_the_tests_use() -> None:
    path = ROOT / ".devcontainer" / "devcontainer.json"
    container = json.loads(path.read_text(encoding="utf-8"))
    words = container["postCreateCommand"].split()
    assert words[0] == "make"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    stamp = re.search(r"^STAMP := (.*)$", makefile, re.M)
    assert stamp is not None
    assert stamp[1] == words[1]
    floor = PROJECT["requires-python"].removeprefix(">=")
    assert f"python:{floor}-" in container["image"]


def test_the_command_of_the_makefile_is_the_scripts_own() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "packaging" / "names.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    for name in ("owner OWNER=", "version VERSION="):
        assert f"make {name}" in done.stderr
        command = name.split()[0]
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert f"packaging/names.py {command} $({command.upper()})" in makefile


def test_a_fresh_clone_is_timed_with_the_two_commands_of_the_readme() -> None:
    assert fresh.commands() == ["demo", "test"]
