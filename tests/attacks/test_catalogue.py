"""Every attack of the catalogue has every property of the table; bad attacks do not."""

from pathlib import Path

import pytest

from divulge.attacks import catalog
from divulge.audits import attempt
from divulge.core import MembershipAttack

from .. import table

ATTACKS = (
    *catalog.default_attacks(shadows=True),
    catalog.attack("external"),
    catalog.attack("threshold", per_class=True),
    catalog.attack("quantile", fit="quantile", level=0.9),
    catalog.attack("quantile", components=4),
    catalog.attack("lira", variance="record"),
)


@pytest.mark.parametrize("prove", table.PROPERTIES, ids=lambda prove: prove.__name__)
@pytest.mark.parametrize("attack", ATTACKS, ids=attempt.label)
def test_property(attack: MembershipAttack, prove: table.Property) -> None:
    prove(attack)


@pytest.mark.parametrize("name", catalog.ATTACKS)
def test_each_attack_is_in_the_default_audit_and_has_a_page(name: str) -> None:
    assert any(
        attack.name == name for attack in catalog.default_attacks(shadows=True, partial=True)
    )
    assert (Path(__file__).parents[1] / "docs" / "attacks" / f"{name}.md").is_file()


@pytest.mark.parametrize("bad", [table.CoinFlip(), table.SignFlipped()], ids=lambda bad: bad.name)
def test_an_attack_that_knows_nothing_fails_the_table(bad: MembershipAttack) -> None:
    with pytest.raises(AssertionError):
        table.finds_a_leak(bad)


def test_an_attack_that_sees_what_is_not_there_fails_the_table() -> None:
    with pytest.raises(AssertionError):
        table.sees_nothing_where_nothing_leaks(table.Jumpy())


def test_a_coin_flip_passes_where_nothing_leaks() -> None:
    table.sees_nothing_where_nothing_leaks(table.CoinFlip())
