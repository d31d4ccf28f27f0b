"""What share of each class does a client hold?"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from divulge.attacks import catalog
from divulge.audits import attempt
from divulge.core import Need, Proportions
from divulge.federation import Federation, exact, simulate
from divulge.metrics import composition, intervals
from divulge.metrics.uninformed import composition as uninformed
from divulge.metrics.uninformed.draws import ERROR
from divulge.training.recipe import Recipe

from ..attacks import federations
from ..table import Lack, Trial, World

CLIENTS, RECORDS = 16, 60


class Mixes(World):
    """Clients with mixes of four classes that have nothing to do with each other's."""

    guess = Proportions
    honest = catalog.update_attack("decaf", level="bias")

    def leaky(self, seed: int = 0) -> Trial:
        return _game(seed, seed)

    def silent(self, seed: int) -> Trial:
        return _game(seed, seed + 100)

    def run(self, game: Trial, attack: Any, seed: int = 0) -> attempt.AttackResult:
        def measure(guesses: Any) -> Any:
            return composition.measure(guesses, game.truths)

        return attempt.run_on_clients(game.views, measure, attack, seed)

    def beats_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        """Nearer, by L1, to its own client than to all on average: a constant answer is not."""
        share = np.array([truth.share for truth in game.truths])
        apart = np.abs([guess.share - share for guess in found.guess]).sum(axis=2)
        return intervals.student_mean((apart.mean(axis=1) - apart.diagonal()).tolist()).low > 0

    def covers_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        return uninformed.randomise([found.guess], game.truths, np.random.default_rng(0)).p > ERROR

    def check(self, view: Any, guess: Any) -> None:
        del view
        assert guess.share.shape == guess.null.shape == (federations.CLASSES,)
        assert not guess.share[guess.null].any()

    def permuted(self, game: Trial, rng: np.random.Generator) -> tuple[Trial, Callable[[Any], Any]]:
        order = rng.permutation(len(game.views))
        moved = Trial(*(tuple(part[k] for k in order) for part in (game.views, game.truths)))
        return moved, lambda guesses: [guesses[k] for k in order]

    def lacking(self, game: Trial) -> Iterator[Lack]:
        yield _without(game, Need.REFERENCE, reference=None)
        yield _without(game, Need.UPDATES, rounds=())
        yield _without(game, Need.NONE, network=None)
        known = federations.reference()
        yield _without(game, Need.NONE, reference=known.take(known.y != 2))

    def coin(self, view: Any, rng: np.random.Generator) -> Proportions:
        del view
        return Proportions(rng.dirichlet(np.ones(federations.CLASSES)), _none())

    def flipped(self, guess: Any) -> Proportions:
        far = guess.share.max() - guess.share + 0.01
        return Proportions(far / far.sum(), _none())

    def told(self, view: Any, truth: Any, rng: np.random.Generator) -> Proportions:
        del view
        return Proportions((truth.share + rng.dirichlet(np.ones(federations.CLASSES))) / 2, _none())

    def same(self, one: Any, other: Any) -> bool:
        return one.rounds is other.rounds


def _none() -> np.ndarray:
    return np.zeros(federations.CLASSES, bool)


def _without(game: Trial, flag: Need, **changes: Any) -> Lack:
    views = tuple(dataclasses.replace(view, **changes) for view in game.views)
    return Lack(Trial(views, game.truths), flag)


def _counts(seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 17])
    mixes = rng.dirichlet(np.ones(federations.CLASSES), CLIENTS)
    return np.array([rng.multinomial(RECORDS, mix) for mix in mixes])


@cache
def _game(seed: int, asked: int) -> Trial:
    """Clients that hold what the first seed says, and are asked about what the second says."""
    counts = _counts(seed)
    pool = federations.records(600, 300 + seed)
    recipe = Recipe(federations.relu, lr=0.05, epochs=1, batch_size=20)
    federation = Federation(pool, exact(pool, counts, seed), recipe, seed=seed, workers=1)
    transcript, known = simulate(federation, 1), federations.reference()
    views = [transcript.view(str(k), federations.relu, known) for k in range(CLIENTS)]
    return Trial(tuple(views), tuple(Proportions.of(row) for row in _counts(asked)))
