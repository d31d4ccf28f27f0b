"""The distributions of this repository, which have one version: where the source of each is."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = {"divulge": ROOT, "papers": ROOT / "papers", "fast": ROOT / "fast"}
"""By the name of the folder that pip is given; the first is the checkout itself."""

SOURCES = {
    "divulge": ROOT / "src" / "divulge",
    "divulge_papers": ROOT / "papers" / "src" / "divulge_papers",
    "divulge_fast": ROOT / "fast" / "src" / "divulge_fast",
}
"""By the name that is imported."""


def read_project(folder: Path) -> Mapping[str, Any]:
    """``[project]`` of a distribution."""
    table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    project: Mapping[str, Any] = table["project"]
    return project
