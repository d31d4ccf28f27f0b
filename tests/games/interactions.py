"""Which of the items handed out did a user act on?"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from divulge.attacks import catalog
from divulge.audits import attempt
from divulge.core import Interactions, Need, Reconstruction
from divulge.federation.recommender.model import NeuralCF
from divulge.metrics import interactions

from ..attacks import acted_on
from ..table import Lack, Trial, World


class Items(World):
    """Users whose server knows how they train; silent where truths are shuffled among items."""

    guess = Reconstruction
    honest = catalog.interaction_attack("raifle")

    def made(self, seed: int) -> tuple[acted_on.UserGame, ...]:
        raise NotImplementedError

    def leaky(self, seed: int = 0) -> Trial:
        return _game(self, seed, shuffled=False)

    def silent(self, seed: int) -> Trial:
        return _game(self, seed, shuffled=True)

    def run(self, game: Trial, attack: Any, seed: int = 0) -> attempt.AttackResult:
        def measure(guesses: Any) -> Any:
            return interactions.measure(guesses, game.truths)

        return attempt.run_on_clients(game.views, measure, attack, seed)

    def beats_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        del game
        return found.finding.metrics["auc"].low > 0.5

    def covers_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        del game
        return 0.5 in found.finding.metrics["auc"]

    def check(self, view: Any, guess: Any) -> None:
        assert guess.score.shape == guess.decided.shape == (len(view.inputs),)
        # the score ranks what was decided above what was not
        if guess.decided.any() and not guess.decided.all():
            assert guess.score[guess.decided].min() > guess.score[~guess.decided].max()

    def permuted(self, game: Trial, rng: np.random.Generator) -> tuple[Trial, Callable[[Any], Any]]:
        orders = [rng.permutation(len(truth.acted)) for truth in game.truths]
        views = [_moved(view, order) for view, order in zip(game.views, orders, strict=True)]
        truths = [Interactions(t.acted[o]) for t, o in zip(game.truths, orders, strict=True)]

        def expected(guesses: Any) -> Any:
            return [
                Reconstruction(guess.score[order], guess.decided[order])
                for guess, order in zip(guesses, orders, strict=True)
            ]

        return Trial(tuple(views), tuple(truths)), expected

    def lacking(self, game: Trial) -> Iterator[Lack]:
        for flag, change in (
            (Need.INPUTS, {"inputs": None}),
            (Need.UPDATES, {"rounds": ()}),
            (Need.NONE, {"learner": None}),
        ):
            views = tuple(dataclasses.replace(view, **change) for view in game.views)
            yield Lack(Trial(views, game.truths), flag)

    def coin(self, view: Any, rng: np.random.Generator) -> Reconstruction:
        score = rng.random(len(view.inputs))
        return Reconstruction(score, score > 0.5)

    def flipped(self, guess: Any) -> Reconstruction:
        return Reconstruction(1 - guess.score, ~guess.decided)

    def told(self, view: Any, truth: Any, rng: np.random.Generator) -> Reconstruction:
        del view
        score = (truth.acted + rng.random(len(truth.acted))) / 2
        return Reconstruction(score, score > 0.5)

    def same(self, one: Any, other: Any) -> bool:
        return one.inputs is other.inputs


@dataclasses.dataclass(frozen=True)
class Recommended(Items):
    """Users of a recommender: the update has a row for each item."""

    learner: NeuralCF
    users: int = 12

    def made(self, seed: int) -> tuple[acted_on.UserGame, ...]:
        return acted_on.recommended(0.0, self.users, self.learner, seed)


@dataclasses.dataclass(frozen=True)
class Scored(Items):
    """Users who score items with a ranker of their own; the update is affine in what they did."""

    users: int = 12

    def made(self, seed: int) -> tuple[acted_on.UserGame, ...]:
        return tuple(acted_on.pointwise(8, 10, 0, 1000 * seed + k) for k in range(self.users))


@dataclasses.dataclass(frozen=True)
class Searched(Items):
    """Users of a search engine, who click through two queries."""

    users: int = 12

    def made(self, seed: int) -> tuple[acted_on.UserGame, ...]:
        return tuple(acted_on.searched(2, 0, 1000 * seed + k) for k in range(self.users))


@cache
def _game(world: Items, seed: int, *, shuffled: bool) -> Trial:
    made, rng = world.made(seed), np.random.default_rng([seed, 23])
    truths = [game.truth for game in made]
    if shuffled:
        truths = [Interactions(rng.permutation(truth.acted)) for truth in truths]
    return Trial(tuple(game.view for game in made), tuple(truths))


def _moved(view: Any, order: np.ndarray) -> Any:
    """The view with its items in another order, wherever there is a row for each."""

    def rows(tensors: Any) -> dict[str, np.ndarray]:
        return {n: a[order] if a.shape == view.inputs.shape else a for n, a in tensors.items()}

    (seen,) = view.rounds
    got = seen.received[view.victim]
    received = {view.victim: dataclasses.replace(got, tensors=rows(got.tensors))}
    seen = dataclasses.replace(seen, sent=rows(seen.sent), received=received)
    learner = view.learner
    if hasattr(learner, "query"):
        learner = dataclasses.replace(learner, query=learner.query[order])
    return dataclasses.replace(view, rounds=(seen,), inputs=view.inputs[order], learner=learner)
