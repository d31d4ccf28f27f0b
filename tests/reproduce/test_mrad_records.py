"""The rows of the tables on partly known records; on synthetic records, as real ones take long."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from divulge.core import Records
from divulge.data.known_features import KnownFeatures
from divulge.reproduce.papers.mrad import data, study
from divulge.reproduce.papers.mrad.data import AuditedModel, Data
from divulge.reproduce.papers.mrad.study import ACCURACY, measure_auc
from divulge.reproduce.table import find_table
from divulge.training.recipe import Recipe

pytest.importorskip("torch")

CACHED = (
    data.train_target,
    data._train_shadows,
    data._split_records,
    data._hide_unknown_features,
    data._phi_of_candidates,
)
FEW = {"10 % missing": 0.1, "60 % missing": 0.6}
ROWS = {
    f"{row.settings['data']}: {row.name}": row
    for name in ("mrad-fashion-mnist", "mrad-cifar-10", "mrad-questions")
    for row in find_table(name).rows
}


def _synthetic(data: Data) -> Records:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 300)
    x = (random.normal(size=(300, 12)) + y[:, None]).astype(np.float32)
    return Records(x.reshape(300, 3, 2, 2) if data == "cifar10" else x, y)


def _recipe(audited: AuditedModel) -> Recipe:
    from divulge.reproduce import networks

    network = {
        "perceptron": networks.perceptron(12, 8, 3),
        "resnet": networks.resnet((2, 3), 3),
        "vit": networks.vit(2, 1, 4, 1, 3),
    }
    return Recipe(network[audited.model], epochs=2)


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "_load_records", _synthetic)
        patch.setattr(data, "_recipe", _recipe)
        patch.setattr(data, "_SIZE", 50)
        patch.setattr(study, "_SHARES", FEW)
        for remembered in CACHED:
            remembered.cache_clear()
        yield
    for remembered in CACHED:
        remembered.cache_clear()


@pytest.mark.parametrize("settings", [row.settings for row in ROWS.values()], ids=list(ROWS))
def test_every_row_gives_an_auc_for_each_share(settings: dict[str, Any]) -> None:
    found, entries = measure_auc(0, "small", **settings)
    assert tuple(found) == (*FEW, ACCURACY)
    for (value,) in found.values():
        assert 0 <= value <= 1
    assert [entry.finding.metrics["auc"].value for entry in entries] == [found[c][0] for c in FEW]
    assert all(entry.control is not None for entry in entries)


def test_the_same_seed_gives_the_same_figures() -> None:
    settings = ROWS["location30: one step, 6 questions"].settings
    before = measure_auc(0, "small", **settings).values
    for remembered in CACHED:
        remembered.cache_clear()
    assert measure_auc(0, "small", **settings).values == before


def test_nobody_meets_a_record_in_two_parts() -> None:
    world = data.train_target(0, AuditedModel("location30"))
    parts = [{row.tobytes() for row in part.x} for part in world.parts]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 300
    shadow = data.white_box_shadow(0, "small", AuditedModel("location30"), KnownFeatures(share=0.5))
    assert world.member.sum() == shadow.member.sum() == 50
