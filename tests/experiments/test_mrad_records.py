"""The rows of the tables on partly known records; on synthetic records, as real ones take long."""

import functools
from collections.abc import Iterator

import numpy as np
import pytest

from leakscope.core import Records
from leakscope.experiments import mrad_records
from leakscope.experiments.mrad_records import COLUMNS, measured, rows, rows_of_images
from leakscope.experiments.table import Row
from leakscope.training.recipe import Recipe

pytest.importorskip("torch")


def _synthetic(data: str) -> Records:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 300)
    return Records((random.normal(size=(300, 8)) + y[:, None]).astype(np.float32), y)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    network = functools.partial(mrad_records._perceptron, (8, 16, 3))
    monkeypatch.setattr(mrad_records, "_records", _synthetic)
    monkeypatch.setattr(mrad_records, "_recipe", lambda _: Recipe(network, epochs=2))
    monkeypatch.setattr(mrad_records, "_SIZE", 50)
    for remembered in (mrad_records._view, mrad_records._world):
        remembered.cache_clear()
    yield
    for remembered in (mrad_records._view, mrad_records._world):
        remembered.cache_clear()


@pytest.mark.parametrize(
    "row", rows("location30") + rows_of_images("location30"), ids=lambda row: row.name
)
def test_every_row_gives_an_auc_for_each_share(row: Row) -> None:
    found = measured(0, "small", **row.settings)
    assert tuple(found) == COLUMNS
    for (auc,) in found.values():
        assert 0 <= auc <= 1
    assert found == measured(0, "small", **row.settings)


def test_nobody_meets_a_record_in_two_parts() -> None:
    world = mrad_records._world(0, "small", "location30")
    parts = [
        {row.tobytes() for row in part.x} for part in (world.candidates, world.own, world.pool)
    ]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 300
    assert world.member.sum() == world.rehearsed.sum() == 50
