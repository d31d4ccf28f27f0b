"""What a network would be, had its training ended earlier."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from divulge.errors import SpecError  # noqa: E402
from divulge.training import Recipe  # noqa: E402
from divulge.training.fleet import Fleet  # noqa: E402

from ..defences import trained_table as table  # noqa: E402

EPOCHS = (1, 3, 6, 15)
RECIPES = {
    "plain": Recipe(table.network, lr=0.1, momentum=0.9, epochs=15, batch_size=16),
    "cosine": Recipe(table.network, lr=0.1, epochs=15, batch_size=16, schedule="cosine"),
    "selected": table.RECIPE,
    "patient": Recipe(
        table.network, "adam", lr=0.05, epochs=15, batch_size=16, patience=1, held_out=0.3
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_each_stage_is_the_network_that_stops_there(name: str) -> None:
    recipe = RECIPES[name]
    for k, models in enumerate(Fleet(recipe).stages(table.POOL, table.HALVES, (1, 2), EPOCHS)):
        half, seed = table.HALVES[[k]], (1, 2)[k]
        for stop, model in zip(EPOCHS, models, strict=True):
            fleet = Fleet(_stopped(recipe, stop), way="one-by-one", workers=1)
            (alone,) = fleet.many(table.POOL, half, [seed])
            np.testing.assert_array_equal(
                model.predict(table.OTHERS.x), alone.predict(table.OTHERS.x)
            )


def test_patience_ended_a_training_of_this_file() -> None:
    """Else the test above would not see what stages after that are."""
    models = next(Fleet(RECIPES["patient"]).stages(table.POOL, table.HALVES, (1, 2), EPOCHS))
    one, later = (model.predict(table.OTHERS.x) for model in models[-2:])
    np.testing.assert_array_equal(one, later)


@pytest.mark.parametrize("way", ["one-by-one", "stacked", "processes"])
def test_a_training_stops_in_the_same_way_however_it_is_computed(way: Any) -> None:
    recipe = _stopped(RECIPES["cosine"], 3)
    expected = list(Fleet(recipe, "one-by-one", 1).many(table.POOL, table.HALVES, (1, 2)))
    found = Fleet(recipe, way, 1).many(table.POOL, table.HALVES, (1, 2))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            one.predict(table.OTHERS.x), other.predict(table.OTHERS.x), rtol=1e-3
        )


def test_a_stop_changes_neither_rates_nor_more_than_the_last_epochs() -> None:
    recipe = RECIPES["cosine"]
    rows = np.arange(40)
    whole, cut = (list(one.plan(rows, 0)) for one in (recipe, _stopped(recipe, 4)))
    assert len(cut) == 4
    for mine, other in zip(cut, whole[:4], strict=True):
        assert [rate for rate, _ in mine] == [rate for rate, _ in other]
        assert all(torch.equal(a, b) for (_, a), (_, b) in zip(mine, other, strict=True))
    assert (recipe.steps(40), _stopped(recipe, 4).steps(40)) == (15 * 3, 4 * 3)
    assert _stopped(recipe, 99).steps(40) == recipe.steps(40)


def test_no_epoch_at_all_is_refused() -> None:
    with pytest.raises(SpecError, match="stop_after"):
        Recipe(table.network, stop_after=0)


def _stopped(recipe: Recipe, epochs: int) -> Recipe:
    return replace(recipe, stop_after=epochs)
