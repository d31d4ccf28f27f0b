"""Write ``licences.md``: what is installed with divulge and each extra, and under which licence.

The metadata of the installed packages says it. ``make licences`` runs it;
``tests/test_licences.py`` compares the page with what is installed.
"""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "licences.md"
COPYLEFT = re.compile(r"\b[AL]?GPL|\b(MPL|Mozilla|EPL|EUPL|CDDL|OSL|CC-BY-SA)\b", re.IGNORECASE)
UNTOLD = "not said in its metadata"
ELSEWHERE = {"torchvision": "BSD"}
"""As their metadata say, of packages that the tests run without."""

HEAD = """\
# Licences

<!-- Written by docs/generate_licences.py from what is installed: run `make licences`. -->

divulge is under the [Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0). This page
lists what `pip` installs with it and with each extra, at the versions that the tests run with, and
the licence that each package declares. divulge itself asks for the **bold** packages; the others
come with them. A package may hold further libraries, under licences of their own: see the licence
files in it.
"""

NOTE = """\
On Linux with a GPU, the usual builds of PyTorch and of XGBoost bring libraries of NVIDIA along
(`nvidia-*`, `cuda-*`), which are proprietary: NVIDIA's own terms hold for them.
"""


USED = ("base", "torch", "boosters", "text", "images", "files", "urls", "dp", "federated", "report")
USED += ("fast",)
"""The groups that users install; what only developers need is not installed with divulge."""


def declared_extras() -> dict[str, list[str]]:
    """What divulge asks for itself: nothing more is ``base``, and each extra by its name."""
    project = _read_project(ROOT)
    extras = project["optional-dependencies"]
    groups = {"base": project["dependencies"], **extras}
    groups["fast"] = _read_project(ROOT / "fast")[
        "dependencies"
    ]  # papers brings nothing of its own
    return {name: list(_expand(asked, extras)) for name, asked in groups.items() if name != "all"}


def _read_project(folder: Path) -> dict[str, Any]:
    """``[project]`` of a distribution."""
    table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    project: dict[str, Any] = table["project"]
    return project


def _expand(asked: list[str], extras: dict[str, list[str]]) -> Iterator[str]:
    """Requirements, with those of our own extras in the place of their names."""
    for text in asked:
        wanted = Requirement(text)
        if wanted.name != "divulge":
            yield text
        for extra in wanted.extras if wanted.name == "divulge" else ():
            yield from _expand(extras[extra], extras)


def needed(asked: list[str]) -> set[str]:
    """The names of all packages that these requirements bring along on this system."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in asked]
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            key = canonicalize_name(wanted.name), extra
            if key in found:
                continue
            found.add(key)
            here = installed(wanted.name)
            for text in (here.requires or ()) if here else ():
                inner = Requirement(text)
                environment = {**default_environment(), "extra": extra}
                if inner.marker is None or inner.marker.evaluate(environment):
                    waiting.append(inner)
    return {name for name, _ in found}


def installed(name: str) -> Distribution | None:
    """An installed package, or None."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licence(package: Distribution) -> str:
    """The licence that a package declares, in one line."""
    told = package.metadata
    if expression := told.get("License-Expression"):
        return str(expression)
    classifiers = [text for text in told.get_all("Classifier") or () if text.startswith("License")]
    words = [text.rpartition(" :: ")[2].strip() for text in classifiers]
    if words and words != ["OSI Approved"]:
        return ", ".join(words)
    files = [package.read_text(str(f)) or "" for f in _licence_files(package)]
    for text in (str(told.get("License") or ""), *files):
        lines = (line.strip() for line in text.splitlines())
        if first := next((one for one in lines if one and not one.startswith("Copyright")), ""):
            return first
    return UNTOLD


def _licence_files(package: Distribution) -> list[Path]:
    """The licence files in a package's metadata, from its folder on."""
    files = [Path(file) for file in package.files or () if "LICENSE" in file.name.upper()]
    return [Path(*file.parts[1:]) for file in files if file.parts[0].endswith(".dist-info")]


def pinned() -> set[str]:
    """The packages whose versions `constraints.txt` fixes; what else is here differs by system."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}


def rows() -> dict[str, tuple[str, set[str], set[str]]]:
    """By package: its licence, the groups that bring it along, and those that ask for it."""
    groups = {name: needed(asked) for name, asked in declared_extras().items() if name in USED}
    direct = {
        name: {canonicalize_name(Requirement(text).name) for text in asked}
        for name, asked in declared_extras().items()
    }
    found = {}
    for name in sorted(set().union(*groups.values()) & (pinned() | set().union(*direct.values()))):
        here = installed(name)
        brought = {group for group, names in groups.items() if name in names}
        asking = {group for group in brought if name in direct[group]}
        found[name] = (licence(here) if here else ELSEWHERE[name], brought, asking)
    return found


def page() -> str:
    """The page."""
    found = rows()
    copyleft = [f"`{name}` ({text})" for name, (text, *_) in found.items() if COPYLEFT.search(text)]
    lines = [
        HEAD,
        "Under a copyleft licence: " + (", ".join(copyleft) or "none") + ". All others are "
        "permissive, as far as their metadata say it.\n",
        NOTE,
        "| package | licence | comes with |",
        "| --- | --- | --- |",
    ]
    for name, (text, brought, asking) in found.items():
        groups = ["base"] if "base" in brought else sorted(brought)
        shown = f"**{name}**" if asking else name
        lines.append(f"| {shown} | {text.replace('|', '/')} | {', '.join(groups)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
