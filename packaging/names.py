"""Write the version, or the account that publishes divulge, into every file that names it.

``make version VERSION=0.2.0`` and ``make owner OWNER=name`` run it. The place that counts is
``[project]`` of the first ``pyproject.toml``; the tests compare all others with it.
"""

import datetime as dt
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OWNER_FILES = (
    "pyproject.toml",
    "CITATION.cff",
    ".zenodo.json",
    "SECURITY.md",
    "docs/ci.md",
    "examples/gate/.github/workflows/privacy.yml",
    "packaging/conda/recipe.yaml",
    "packaging/Dockerfile",
)
"""Files that name the repository."""
VERSION_FILES = (
    "pyproject.toml",
    "papers/pyproject.toml",
    "fast/pyproject.toml",
    "CITATION.cff",
    ".zenodo.json",
    "docs/ci.md",
    "packaging/conda/recipe.yaml",
    "packaging/Dockerfile",
)
"""Files that name the version."""
VERSIONED = re.compile(
    r'^(version = "|  "divulge\[[a-z,]+\]==|version: |  "version": "|  version: "'
    r"|    rev: v|ARG VERSION=)([0-9]+\.[0-9]+\.[0-9]+)",
    re.MULTILINE,
)
"""Where a file names our version, and not that of another package."""
ACCOUNT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?")
"""What GitHub allows as the name of an account."""


def project(root: Path = ROOT) -> dict[str, Any]:
    """``[project]``, the place that counts."""
    table = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, Any] = table["project"]
    return found


def owner(root: Path = ROOT) -> str:
    """The account that publishes divulge."""
    source = project(root)["urls"]["Source"]
    found = re.fullmatch(r"https://github\.com/([\w-]+)/divulge", source)
    assert found, source
    return found[1]


def set_owner(name: str, root: Path = ROOT) -> list[str]:
    """Replace the account in all files; returns those that changed."""
    if not ACCOUNT.fullmatch(name):
        sys.exit(f"expected the name of a GitHub account, got {name!r}: letters, digits, hyphens")
    old = re.compile(rf"\b{re.escape(owner(root))}/divulge\b")
    return _rewrite(OWNER_FILES, lambda text: old.sub(f"{name}/divulge", text), root)


def set_version(version: str, root: Path = ROOT) -> list[str]:
    """Replace the version in all files, and date it today; returns the files that changed."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"expected a version such as 0.2.0, got {version!r}")
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    changed = _rewrite(VERSION_FILES, lambda text: VERSIONED.sub(rf"\g<1>{version}", text), root)

    def date(text: str) -> str:
        text = re.sub(r"\ndate-released: .*", "", text)
        return re.sub(r"(\nversion: .*)", rf"\1\ndate-released: {today}", text)

    heading = f"## [{version}] - "
    changed += _rewrite(("CITATION.cff",), date, root)
    changed += _rewrite(
        ("CHANGELOG.md",), lambda text: text.replace(f"{heading}unreleased", heading + today), root
    )
    return sorted({*changed})


def _rewrite(paths: tuple[str, ...], change: Callable[[str], str], root: Path) -> list[str]:
    changed = []
    for path in paths:
        text = (root / path).read_text(encoding="utf-8")
        new = change(text)
        if new != text:
            (root / path).write_text(new, encoding="utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    commands = {"owner": set_owner, "version": set_version}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit("expected a name and a value: make owner OWNER=name, make version VERSION=0.2.0")
    sys.stdout.write("".join(f"{path}\n" for path in commands[sys.argv[1]](sys.argv[2])))
