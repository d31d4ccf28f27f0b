"""The page of licences lists what is asked for, with the licence that its metadata declares."""

import re
import runpy
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .installs.names import DEVELOPERS

GENERATOR = runpy.run_path(str(Path(__file__).parent.parent / "docs" / "generate_licences.py"))
PAGE: str = GENERATOR["PAGE"].read_text(encoding="utf-8")
LISTED = {
    name: text
    for name, text in re.findall(r"^\| (?:\*\*)?([\w-]+?)(?:\*\*)? \| (.*?) \|", PAGE, re.MULTILINE)
    if name not in ("package", "---")
}


def test_every_package_that_divulge_asks_for_is_listed() -> None:
    for group, asked in GENERATOR["declared_extras"]().items():
        if group in GENERATOR["USED"]:
            names = {canonicalize_name(Requirement(text).name) for text in asked}
            assert names <= LISTED.keys(), f"run `make licences`: {group}"
            assert all(f"| **{name}** |" in PAGE for name in names)
    others = GENERATOR["declared_extras"]().keys() - set(GENERATOR["USED"])
    assert others == DEVELOPERS


def test_what_comes_with_them_is_listed_with_the_licence_that_it_declares() -> None:
    """Where a package is installed at the pinned version; the page is one for all systems."""
    lines = (GENERATOR["ROOT"] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines}
    here, elsewhere = GENERATOR["installed"], GENERATOR["ELSEWHERE"]
    asked = {Requirement(text).name for text in GENERATOR["declared_extras"]()["nightly"]}
    if missing := [name for name in asked if here(name) is None and name not in elsewhere]:
        pytest.skip(f"needs every extra: there is no {', '.join(sorted(missing))}")
    compared = 0
    for name, (text, _, _) in GENERATOR["rows"]().items():
        package = here(name)
        if package is not None and pins.get(name) == package.version.partition("+")[0]:
            assert LISTED[name] == text.replace("|", "/"), f"run `make licences`: {name}"
            compared += 1
    assert compared > 20


def test_a_copyleft_licence_is_named() -> None:
    told = PAGE.partition("Under a copyleft licence: ")[2].partition(". All others")[0]
    assert told
    for name, text in LISTED.items():
        assert (f"`{name}`" in told) == bool(GENERATOR["COPYLEFT"].search(text)), name
    for text in (
        "GPL-3.0-or-later",
        "LGPLv2+",
        "Mozilla Public License 2.0",
        "AGPL-3.0",
        "MPL-2.0",
    ):
        assert GENERATOR["COPYLEFT"].search(text), text
    assert not GENERATOR["COPYLEFT"].search("MIT AND Apache-2.0 WITH LLVM-exception AND MIT-CMU")
