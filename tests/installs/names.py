"""The installs that pyproject.toml and the pages name; the standard library is enough here."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.distributions import FOLDERS, read_project

ROOT = FOLDERS["divulge"]
PROJECT: Mapping[str, Any] = read_project(ROOT)
DISTRIBUTIONS: Mapping[str, Mapping[str, Any]] = {
    name: read_project(folder) for name, folder in FOLDERS.items() if folder != ROOT
}
"""The other distributions, by their folders; each is an install as an extra is."""
EXTRAS: Mapping[str, list[str]] = {
    **PROJECT["optional-dependencies"],
    **{name: [one["name"], *one["dependencies"]] for name, one in DISTRIBUTIONS.items()},
    # the Makefile installs all of them with it
    "dev": [
        *PROJECT["optional-dependencies"]["dev"],
        f"{PROJECT['name']}[{','.join(DISTRIBUTIONS)}]",
    ],
}
DEVELOPERS = frozenset({"dev", "nightly", "docs", "benchmark", "tests"})
"""Extras that nobody needs who uses divulge."""

FLOORS: Mapping[str, int] = tomllib.loads(
    (Path(__file__).parent / "floors.toml").read_text("utf-8")
)
"""How many tests have to pass, at least, by install."""

INSTALL = re.compile(r"pip install [^\n`]*?\[([a-z,]+)\]")


def installs() -> list[str]:
    """``base``, each extra by itself, and the sets of extras that pages tell to install."""
    pages = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
    told = {name for page in pages for name in INSTALL.findall(page.read_text("utf-8"))}
    sets = sorted(name for name in told if "," in name)
    return [
        "base",
        *(
            name
            for name in [*EXTRAS, *sets]
            if DEVELOPERS.isdisjoint(name.split(",")) and EXTRAS.keys() >= {*name.split(",")}
        ),
    ]
