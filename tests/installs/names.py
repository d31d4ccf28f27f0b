"""The installs that pyproject.toml and the pages name; the standard library is enough here."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
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
