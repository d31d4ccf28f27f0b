"""The table of properties that every attack must have, as parameters of a test.

The properties that users try on attacks of their own, and two that only attacks of the catalogue
have: a paper, and a page.
"""

import runpy
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from divulge.audits import wrapped
from divulge.testing.properties import PROPERTIES, Case, Property, PropertyError, require

from . import excepted

GENERATOR = Path(__file__).parents[1] / "docs" / "generate_components.py"


def names_its_paper(case: Case) -> None:
    require(any(character.isdigit() for character in case.attack.paper), "no year")
    require("References:" in (type(case.attack).__doc__ or ""), "no references")


def has_a_page(case: Case) -> None:
    """The page of a family has a section for it, whose settings are written from the class."""
    require(len(_places()[f"attacks/{case.attack.name}"]) == 1, "on no page, or on several")


@cache
def _places() -> Any:
    return runpy.run_path(str(GENERATOR))["places"]()


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
            name = f"{wrapped.attack_label(case.attack)}-{prove.__name__}"
            rows.append(pytest.param(prove, case, id=name, marks=marks))
    return pytest.mark.parametrize(("prove", "case"), rows)
