"""Attacks that must fail the table, one for each thing that can be wrong; for every secret."""

import dataclasses
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from divulge.attacks import catalog
from divulge.core import (
    NOBODY,
    Assignment,
    Membership,
    ModelView,
    Need,
    Proportions,
    Reconstruction,
    Scores,
)
from divulge.targets.cache import record_keys
from divulge.testing import properties
from divulge.testing.properties import World


class Cheat(ABC):
    """How to guess about one secret without the work."""

    honest: Any
    """An attack that works."""

    @abstractmethod
    def coin(self, view: Any, rng: np.random.Generator) -> Any:
        """A guess without looking."""

    @abstractmethod
    def flipped(self, guess: Any) -> Any:
        """The opposite of a guess."""

    @abstractmethod
    def told(self, truth: Any, rng: np.random.Generator) -> Any:
        """A guess about one view that knows the truth."""

    @abstractmethod
    def same(self, one: Any, other: Any) -> bool:
        """Whether two views are of the same victim of the same game."""


class ScoreCheat(Cheat):
    honest = catalog.attack("threshold")

    def coin(self, view: Any, rng: np.random.Generator) -> Scores:
        return Scores(rng.random(len(view.records)))

    def flipped(self, guess: Any) -> Scores:
        return Scores(-guess.score)

    def told(self, truth: Any, rng: np.random.Generator) -> Scores:
        return Scores(truth.member + 2 * rng.normal(size=len(truth.member)))

    def same(self, one: Any, other: Any) -> bool:
        return one.records is other.records


class AssignmentCheat(Cheat):
    honest = catalog.federation_attack("variance-lira")

    def coin(self, view: Any, rng: np.random.Generator) -> Assignment:
        score = rng.random((len(view.records), len(view.targets)))
        return Assignment(rng.integers(NOBODY, len(view.targets), len(score)), score)

    def flipped(self, guess: Any) -> Assignment:
        return Assignment(guess.score.argmin(axis=1), -guess.score)

    def told(self, truth: Any, rng: np.random.Generator) -> Assignment:
        wrong = rng.random(len(truth.client)) < 0.5
        random = rng.permutation(truth.client)
        return Assignment(np.where(wrong, random, truth.client))

    def same(self, one: Any, other: Any) -> bool:
        return one.records is other.records


class ProportionCheat(Cheat):
    honest = catalog.update_attack("decaf", level="bias")

    def coin(self, view: Any, rng: np.random.Generator) -> Proportions:
        from divulge.testing.updates import CLASSES  # which needs PyTorch

        del view
        return Proportions(rng.dirichlet(np.ones(CLASSES)), np.zeros(CLASSES, bool))

    def flipped(self, guess: Any) -> Proportions:
        far = guess.share.max() - guess.share + 0.01
        return Proportions(far / far.sum(), np.zeros(len(far), bool))

    def told(self, truth: Any, rng: np.random.Generator) -> Proportions:
        share = (truth.share + rng.dirichlet(np.ones(len(truth.share)))) / 2
        return Proportions(share, np.zeros(len(share), bool))

    def same(self, one: Any, other: Any) -> bool:
        return one.rounds is other.rounds


class ReconstructionCheat(Cheat):
    honest = catalog.interaction_attack("raifle")

    def coin(self, view: Any, rng: np.random.Generator) -> Reconstruction:
        score = rng.random(len(view.inputs))
        return Reconstruction(score, score > 0.5)

    def flipped(self, guess: Any) -> Reconstruction:
        return Reconstruction(1 - guess.score, ~guess.decided)

    def told(self, truth: Any, rng: np.random.Generator) -> Reconstruction:
        score = (truth.acted + rng.random(len(truth.acted))) / 2
        return Reconstruction(score, score > 0.5)

    def same(self, one: Any, other: Any) -> bool:
        return one.inputs is other.inputs


CHEATS: Mapping[type, Cheat] = {
    Scores: ScoreCheat(),
    Assignment: AssignmentCheat(),
    Proportions: ProportionCheat(),
    Reconstruction: ReconstructionCheat(),
}
"""By the kind of a guess."""


@dataclasses.dataclass(frozen=True)
class Impostor:
    """What all of them have.

    References:
        None, 2026.
    """

    world: World = dataclasses.field(repr=False)
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.NONE

    @property
    def cheat(self) -> Cheat:
        return CHEATS[self.world.guess]


@dataclasses.dataclass(frozen=True)
class CoinFlip(Impostor):
    """Guesses without looking."""

    name: ClassVar[str] = "coin-flip"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        return self.cheat.coin(view, rng)


@dataclasses.dataclass(frozen=True)
class SignFlipped(Impostor):
    """Says the opposite of an attack that works, as a published tool did."""

    name: ClassVar[str] = "sign-flipped"

    @property
    def needs(self) -> Need:  # type: ignore[override]
        return self.cheat.honest.needs  # type: ignore[no-any-return]

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        return self.cheat.flipped(self.cheat.honest(view, rng))


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
            if self.cheat.same(view, other)
        )
        return self.cheat.told(truth, rng)


@dataclasses.dataclass(frozen=True)
class Restless(Impostor):
    """Draws random numbers of its own."""

    name: ClassVar[str] = "restless"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        del rng
        return self.cheat.coin(view, np.random.default_rng())


@dataclasses.dataclass(frozen=True)
class Careless(Impostor):
    """Writes into the view."""

    name: ClassVar[str] = "careless"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        for array in properties.arrays(view):
            array[...] = array[::-1]
        return self.cheat.coin(view, rng)


@dataclasses.dataclass(frozen=True)
class Stubborn(Impostor):
    """Guesses the same about everybody."""

    name: ClassVar[str] = "stubborn"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        del rng
        return self.cheat.coin(view, np.random.default_rng(0))


@dataclasses.dataclass(frozen=True)
class NameReader(Impostor):
    """Guesses by what a client is called."""

    name: ClassVar[str] = "name-reader"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        del rng
        return self.cheat.coin(view, np.random.default_rng(list(view.victim.encode())))


@dataclasses.dataclass(frozen=True)
class PlaceReader(Impostor):
    """Guesses by when a client's update came in."""

    name: ClassVar[str] = "place-reader"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        del rng
        place = list(view.rounds[0].received).index(view.victim)
        return self.cheat.coin(view, np.random.default_rng(place))


@dataclasses.dataclass(frozen=True)
class Unsubtracted(Impostor):
    """Takes whatever a client sent for what its training changed."""

    name: ClassVar[str] = "unsubtracted"

    def __call__(self, view: Any, rng: np.random.Generator) -> Any:
        rounds = tuple(dataclasses.replace(one, kind="update") for one in view.rounds)
        return self.cheat.honest(dataclasses.replace(view, rounds=rounds), rng)


@dataclasses.dataclass(frozen=True)
class FirstClass(Impostor):
    """Names the client whose model is surest of the first class, whichever that is."""

    name: ClassVar[str] = "first-class"

    def __call__(self, view: Any, rng: np.random.Generator) -> Assignment:
        del rng
        score = np.array([one.predict(view.records.x)[:, 0] for one in view.targets]).T
        return Assignment(score.argmax(axis=1), score)


@dataclasses.dataclass(frozen=True)
class FirstKnown(Impostor):
    """Compares all records with the first that a client certainly did not train on."""

    name: ClassVar[str] = "first-known"

    def __call__(self, view: Any, rng: np.random.Generator) -> Assignment:
        del rng
        pairs = zip(view.targets, view.external, strict=True)
        score = np.array([
            one.predict(view.records.x).max(axis=1) - one.predict(known.x[:1]).max()
            for one, known in pairs
        ]).T  # fmt: skip
        return Assignment(score.argmax(axis=1), score)


FAILS = (
    (CoinFlip, properties.finds_a_leak),
    (CoinFlip, properties.permutes_with_the_order),
    (SignFlipped, properties.finds_a_leak),
    (Peeking, properties.sees_nothing_where_nothing_leaks),
    (Restless, properties.repeats_itself),
    (Careless, properties.leaves_the_view_alone),
)
"""Which impostor fails which property."""


@dataclasses.dataclass(frozen=True)
class Recognises:
    """Knows the members by their content, as if it read the file of training data."""

    members: frozenset[bytes]
    name: ClassVar[str] = "recognises"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.FEATURES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        return Scores(np.array([float(key in self.members) for key in record_keys(view.records.x)]))


@dataclasses.dataclass(frozen=True)
class FirstColumn:
    """Looks at the first class, whichever that is, in place of the record's own."""

    name: ClassVar[str] = "first-column"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        return Scores(view.target.predict(view.records.x)[:, 0])


@dataclasses.dataclass(frozen=True)
class Eavesdropping:
    """Finds the truth among the variables of its callers."""

    name: ClassVar[str] = "eavesdropping"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        frame = sys._getframe()
        while frame.f_back:
            frame = frame.f_back
            for value in frame.f_locals.values():
                truth = getattr(value, "truth", value)
                if isinstance(truth, Membership) and len(truth.member) == len(view.records):
                    # however often it is right, it is surer of whom it calls a member
                    return Scores(truth.member.astype(float))
        return Scores(np.zeros(len(view.records)))


@dataclasses.dataclass(frozen=True)
class Crowded:
    """Is right about a few records, and guesses as soon as there are more."""

    few: int
    honest: Recognises = dataclasses.field(repr=False)
    name: ClassVar[str] = "crowded"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.FEATURES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        if len(view.records) <= self.few:
            return self.honest(view, rng)
        return Scores(rng.random(len(view.records)))
