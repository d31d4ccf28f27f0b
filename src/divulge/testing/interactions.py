"""Which of the items handed out did a user act on?"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from divulge.core import Interactions, Need, Reconstruction
from divulge.federation.recommender.model import NeuralCF
from divulge.metrics import interactions
from divulge.secrets import attempt
from divulge.testing import items
from divulge.testing.properties import GameSet, Lack, Property, World, require
from divulge.testing.relations import of_guesses


class Items(World):
    """Users whose server knows how they train; silent where truths are shuffled among items."""

    guess = Reconstruction

    def draw(self, seed: int) -> tuple[items.UserGame, ...]:
        """One game a user."""
        raise NotImplementedError

    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on."""
        return _game(self, seed, shuffled=False)

    def silent(self, seed: int) -> GameSet:
        """What is asked about has nothing to do with what was trained on."""
        return _game(self, seed, shuffled=True)

    def run(self, game: GameSet, attack: Any, seed: int = 0) -> attempt.AttackResult:
        """One attack on one game."""
        measure = partial(interactions.measure, truths=game.truths)
        return attempt.run_on_clients(game.views, measure, attack, seed)

    def relations(self, attack: Any) -> tuple[Property, ...]:
        """What a guess keeps where the game comes in another form."""
        return of_guesses.relations(self, attack)

    def check(self, view: Any, guess: Any) -> None:
        """Refuse a guess of another shape."""
        shapes = guess.score.shape == guess.decided.shape == (len(view.inputs),)
        require(shapes, f"scores of shape {guess.score.shape} for {len(view.inputs)} items")
        # the score ranks what was decided above what was not
        if guess.decided.any() and not guess.decided.all():
            above = guess.score[guess.decided].min() > guess.score[~guess.decided].max()
            require(above, "its scores rank an item that it decided on below one that it did not")

    def permuted(
        self, game: GameSet, rng: np.random.Generator
    ) -> tuple[GameSet, Callable[[Any], Any]]:
        """The game in another order."""
        orders = [rng.permutation(len(truth.acted)) for truth in game.truths]
        views = [_moved(view, order) for view, order in zip(game.views, orders, strict=True)]
        truths = [Interactions(t.acted[o]) for t, o in zip(game.truths, orders, strict=True)]

        def expected(guesses: Any) -> Any:
            return [
                Reconstruction(guess.score[order], guess.decided[order])
                for guess, order in zip(guesses, orders, strict=True)
            ]

        return GameSet(tuple(views), tuple(truths)), expected

    def lacking(self, game: GameSet) -> Iterator[Lack]:
        """The game without each thing that such views may lack."""
        for flag, change in (
            (Need.INPUTS, {"inputs": None}),
            (Need.UPDATES, {"rounds": ()}),
            (Need.NONE, {"learner": None}),
        ):
            views = tuple(dataclasses.replace(view, **change) for view in game.views)
            yield Lack(GameSet(views, game.truths), flag)


@dataclasses.dataclass(frozen=True)
class RecommenderItems(Items):
    """Users of a recommender: the update has a row for each item."""

    learner: NeuralCF
    users: int = 12

    def draw(self, seed: int) -> tuple[items.UserGame, ...]:
        """One game a user."""
        return items.recommended(0.0, self.users, self.learner, seed)


@dataclasses.dataclass(frozen=True)
class RankerItems(Items):
    """Users who score items with a ranker of their own; the update is affine in what they did."""

    users: int = 12

    def draw(self, seed: int) -> tuple[items.UserGame, ...]:
        """One game a user."""
        return tuple(items.pointwise(8, 10, 0, 1000 * seed + k) for k in range(self.users))


@dataclasses.dataclass(frozen=True)
class SearchItems(Items):
    """Users of a search engine, who click through two queries."""

    users: int = 12

    def draw(self, seed: int) -> tuple[items.UserGame, ...]:
        """One game a user."""
        return tuple(items.searched(2, 0, 1000 * seed + k) for k in range(self.users))


def games() -> tuple[World, ...]:
    """Of a recommender, of rankers and of a search engine."""
    recommended = RecommenderItems(NeuralCF(width=64, hidden=(16,)))
    return (recommended, RankerItems(), SearchItems())


@cache
def _game(world: Items, seed: int, *, shuffled: bool) -> GameSet:
    made, rng = world.draw(seed), np.random.default_rng([seed, 23])
    truths = [game.truth for game in made]
    if shuffled:
        truths = [Interactions(rng.permutation(truth.acted)) for truth in truths]
    return GameSet(tuple(game.view for game in made), tuple(truths))


def _moved(view: Any, order: np.ndarray) -> Any:
    """The view with its items in another order, wherever there is a row for each."""

    def rows(tensors: Any) -> dict[str, np.ndarray]:
        return {n: a[order] if a.shape == view.inputs.shape else a for n, a in tensors.items()}

    (played,) = view.rounds
    got = played.received[view.victim]
    received = {view.victim: dataclasses.replace(got, tensors=rows(got.tensors))}
    played = dataclasses.replace(played, sent=rows(played.sent), received=received)
    learner = view.learner
    if hasattr(learner, "query"):
        learner = dataclasses.replace(learner, query=learner.query[order])
    return dataclasses.replace(view, rounds=(played,), inputs=view.inputs[order], learner=learner)
