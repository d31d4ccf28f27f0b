"""Every attack on models has every property of the table; impostors do not."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from divulge.attacks import catalog
from divulge.data.known_features import KnownFeatures
from divulge.secrets import wrapped
from divulge.targets.cache import record_keys
from divulge.testing import forests, properties
from divulge.testing.membership import KnownMembers, Models, PartlyKnown, SeenInTraining
from divulge.testing.properties import Case, Property, PropertyError, World

from .. import impostors, table
from ..regressions import Regressions
from ..score_tables import ScoreTables
from ..token_tables import TokenTables

MODELS, PARTLY = Models(), PartlyKnown(KnownFeatures(share=0.9))
SHADOWED = PartlyKnown(KnownFeatures(share=0.9), shadow=True)
TRAINED, REGRESSIONS = SeenInTraining(), Regressions()
TOKEN_ATTACKS = catalog.default_attacks(
    tokens=True, shadows=True, known_members=True, reference=True, prefix=True
)

CASES = (
    *(
        Case(MODELS, attack, runs=10 if attack.name in ("quantile", "two-sample") else 20)
        for attack in catalog.default_attacks(shadows=True)
    ),
    Case(MODELS, catalog.attack("cascade"), runs=4),
    Case(MODELS, catalog.attack("external")),
    Case(MODELS, catalog.attack("threshold", per_class=True)),
    Case(MODELS, catalog.attack("quantile", fit="quantile", level=0.9), runs=10),
    Case(MODELS, catalog.attack("quantile", components=4), slow=True),
    Case(MODELS, catalog.attack("lira", variance="record")),
    Case(MODELS, catalog.attack("lira", variance="shrunk")),
    Case(MODELS, catalog.attack("base")),
    Case(MODELS, catalog.attack("pmia")),
    Case(KnownMembers(), catalog.attack("supervised"), runs=4),
    Case(
        KnownMembers(),
        catalog.attack("seqmia", epochs=5, attack_epochs=20),
        {"scores_constant_answers_alike": "a network that is being distilled tells records apart"},
        runs=4,
    ),
    Case(TRAINED, catalog.attack("lt-iqr"), runs=4),
    Case(TRAINED, catalog.attack("iha"), runs=4),
    Case(
        TRAINED,
        catalog.attack("lt-iqr", minus_final_loss=False),
        {"finds_a_leak": "as published it ranks members by their risk, and tells no members"},
        runs=4,
    ),
    Case(MODELS, catalog.attack("oslo", sources=2, validators=1, steps=5), runs=4),
    Case(MODELS, catalog.attack("agreement"), runs=8),
    Case(MODELS, catalog.attack("boundary", questions=40), runs=4),
    Case(PARTLY, catalog.attack("threshold")),
    Case(PARTLY, catalog.attack("gradient-norm")),
    Case(PARTLY, catalog.attack("mrad")),
    Case(PARTLY, catalog.attack("mrad", limits=(-99.0, 99.0))),
    Case(PARTLY, catalog.attack("mrad", detector="msad", start="filled", step=100.0)),
    Case(PARTLY, catalog.attack("mrad", access="answers", directions=20)),
    Case(PARTLY, catalog.attack("mrad", space="features")),
    Case(SHADOWED, catalog.attack("mrad", start="filled")),
    Case(
        SHADOWED,
        catalog.attack("mrad", detector="nci"),
        {"finds_a_leak": "reads features of deep networks; one hidden layer shows nothing to it"},
    ),
    Case(ScoreTables(), catalog.attack("given-score")),
    *(Case(TokenTables(), attack, runs=10) for attack in TOKEN_ATTACKS),
    *(
        Case(REGRESSIONS, catalog.attack(name, **settings), runs=runs)
        for name, settings, runs in (
            ("residual", {}, 10),
            ("residual-quantile", {}, 4),
            ("residual-quantile", {"given": "prediction"}, 4),
            ("residual-quantile", {"fit": "quantile", "level": 0.9, "components": 2}, 4),
            ("residual-lira", {}, 10),
            ("residual-lira", {"residual": "size", "density": "gaussian"}, 10),
            ("residual-rmia", {}, 10),
            ("residual-rmia", {"density": "gaussian", "a": 0.5}, 10),
        )
    ),
)


@table.every(CASES)
def test_property(prove: Property, case: Case) -> None:
    prove(case)


@pytest.mark.parametrize("name", catalog.CATALOGUE["membership"])
def test_each_is_in_the_table_and_in_the_default_audit(name: str) -> None:
    assert any(case.attack.name == name for case in CASES)
    everything = (
        *catalog.default_attacks(
            shadows=True, partial=True, known_members=True, checkpoints=True, cascade=True
        ),
        *catalog.default_attacks(shadows=True, regression=True),
        *catalog.default_attacks(scores=True),
        *TOKEN_ATTACKS,
    )
    assert any(attack.name == name for attack in everything) != (name in catalog.BY_NAME_ALONE)


@pytest.mark.parametrize("attack", catalog.default_attacks(shadows=True), ids=wrapped.attack_label)
def test_the_default_ones_share_one_answer_a_record(attack: Any) -> None:
    """Those that ask further questions stand in `catalog.BY_NAME_ALONE`."""
    (view,) = MODELS.leaky().views
    shared = set(record_keys(np.concatenate([view.records.x, view.reference.x])))

    class Spy:
        offers = view.target.offers

        def predict(self, x: np.ndarray) -> np.ndarray:
            assert shared.issuperset(record_keys(x))
            return np.asarray(view.target.predict(x))

    few = forests.part(dataclasses.replace(view, target=Spy()), np.arange(60))
    attack(few, np.random.default_rng(0))


@pytest.mark.parametrize(("impostor", "prove"), impostors.FAILS)
@pytest.mark.parametrize(
    "world", [MODELS, PARTLY, REGRESSIONS], ids=lambda world: type(world).__name__
)
def test_an_impostor_fails_the_table(world: World, impostor: Any, prove: Any) -> None:
    with pytest.raises(PropertyError):
        prove(table.play_fewer(Case(world, impostor(world))))


def test_a_coin_flip_passes_where_nothing_leaks() -> None:
    case = Case(MODELS, impostors.CoinFlip(MODELS))
    properties.sees_nothing_where_nothing_leaks(table.play_fewer(case))
