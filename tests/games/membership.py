"""Was this record in the training set?"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar

import numpy as np

from divulge.attacks import catalog
from divulge.audits import attempt
from divulge.core import Game, Membership, ModelView, Need, Scores, Target
from divulge.data.known_features import KnownFeatures
from divulge.errors import NotApplicable

from .. import worlds
from ..attacks import partly_known
from ..table import Case, Lack, Property, Trial, World


@dataclasses.dataclass(frozen=True)
class Poorer:
    """A target that offers less."""

    target: Target
    offers: Need

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.target.predict(x)


class Constant:
    """A model that says the same of every record."""

    offers = Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.full((len(x), worlds.CLASSES), 1 / worlds.CLASSES)


def gives_one_finite_score_a_record(case: Case) -> None:
    (view,) = case.world.leaky().views
    for count in (1, 2, 7):
        few = worlds.part(view, np.arange(count))
        try:
            score = case.attack(few, np.random.default_rng(0)).score
        except NotApplicable as error:
            assert "candidates" in str(error)  # noqa: PT017 (an attack may ask for more records)
            assert count < 7
            continue
        assert score.shape == (count,)
        assert np.isfinite(score).all()


def scores_constant_answers_alike(case: Case) -> None:
    """A model that says the same of every record gives nothing to rank by but what is known
    without it: the label, and what shadows say of the record."""
    (view,) = case.world.leaky().views
    view = dataclasses.replace(view, target=Constant())
    score = case.attack(view, np.random.default_rng(0)).score
    assert np.isfinite(score).all()
    if case.attack.needs & Need.PROBABILITIES and not case.attack.needs & Need.SHADOWS:
        np.testing.assert_allclose(score, score[0], atol=1e-9)


class Models(World):
    """Forests that memorised the members, or never saw them."""

    guess = Scores
    always = Need.LABELS
    honest = catalog.attack("threshold")
    own: ClassVar[tuple[Property, ...]] = (
        gives_one_finite_score_a_record,
        scores_constant_answers_alike,
    )

    def leaky(self, seed: int = 0) -> Trial:
        return _game(worlds.leaky(seed))

    def silent(self, seed: int) -> Trial:
        return _game(worlds.silent(seed))

    def run(self, game: Trial, attack: Any, seed: int = 0) -> attempt.AttackResult:
        return attempt.run_on_model(Game(game.views[0], game.truths[0]), attack, seed)

    def beats_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        del game
        return found.finding.metrics["auc"].low > 0.5

    def covers_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        del game
        return 0.5 in found.finding.metrics["auc"]

    def check(self, view: Any, guess: Any) -> None:
        assert guess.score.shape == (len(view.records),)

    def permuted(self, game: Trial, rng: np.random.Generator) -> tuple[Trial, Callable[[Any], Any]]:
        order = rng.permutation(len(game.views[0].records))
        truth = dataclasses.replace(game.truths[0], member=game.truths[0].member[order])
        moved = Trial((worlds.part(game.views[0], order),), (truth,))
        return moved, lambda guess: Scores(guess.score[order])

    def lacking(self, game: Trial) -> Iterator[Lack]:
        (view,) = game.views
        offers = view.target.offers
        for flag in offers:
            yield _seen(game, flag, target=Poorer(view.target, offers & ~flag))
        yield _seen(game, Need.REFERENCE, reference=None, own=None)
        yield _seen(game, Need.SHADOWS, shadows=None)
        yield _seen(game, Need.PARTIAL, known=None)

    def coin(self, view: Any, rng: np.random.Generator) -> Scores:
        return Scores(rng.random(len(view.records)))

    def flipped(self, guess: Any) -> Scores:
        return Scores(-guess.score)

    def told(self, view: Any, truth: Any, rng: np.random.Generator) -> Scores:
        del view
        return Scores(truth.member + 2 * rng.normal(size=len(truth.member)))

    def same(self, one: Any, other: Any) -> bool:
        return one.records is other.records


class TwoWays(Models):
    """The same, asked about each candidate in two ways."""

    def leaky(self, seed: int = 0) -> Trial:
        return _game(worlds.two_ways(worlds.leaky(seed), seed))

    def silent(self, seed: int) -> Trial:
        return _game(worlds.two_ways(worlds.silent(seed), seed))


@dataclasses.dataclass(frozen=True)
class PartlyKnown(Models):
    """Networks that learned the members by heart, of which only some features are known."""

    known: KnownFeatures
    shadow: bool = False
    """Whether the attacker has a model of its own."""
    own: ClassVar[tuple[Property, ...]] = (gives_one_finite_score_a_record,)

    def leaky(self, seed: int = 0) -> Trial:
        return _network(self.known, seed, learned=True, shadow=self.shadow)

    def silent(self, seed: int) -> Trial:
        return _network(self.known, seed, learned=False, shadow=self.shadow)


@cache
def _network(known: KnownFeatures, seed: int, *, learned: bool, shadow: bool) -> Trial:
    challenge = partly_known.challenge(known, seed, learned=learned, size=250)
    if shadow:
        view = partly_known.with_shadow(challenge.view, known, 0)
        challenge = dataclasses.replace(challenge, view=view)
    return _game(challenge)


def _game(challenge: Game[ModelView, Membership]) -> Trial:
    return Trial((challenge.view,), (challenge.truth,))


def _seen(game: Trial, flag: Need, **changes: Any) -> Lack:
    return Lack(Trial((dataclasses.replace(game.views[0], **changes),), game.truths), flag)
