"""Was this record in the training set?"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar

import numpy as np

from divulge.core import Game, Membership, ModelView, Need, Scores, Target
from divulge.data.known_features import KnownFeatures
from divulge.errors import NotApplicable
from divulge.secrets import attempt
from divulge.testing import forests
from divulge.testing.properties import Case, GameSet, Lack, Property, PropertyError, World, require


@dataclasses.dataclass(frozen=True)
class Poorer:
    """A target that offers less."""

    target: Target
    offers: Need

    def predict(self, x: np.ndarray) -> np.ndarray:
        """What the target predicts."""
        return self.target.predict(x)


class Constant:
    """A model that says the same of every record."""

    offers = Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The same share for each class."""
        return np.full((len(x), forests.CLASSES), 1 / forests.CLASSES)


_FEW = (1, 2, 7)


def gives_one_finite_score_a_record(case: Case) -> None:
    """Gives one finite score a record, however few there are."""
    (view,) = case.world.leaky().views
    for count in _FEW:
        few = forests.part(view, np.arange(count))
        try:
            score = case.attack(few, np.random.default_rng(0)).score
        except NotApplicable as error:
            if "candidates" in str(error) and count < _FEW[-1]:
                continue  # an attack may ask for more
            raise PropertyError(f"of {count} candidates: {error}") from error
        message = f"of {count} candidates it gives scores of shape {score.shape}"
        require(score.shape == (count,), message)
        require(np.isfinite(score).all(), f"{message}, with NaN or infinity")


def scores_constant_answers_alike(case: Case) -> None:
    """Ranks nobody by a model that says the same of every record.

    Such a model gives nothing to rank by but what is known without it: the label, and what shadows
    say of the record.
    """
    (view,) = case.world.leaky().views
    view = dataclasses.replace(view, target=Constant())
    score = case.attack(view, np.random.default_rng(0)).score
    require(np.isfinite(score).all(), "scores of constant answers have NaN or infinity")
    if case.attack.needs & Need.PROBABILITIES and not case.attack.needs & Need.SHADOWS:
        same = np.allclose(score, score[0], rtol=1e-7, atol=1e-9)
        require(same, "it tells records apart by a model that says the same of each")


class Models(World):
    """Forests that memorised the members, or never saw them."""

    guess = Scores
    always = Need.LABELS
    own: ClassVar[tuple[Property, ...]] = (
        gives_one_finite_score_a_record,
        scores_constant_answers_alike,
    )

    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on."""
        return _game(forests.leaky(seed))

    def silent(self, seed: int) -> GameSet:
        """What is asked about has nothing to do with what was trained on."""
        return _game(forests.silent(seed))

    def run(self, game: GameSet, attack: Any, seed: int = 0) -> attempt.AttackResult:
        """One attack on one game."""
        return attempt.run_on_model(Game(game.views[0], game.truths[0]), attack, seed)

    def relations(self, attack: Any) -> tuple[Property, ...]:
        """What stays and what turns in whole audits, where these suit the attack."""
        from divulge.testing.relations import of_attacks  # which loads what audits need

        return of_attacks.relations(attack)

    def check(self, view: Any, guess: Any) -> None:
        """Refuse a guess of another shape."""
        message = f"scores of shape {guess.score.shape} for {len(view.records)} candidates"
        require(guess.score.shape == (len(view.records),), message)

    def permuted(
        self, game: GameSet, rng: np.random.Generator
    ) -> tuple[GameSet, Callable[[Any], Any]]:
        """The game in another order."""
        order = rng.permutation(len(game.views[0].records))
        truth = dataclasses.replace(game.truths[0], member=game.truths[0].member[order])
        moved = GameSet((forests.part(game.views[0], order),), (truth,))
        return moved, lambda guess: Scores(guess.score[order])

    def lacking(self, game: GameSet) -> Iterator[Lack]:
        """The game without each thing that such views may lack."""
        (view,) = game.views
        offers = view.target.offers
        for flag in offers:
            yield _seen(game, flag, target=Poorer(view.target, offers & ~flag))
        yield _seen(game, Need.REFERENCE, reference=None, own=None)
        yield _seen(game, Need.SHADOWS, shadows=None)
        yield _seen(game, Need.PARTIAL, known=None)
        yield _seen(game, Need.KNOWN_MEMBERS, known_members=None)
        yield _seen(game, Need.LOSS_TRACE, loss_trace=None)
        yield _seen(game, Need.CONDITIONAL_SHADOWS, conditional=None)


class TwoWays(Models):
    """The same, asked about each candidate in two ways."""

    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on."""
        return _game(forests.two_ways(forests.leaky(seed), seed))

    def silent(self, seed: int) -> GameSet:
        """What is asked about has nothing to do with what was trained on."""
        return _game(forests.two_ways(forests.silent(seed), seed))


class KnownMembers(Models):
    """Forests whose attacker knows some members, which are no candidates."""

    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on, beside the known members."""
        return _game(forests.with_known_members(seed, trained=True))

    def silent(self, seed: int) -> GameSet:
        """What was trained on are known members, and nothing that is asked about."""
        return _game(forests.with_known_members(seed, trained=False))


class SeenInTraining(Models):
    """Networks whose attacker has their losses during training, and knows some members."""

    own: ClassVar[tuple[Property, ...]] = (gives_one_finite_score_a_record,)

    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on, beside the known members."""
        return _seen_in_training(seed, learned=True)

    def silent(self, seed: int) -> GameSet:
        """What was trained on are known members, and nothing that is asked about."""
        return _seen_in_training(seed, learned=False)


@dataclasses.dataclass(frozen=True)
class PartlyKnown(Models):
    """Networks that memorised the members, of which only some features are known."""

    known: KnownFeatures
    shadow: bool = False
    """Whether the attacker has a model of its own."""
    own: ClassVar[tuple[Property, ...]] = (gives_one_finite_score_a_record,)

    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on."""
        return _network(self.known, seed, learned=True, shadow=self.shadow)

    def silent(self, seed: int) -> GameSet:
        """What is asked about has nothing to do with what was trained on."""
        return _network(self.known, seed, learned=False, shadow=self.shadow)


def games() -> tuple[World, ...]:
    """Of whole records, known members and losses during training, and of partial knowledge."""
    known = KnownFeatures(share=0.9)
    whole = (Models(), KnownMembers(), SeenInTraining())
    return (*whole, PartlyKnown(known), PartlyKnown(known, shadow=True))


@cache
def _seen_in_training(seed: int, *, learned: bool) -> GameSet:
    from divulge.testing import networks  # which needs torch

    return _game(networks.seen_in_training(seed, learned=learned))


@cache
def _network(known: KnownFeatures, seed: int, *, learned: bool, shadow: bool) -> GameSet:
    from divulge.testing import networks  # the one that needs torch

    challenge = networks.challenge(known, seed, learned=learned, size=250)
    if shadow:
        view = networks.with_shadow(challenge.view, known, 0)
        challenge = dataclasses.replace(challenge, view=view)
    return _game(challenge)


def _game(challenge: Game[ModelView, Membership]) -> GameSet:
    return GameSet((challenge.view,), (challenge.truth,))


def _seen(game: GameSet, flag: Need, **changes: Any) -> Lack:
    return Lack(GameSet((dataclasses.replace(game.views[0], **changes),), game.truths), flag)
