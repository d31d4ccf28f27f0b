"""What a recipe accepts, at each limit and beyond it, and how it divides records."""

import math
from typing import Any

import numpy as np
import pytest

from divulge.errors import DataError, SpecError
from divulge.training.recipe import Recipe

LIMITS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], str]] = {
    "lr": ((1e-9, 100.0), (0.0, -0.1, math.inf), "lr above 0"),
    "momentum": ((0.0, 0.999), (-1e-9, 1.0), "momentum from 0 to below 1"),
    "weight_decay": ((0.0, 10.0), (-1e-9, math.inf), "weight_decay from 0"),
    "patience": ((None, 1, 2), (0, -1), "patience from 1"),
    "held_out": ((1e-9, 0.999), (0.0, 1.0, -0.1, 1.5), "held_out above 0 and below 1"),
}
"""By argument: values within the limits, values beyond, and what is expected."""


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_a_recipe(name: str) -> None:
    within, beyond, expected = LIMITS[name]
    for value in within:
        assert getattr(Recipe(list, **{name: value}), name) == value  # type: ignore[arg-type]
    for value in beyond:
        with pytest.raises(SpecError, match=f"{expected}|{name} of Recipe"):
            Recipe(list, **{name: value})  # type: ignore[arg-type]


def test_momentum_is_of_plain_gradient_descent_alone() -> None:
    with pytest.raises(SpecError, match="no momentum with adam"):
        Recipe(list, optimiser="adam", momentum=0.5)  # type: ignore[arg-type]
    assert Recipe(list, optimiser="adam").momentum == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("select", "patience", "expected"),
    [(None, None, None), (None, 3, "loss"), ("accuracy", None, "accuracy"), ("aop", 3, "aop")],
)
def test_the_best_epoch_is_chosen_by_what_is_said_or_by_the_loss(
    select: Any, patience: int | None, expected: str | None
) -> None:
    assert Recipe(list, select=select, patience=patience).selects == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("share", "records", "held_out"),
    [(0.1, 100, 10), (0.1, 4, 1), (0.25, 10, 2), (0.35, 10, 4), (0.99, 10, 9), (0.5, 2, 1)],
)
def test_a_rounded_share_is_held_out_but_one_record_on_either_side(
    share: float, records: int, held_out: int
) -> None:
    rows = 7 + 3 * np.arange(records)
    recipe = Recipe(list, select="loss", held_out=share)  # type: ignore[arg-type]
    fit, held = recipe.split_rows(rows, 5)
    assert (len(fit), len(held)) == (records - held_out, held_out)
    np.testing.assert_array_equal(np.sort(np.concatenate([fit, held])), rows)
    assert (np.diff(fit) > 0).all()
    assert (np.diff(held) > 0).all()
    np.testing.assert_array_equal(recipe.split_rows(rows, 5)[1], held)
    whole, none = Recipe(list).split_rows(rows, 5)  # type: ignore[arg-type]
    assert (len(whole), len(none)) == (records, 0)
    if records > 4:
        assert not np.array_equal(recipe.split_rows(rows, 6)[1], held)


def test_one_record_cannot_be_divided() -> None:
    with pytest.raises(DataError, match="two records or more to hold one out, got 1"):
        Recipe(list, select="loss").split_rows(np.arange(1), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "records", "edges"),
    [
        (4, 8, [4]),
        (4, 9, [4]),  # a last batch of one record joins the one before
        (4, 10, [4, 8]),
        (4, 5, []),
        (4, 4, []),
        (4, 1, []),
        (1, 3, [1, 2]),  # all batches are of one record
        (2, 3, []),
    ],
)
def test_no_batch_of_one_record_is_left_at_the_end(
    size: int, records: int, edges: list[int]
) -> None:
    assert Recipe(list, batch_size=size).batch_edges(records) == edges  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epochs", "stop_after", "run", "steps"), [(3, None, 3, 9), (3, 2, 2, 6), (3, 5, 3, 9)]
)
def test_steps_are_batches_of_the_epochs_that_are_run(
    epochs: int, stop_after: int | None, run: int, steps: int
) -> None:
    recipe = Recipe(list, epochs=epochs, stop_after=stop_after, batch_size=4)  # type: ignore[arg-type]
    assert recipe.epochs_run == run
    assert recipe.steps(10) == steps  # batches of 4, 4 and 2


@pytest.mark.parametrize("stop_after", [None, 1])
def test_a_cosine_falls_from_the_rate_over_the_steps_of_all_epochs(stop_after: int | None) -> None:
    torch = pytest.importorskip("torch")
    recipe = Recipe(list, lr=0.2, epochs=2, batch_size=4, schedule="cosine", stop_after=stop_after)  # type: ignore[arg-type]
    rows = 5 + 2 * np.arange(10)
    epochs = list(recipe.plan(rows, 3))
    assert len(epochs) == (2 if stop_after is None else 1)
    rates = [rate for epoch in epochs for rate, _ in epoch]
    expected = [0.1 * (1 + math.cos(math.pi * step / 6)) for step in range(6)]
    assert rates == pytest.approx(expected[: len(rates)], rel=1e-12)
    for epoch in epochs:
        assert [len(batch) for _, batch in epoch] == [4, 4, 2]
        together = torch.cat([batch for _, batch in epoch]).numpy()
        np.testing.assert_array_equal(np.sort(together), rows)
        assert not np.array_equal(together, rows)
    assert Recipe(list, lr=0.2).rate(0.7) == 0.2  # type: ignore[arg-type]
