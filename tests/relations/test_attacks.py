"""Attacks keep the relations in whole audits; impostors fail, by a message that names one."""

from typing import Any

import pytest

from divulge.attacks import catalog
from divulge.targets.cache import record_keys
from divulge.testing.assignment import Federations
from divulge.testing.composition import Mixes
from divulge.testing.interactions import RankerItems
from divulge.testing.membership import Models
from divulge.testing.properties import Case, Property, PropertyError, World
from divulge.testing.relations import of_attacks, of_guesses
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


CLIENTS, MIXES, ITEMS = Federations(), Mixes(), RankerItems()
FORMS_FAIL: tuple[tuple[World, type[impostors.Impostor], str], ...] = (
    (MIXES, impostors.PlaceReader, "the same clients in reverse order"),
    (MIXES, impostors.NameReader, "the same clients under other names"),
    (MIXES, impostors.Unsubtracted, "the same updates, sent as what changed in place of"),
    (MIXES, impostors.Stubborn, "the same classes in another order, in the output layer"),
    (ITEMS, impostors.NameReader, "the same clients under other names"),
    (CLIENTS, impostors.Stubborn, "the same clients in another order, their models"),
    (CLIENTS, impostors.FirstClass, "the same classes in another order, in the answers"),
    (CLIENTS, impostors.FirstKnown, "the same relevant and external records in reverse order"),
)


@pytest.mark.parametrize(("world", "impostor", "message"), FORMS_FAIL)
def test_an_impostor_fails_by_the_form_that_changes_its_guess(
    world: World, impostor: type[impostors.Impostor], message: str
) -> None:
    attack = impostor(world)
    (prove,) = world.relations(attack)
    with pytest.raises(PropertyError, match=f"its guess changes with {message}"):
        prove(Case(world, attack))


@pytest.mark.parametrize(
    ("world", "attack"),
    [
        *((CLIENTS, catalog.federation_attack(n)) for n in ("sia", "fedmia", "variance-lira")),
        *((CLIENTS, catalog.federation_attack(n)) for n in ("projres", "confidence-rule")),
        (MIXES, catalog.update_attack("decaf", level="bias")),
        *(
            (MIXES, catalog.update_attack("label-counts", method=method))
            for method in ("llg", "ilrg", "rlu", "ranking", "uniform")
        ),
        (ITEMS, catalog.interaction_attack("raifle", method="closed-form")),
        (ITEMS, catalog.interaction_attack("raifle", method="gauss-newton")),
    ],
)
def test_attacks_on_federations_keep_their_guess_in_every_form(world: World, attack: Any) -> None:
    (prove,) = world.relations(attack)
    assert prove is of_guesses.keeps_its_guess_in_another_form
    prove(Case(world, attack))


def test_no_form_is_tried_of_an_attack_that_draws() -> None:
    for world in (CLIENTS, MIXES, ITEMS):
        assert not world.relations(impostors.CoinFlip(world))
