"""Attacks keep the relations in whole audits; impostors fail, by a message that names one."""

from typing import Any

import pytest

from divulge.attacks import catalog
from divulge.targets.cache import record_keys
from divulge.testing.membership import Models
from divulge.testing.properties import Case, Property, PropertyError
from divulge.testing.relations import of_attacks
from divulge.testing.relations.subjects import memorised
from tests import impostors

MANY = memorised(0, of_attacks.MANY).records(inside=True)[0]
RECOGNISES = impostors.Recognises(frozenset(record_keys(MANY)))
FAILS: tuple[tuple[Any, Property, str], ...] = (
    (
        impostors.FirstColumn(),
        of_attacks.keeps_its_figures_in_another_form,
        "change with the same classes in another order, each with its name ",
    ),
    (
        impostors.Eavesdropping(),
        of_attacks.turns_over_with_the_sets,
        "are 1.000 and, with exchanged sets, 1.000",
    ),
    (
        impostors.Crowded(MANY.shape[0], RECOGNISES),
        of_attacks.narrows_with_more_records,
        "0.063 wide, and 0.103 with more records",
    ),
)


@pytest.mark.parametrize(("impostor", "prove", "message"), FAILS)
def test_an_impostor_fails_by_name(impostor: Any, prove: Property, message: str) -> None:
    assert of_attacks.relations(impostor)
    with pytest.raises(PropertyError, match=message):
        prove(Case(Models(), impostor))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["threshold", "gap", "agreement", "quantile", "external"])
def test_attacks_keep_every_relation(name: str) -> None:
    attack = catalog.attack(name)
    relations = of_attacks.relations(attack)
    assert relations == of_attacks.RELATIONS
    for prove in relations:
        prove(Case(Models(), attack))


def test_nothing_is_tried_where_a_plain_audit_does_not_suit_the_attack() -> None:
    assert not of_attacks.relations(catalog.attack("lira"))
    assert not of_attacks.relations(catalog.attack("gradient-norm"))
