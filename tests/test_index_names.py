"""Names on the package index: nothing installs ours; the ADR lists those of all dependencies."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from divulge.errors import MissingExtra

from .distributions import FOLDERS, ROOT, read_project

PEERS = ROOT / "benchmarks" / "peers" / "requirements"
ADR = ROOT / "docs" / "adr" / "0007-dependencies.md"

INSTALLERS = r"(?:uvx|pipx run|(?:pip3?|pipx|uv|uv tool|poetry|pdm|conda|mamba) (?:install|add))"
INDEX_INSTALL = re.compile(
    rf"\b{INSTALLERS}\b[^\n`#;&|]*?(?<![\w./-])divulge(?![\w/-]|\.\w)"  # a command with our name
    r"|(?<![\w./-])divulge\[[a-z{]"  # our name with an extra
)
"""An install of ours from the index; ``pip install .`` in a checkout, and paths, are none."""


def texts() -> Iterator[Path]:
    """What users read or run. The history, CHANGELOG.md, installs nothing."""
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile")
    for folder in ("docs", "examples", "src", "papers", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.name == "pyproject.toml" and path.parent in FOLDERS.values():
                continue  # what divulge-papers asks for is in the same checkout
            if path.suffix in {".md", ".py", ".toml", ".txt", ".j2", ".html", ".yml"}:
                yield path


@pytest.mark.parametrize(
    "text",
    [
        "pip install divulge",
        "pip install 'divulge[torch]'",
        "f\"run `pip install 'divulge[{extra}]'`\"",
        "python -m pip install --upgrade divulge==0.1.0",
        "uv pip install numpy divulge.",
        "uv add divulge",
        "uvx divulge demo",
        'dependencies = ["flwr>=1.41,<1.43", "divulge[federated]"]',
        "You need `divulge[federated]`",
    ],
)
def test_an_index_install_is_found(text: str) -> None:
    assert INDEX_INSTALL.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "run `pip install '.[torch]'` in a checkout of divulge",
        "pip install '.[torch]'  # in the checkout of divulge",
        "cd divulge && pip install . && divulge demo",
        "pip install ../divulge ./dist/divulge-0.1.0-py3-none-any.whl",
        "pip install xgboost\ndivulge audit audit.toml",
        "needs the extra `torch` of divulge",
    ],
)
def test_an_install_from_a_checkout_is_none(text: str) -> None:
    assert not INDEX_INSTALL.search(text)


def test_nothing_that_users_read_installs_divulge_from_the_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for path in texts()
        for hit in INDEX_INSTALL.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_message_about_a_missing_extra_installs_from_a_checkout() -> None:
    message = str(MissingExtra("torch", "torch"))
    assert "pip install '.[torch]'" in message
    assert not INDEX_INSTALL.search(message)


def test_the_message_about_another_distribution_installs_from_a_checkout() -> None:
    message = str(MissingExtra("divulge_papers", "papers"))
    assert "pip install . ./papers" in message
    assert not INDEX_INSTALL.search(message)


def test_no_example_has_a_dependency_that_the_index_would_be_asked_for() -> None:
    projects = list((ROOT / "examples").rglob("pyproject.toml"))
    assert projects
    for path in projects:
        wanted = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["dependencies"]
        assert "divulge" not in [name(requirement) for requirement in wanted], path


def name(requirement: str) -> str:
    """The name in a requirement such as ``mkdocstrings[python]>=1.0``."""
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return found[0].lower()


def direct_dependencies() -> set[str]:
    """The names that users, developers and benchmarks ask the index for, our own left out."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*table["build-system"]["requires"], *table["project"]["dependencies"]]
    for extra in table["project"]["optional-dependencies"].values():
        wanted += extra
    for folder in FOLDERS.values():
        wanted += read_project(folder)["dependencies"]
    for peer in PEERS.glob("*.txt"):
        lines = peer.read_text(encoding="utf-8").splitlines()
        wanted += [line for line in lines if not line.startswith("#") and " @ " not in line]
    return {name(requirement) for requirement in wanted} - {table["project"]["name"]}


def test_the_adr_lists_every_direct_dependency_with_a_link_and_nothing_else() -> None:
    text = ADR.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| \[[^\]]+\]\(https://\S+\) \|$", text, re.M)
    assert len(rows) == len(set(rows)), "a name stands there twice"
    assert set(rows) == direct_dependencies()
