"""Attacks that must fail the tables, one for each thing that can be wrong; for every secret."""

import dataclasses
from typing import Any, ClassVar

import numpy as np

from divulge.core import Need

from . import table
from .table import World


@dataclasses.dataclass(frozen=True)
class Impostor:
    """What all of them have.

    References:
        None, 2026.
    """

    world: World = dataclasses.field(repr=False)
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.NONE


@dataclasses.dataclass(frozen=True)
class CoinFlip(Impostor):
    """Guesses without looking."""

    name: ClassVar[str] = "coin-flip"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        return self.world.coin(view, rng)


@dataclasses.dataclass(frozen=True)
class SignFlipped(Impostor):
    """Says the opposite of an attack that works, as a published tool did."""

    name: ClassVar[str] = "sign-flipped"

    @property
    def needs(self) -> Need:  # type: ignore[override]
        return self.world.honest.needs  # type: ignore[no-any-return]

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        return self.world.flipped(self.world.honest(view, rng))


@dataclasses.dataclass(frozen=True)
class Peeking(Impostor):
    """Finds a leak where there is none, by looking at the truth."""

    name: ClassVar[str] = "peeking"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        truth = next(
            truth
            for seed in range(20)
            for game in [self.world.silent(seed)]
            for other, truth in zip(game.views, game.truths, strict=True)
            if self.world.same(view, other)
        )
        return self.world.told(view, truth, rng)


@dataclasses.dataclass(frozen=True)
class Restless(Impostor):
    """Draws random numbers of its own."""

    name: ClassVar[str] = "restless"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        del rng
        return self.world.coin(view, np.random.default_rng())


@dataclasses.dataclass(frozen=True)
class Careless(Impostor):
    """Writes into the view."""

    name: ClassVar[str] = "careless"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        for array in table.arrays(view):
            array[...] = array[::-1]
        return self.world.coin(view, rng)


FAILS = (
    (CoinFlip, table.finds_a_leak),
    (CoinFlip, table.permutes_with_the_order),
    (SignFlipped, table.finds_a_leak),
    (Peeking, table.sees_nothing_where_nothing_leaks),
    (Restless, table.repeats_itself),
    (Careless, table.leaves_the_view_alone),
)
"""Which impostor fails which property."""
