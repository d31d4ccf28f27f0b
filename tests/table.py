"""The table of properties that every attack must have, as parameters of a test.

The properties that users try on attacks of their own, and two that only attacks of the catalogue
have: a paper, and a page.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from divulge.audits import attempt
from divulge.testing.properties import PROPERTIES, Case, Property, PropertyError, require

from . import excepted

PAGES = Path(__file__).parents[1] / "docs" / "attacks"


def names_its_paper(case: Case) -> None:
    require(any(character.isdigit() for character in case.attack.paper), "no year")
    require("References:" in (type(case.attack).__doc__ or ""), "no references")


def has_a_page(case: Case) -> None:
    """The list of attacks names each setting, and leads to a page that names the attack."""
    name = case.attack.name
    listed = (PAGES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| \[{name}\]\(([a-z-]+\.md)(?:#[a-z-]+)?\)(.*)$", listed, re.M)
    require(rows, "not in the list")
    for page, _ in rows:
        require(name in (PAGES / page).read_text(encoding="utf-8"), f"not on {page}")
    for setting in attempt.attack_settings(case.attack):
        require(any(f"`{setting}`" in row for _, row in rows), f"{setting} not in the list")


def every(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """Each property of each case, as parameters of a test; what is excepted must really fail."""
    rows = []
    for case in cases:
        proofs: tuple[Property, ...]
        proofs = (*PROPERTIES, names_its_paper, has_a_page, *case.world.own)
        assert set(case.exceptions) <= {prove.__name__ for prove in proofs}
        for prove in proofs:
            marks = excepted.marks(case.exceptions.get(prove.__name__), PropertyError)
            marks += [pytest.mark.slow] if case.slow else []
            name = f"{attempt.attack_label(case.attack)}-{prove.__name__}"
            rows.append(pytest.param(prove, case, id=name, marks=marks))
    return pytest.mark.parametrize(("prove", "case"), rows)
