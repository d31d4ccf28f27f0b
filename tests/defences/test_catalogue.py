"""Every update defence of the catalogue has every property of the table; bad ones do not."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest

from divulge.cli import listing
from divulge.core import ClientContext, Update, UpdateDefence
from divulge.defences import catalog
from divulge.defences.updates.compose import chain
from divulge.errors import DataError, SpecError

from . import table

SETTINGS: dict[str, dict[str, Any]] = {
    "local-noise": {"epsilon": 2.0, "delta": 1e-5, "clip": 0.5},
    "dp-fedavg": {"noise_multiplier": 1.0, "clip": 0.5, "delta": 1e-5},
    "top-k": {"share": 0.25},
}
NOISE = catalog.update_defence("local-noise", **SETTINGS["local-noise"])

DEFENCES = (
    *(catalog.update_defence(name, **SETTINGS.get(name, {})) for name in catalog.UPDATE_DEFENCES),
    catalog.update_defence("local-noise", epsilon=0.5, delta=1e-5, clip=1.0, mechanism="gaussian"),
    catalog.update_defence("local-noise", epsilon=1.0, delta=0.0, clip=1.0, mechanism="laplace"),
    chain(catalog.update_defence("top-k"), NOISE, catalog.update_defence("secure-sum")),
    catalog.update_defence("dp-fedavg", **SETTINGS["dp-fedavg"], noise_by="clients"),
    chain(
        catalog.update_defence("sign"),
        catalog.update_defence("dp-fedavg", **SETTINGS["dp-fedavg"]),
        catalog.update_defence("secure-sum"),
    ),
    chain(
        catalog.update_defence("dp-fedavg", **SETTINGS["dp-fedavg"], noise_by="clients"),
        catalog.update_defence("secure-sum"),
    ),
)


@pytest.mark.parametrize("prove", table.PROPERTIES, ids=lambda prove: prove.__name__)
@pytest.mark.parametrize("defence", DEFENCES, ids=repr)
def test_property(defence: UpdateDefence, prove: table.Property) -> None:
    prove(defence)


@dataclasses.dataclass(frozen=True)
class Careless(UpdateDefence):
    """Writes into the update that it is given, flattens it, and makes random numbers of its own."""

    name: ClassVar[str] = "careless"
    paper: ClassVar[str] = "none"

    def on_client(self, update: Update, context: ClientContext) -> Update:
        del context
        noise = np.random.default_rng().normal()
        for value in update.values():
            value[...] = np.nan_to_num(value) + noise
        return {name: value.ravel() for name, value in update.items()}


@pytest.mark.parametrize(
    ("prove", "message"),
    [
        (table.leaves_the_update_alone, "read-only"),
        (table.keeps_names_and_shapes, "of shape"),
        (table.deals_with_what_is_not_finite, "DID NOT RAISE"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_careless_defence_fails_the_table(prove: table.Property, message: str) -> None:
    with pytest.raises((ValueError, DataError, pytest.fail.Exception), match=message):
        prove(Careless())


def test_every_defence_is_listed_with_one_line() -> None:
    lines = dict(listing.lines("defences"))
    registries = (
        *(catalog.TRAINED_DEFENCES, catalog.TUNED_DEFENCES),
        *(catalog.UPDATE_DEFENCES, catalog.ANSWER_DEFENCES),
    )
    assert list(lines) == [name for registry in registries for name in registry]
    assert all(len(text) > 20 for text in lines.values())


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("top-kk", {}, "did you mean 'top-k'"),
        ("top-k", {"shares": 0.1}, "did you mean 'share'"),
        ("top-k", {"share": "many"}, "expected share of TopK to be a finite number, got 'many'"),
        ("top-k", {"share": 0.0}, "share above 0"),
        ("none", {"share": 0.0}, "it has none"),
        ("sign", {"scale": -1.0}, "scale above 0"),
        ("local-noise", {"epsilon": 1.0, "delta": 0.1}, "a value for clip of local-noise"),
    ],
)
def test_wrong_settings_are_refused_in_words(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        catalog.update_defence(name, **settings)
