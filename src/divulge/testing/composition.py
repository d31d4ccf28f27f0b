"""What share of each class does a client hold?"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from divulge.core import Need, Proportions
from divulge.federation import Federation, exact, simulate
from divulge.metrics import composition, intervals
from divulge.metrics.uninformed import composition as uninformed
from divulge.metrics.uninformed.draws import ERROR
from divulge.secrets import attempt
from divulge.testing import updates
from divulge.testing.properties import GameSet, Lack, Property, World, require
from divulge.testing.relations import of_guesses
from divulge.training.recipe import Recipe

CLIENTS, RECORDS = 16, 60


class Mixes(World):
    """Clients with mixes of four classes that have nothing to do with each other's."""

    guess = Proportions

    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on."""
        return _game(seed, seed)

    def silent(self, seed: int) -> GameSet:
        """What is asked about has nothing to do with what was trained on."""
        return _game(seed, seed + 100)

    def run(self, game: GameSet, attack: Any, seed: int = 0) -> attempt.AttackResult:
        """One attack on one game."""
        measure = partial(composition.measure, truths=game.truths)
        return attempt.run_on_clients(game.views, measure, attack, seed)

    def beats_chance(self, game: GameSet, result: attempt.AttackResult) -> bool:
        """Nearer, by L1, to its own client than to all on average: a constant answer is not."""
        share = np.array([truth.share for truth in game.truths])
        apart = np.abs([guess.share - share for guess in result.guess]).sum(axis=2)
        return intervals.student_mean((apart.mean(axis=1) - apart.diagonal()).tolist()).low > 0

    def covers_chance(self, game: GameSet, result: attempt.AttackResult) -> bool:
        """By the interval of the AUC."""
        return uninformed.randomise([result.guess], game.truths, np.random.default_rng(0)).p > ERROR

    def relations(self, attack: Any) -> tuple[Property, ...]:
        """What a guess keeps where the game comes in another form."""
        return of_guesses.relations(self, attack)

    def check(self, view: Any, guess: Any) -> None:
        """Refuse a guess of another shape."""
        del view
        shapes = guess.share.shape == guess.null.shape == (updates.CLASSES,)
        require(shapes, f"shares of shape {guess.share.shape} for {updates.CLASSES} classes")
        require(not guess.share[guess.null].any(), "a class that it calls missing has a share")

    def permuted(
        self, game: GameSet, rng: np.random.Generator
    ) -> tuple[GameSet, Callable[[Any], Any]]:
        """The game in another order."""
        order = rng.permutation(len(game.views))
        moved = GameSet(*(tuple(part[k] for k in order) for part in (game.views, game.truths)))
        return moved, lambda guesses: [guesses[k] for k in order]

    def lacking(self, game: GameSet) -> Iterator[Lack]:
        """The game without each thing that such views may lack."""
        yield _without(game, Need.REFERENCE, reference=None)
        yield _without(game, Need.UPDATES, rounds=())
        yield _without(game, Need.NONE, network=None)
        known = updates.reference()
        yield _without(game, Need.NONE, reference=known.take(known.y != 2))


def games() -> tuple[World, ...]:
    """Of clients with different mixes of classes."""
    return (Mixes(),)


def _without(game: GameSet, flag: Need, **changes: Any) -> Lack:
    views = tuple(dataclasses.replace(view, **changes) for view in game.views)
    return Lack(GameSet(views, game.truths), flag)


def _counts(seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 17])
    mixes = rng.dirichlet(np.ones(updates.CLASSES), CLIENTS)
    return np.array([rng.multinomial(RECORDS, mix) for mix in mixes])


@cache
def _game(seed: int, clients: int) -> GameSet:
    """Clients that hold what the first seed says, and are asked about what the second says."""
    counts = _counts(seed)
    pool = updates.records(600, 300 + seed)
    recipe = Recipe(updates.relu, lr=0.05, epochs=1, batch_size=20)
    federation = Federation(pool, exact(pool, counts, seed), recipe, seed=seed, workers=1)
    transcript, known = simulate(federation, 1), updates.reference()
    views = [transcript.view(str(k), updates.relu, known) for k in range(CLIENTS)]
    return GameSet(tuple(views), tuple(Proportions.of(row) for row in _counts(clients)))
