"""Every attack on federations has every property of the table; impostors do not."""

from typing import Any

import pytest

from divulge.attacks import catalog
from divulge.federation.recommender.model import NeuralCF
from divulge.testing import properties
from divulge.testing.assignment import Federations
from divulge.testing.composition import Mixes
from divulge.testing.interactions import RankerItems, RecommenderItems, SearchItems
from divulge.testing.properties import Case, Property, PropertyError, World

from .. import impostors, table

CLIENTS, MIXES, SCORED = Federations(), Mixes(), RankerItems()
CLEAR = RecommenderItems(NeuralCF(width=64, hidden=(16,)))
FAINT = RecommenderItems(NeuralCF(width=8, hidden=(8,)), users=16)
WORLDS = (CLIENTS, MIXES, SCORED, FAINT)

NOTHING = {"finds_a_leak": "looks at nothing: it is what others are compared with"}
DRAWS = {"permutes_with_the_order": "draws for one item after another"}

CASES = (
    Case(CLIENTS, catalog.federation_attack("cluster-lira"), runs=4),
    Case(CLIENTS, catalog.federation_attack("stacking", protocol="published"), runs=4),
    Case(CLIENTS, catalog.federation_attack("stacking"), runs=4, slow=True),
    Case(CLIENTS, catalog.federation_attack("sia")),
    Case(CLIENTS, catalog.federation_attack("projres")),
    Case(CLIENTS, catalog.federation_attack("fedmia")),
    *(
        Case(CLIENTS, catalog.federation_attack("fedmia", **settings), runs=6)
        for settings in (
            {"measurement": "loss"},
            {"measurement": "difference", "rounds": "last"},
            {"others": False},
        )
    ),
    Case(
        CLIENTS,
        catalog.federation_attack("fedmia", measurement="norm", others=False),
        {"finds_a_leak": "the norm of a record's gradient is the same for all clients"},
        runs=6,
    ),
    Case(CLIENTS, catalog.federation_attack("variance-lira")),
    Case(CLIENTS, catalog.federation_attack("confidence-rule")),
    Case(
        CLIENTS,
        catalog.federation_attack("nobody"),
        NOTHING,
    ),
    Case(
        MIXES,
        catalog.update_attack("decaf", clients=24),
        {"permutes_with_the_order": "invents clients near its guesses, one guess after another"},
        runs=6,
    ),
    Case(MIXES, catalog.update_attack("decaf", clients=24, level="virtual"), runs=10),
    Case(MIXES, catalog.update_attack("decaf", level="bias")),
    Case(MIXES, catalog.update_attack("decaf", faithful=True)),
    *(
        Case(MIXES, catalog.update_attack("label-counts", method=method))
        for method in ("llg", "ilrg", "rlu", "ranking", "uniform")
    ),
    Case(
        MIXES,
        catalog.update_attack("label-counts", method="random"),
        NOTHING | {"permutes_with_the_order": "draws for one client after another"},
    ),
    Case(MIXES, catalog.update_attack("ldia", clients=48), runs=4),
    Case(CLEAR, catalog.interaction_attack("raifle"), runs=8),
    Case(FAINT, catalog.interaction_attack("raifle"), DRAWS, runs=4),
    Case(SCORED, catalog.interaction_attack("raifle", method="closed-form")),
    Case(SCORED, catalog.interaction_attack("raifle", method="gauss-newton")),
    Case(SCORED, catalog.interaction_attack("raifle", method="match", steps=10), DRAWS, runs=8),
    Case(SearchItems(), catalog.interaction_attack("raifle"), runs=8),
    Case(FAINT, catalog.interaction_attack("interaction-search", tries=10), DRAWS, runs=4),
    Case(CLEAR, catalog.interaction_attack("community-inference"), runs=6),
    Case(
        FAINT,
        catalog.interaction_attack("community-inference", relevance="logit", users=8),
        runs=6,
    ),
    Case(SCORED, catalog.interaction_attack("random-interactions"), NOTHING | DRAWS),
)


@table.every(CASES)
def test_property(prove: Property, case: Case) -> None:
    prove(case)


@pytest.mark.parametrize(
    "name", [*catalog.CATALOGUE["composition"], *catalog.CATALOGUE["interactions"]]
)
def test_each_is_in_the_table(name: str) -> None:
    assert any(case.attack.name == name for case in CASES)


@pytest.mark.parametrize("name", catalog.CATALOGUE["assignment"])
def test_each_that_names_a_client_is_in_the_table(name: str) -> None:
    assert any(case.attack.name == name and case.world is CLIENTS for case in CASES)


@pytest.mark.parametrize(("impostor", "prove"), impostors.FAILS)
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_an_impostor_fails_the_table(world: World, impostor: Any, prove: Any) -> None:
    with pytest.raises(PropertyError):
        prove(table.play_fewer(Case(world, impostor(world))))


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_a_coin_flip_passes_where_nothing_leaks(world: World) -> None:
    case = Case(world, impostors.CoinFlip(world))
    properties.sees_nothing_where_nothing_leaks(table.play_fewer(case))
