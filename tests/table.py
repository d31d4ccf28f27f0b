"""The table of properties that every attack must have, as parameters of a test.

The properties that users try on attacks of their own, and two that only attacks of the catalogue
have: a paper, and a page.
"""

import runpy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from divulge.secrets import wrapped
from divulge.testing.properties import (
    PROPERTIES,
    Case,
    Property,
    PropertyError,
    require,
    sees_nothing_where_nothing_leaks,
)

from . import excepted

FEWEST_RUNS = 4
"""Silent games that can show anything, see `Case.runs`."""

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
            excepts = excepted.marks(case.exceptions.get(prove.__name__), PropertyError)
            name = f"{wrapped.attack_label(case.attack)}-{prove.__name__}"
            for one in _tiers(prove, case):
                marks = [*excepts, *([pytest.mark.slow] if one.slow else [])]
                games = f"-{one.runs}" if prove is sees_nothing_where_nothing_leaks else ""
                rows.append(pytest.param(prove, one, id=f"{name}{games}", marks=marks))
    return pytest.mark.parametrize(("prove", "case"), rows)


def play_fewer(case: Case) -> Case:
    """The case with two in five of its silent games, which are enough to see what is grossly wrong.

    Of 8 games in place of 20, at least 4 in place of 14 have to cover chance.
    """
    return replace(case, runs=max(FEWEST_RUNS, case.runs * 2 // 5))


def _tiers(prove: Property, case: Case) -> Iterator[Case]:
    """The case, and before it a quick one with fewer silent games."""
    quick = play_fewer(case)
    if case.slow or prove is not sees_nothing_where_nothing_leaks or quick.runs == case.runs:
        yield case
    else:
        yield from (quick, replace(case, slow=True))
