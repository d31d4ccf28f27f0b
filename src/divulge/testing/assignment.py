"""Which client of a federation trained on this record?"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from divulge.core import NOBODY, Assignment, Collusion, Need
from divulge.metrics import assignment
from divulge.metrics.uninformed import assignment as uninformed
from divulge.metrics.uninformed.draws import ERROR
from divulge.secrets import attempt
from divulge.testing import clients
from divulge.testing.membership import Poorer
from divulge.testing.properties import GameSet, Lack, Property, World, require
from divulge.testing.relations import of_guesses


class Federations(World):
    """Three clients, whose models are surer of their own members and gather their answers."""

    guess = Assignment
    always = Need.LABELS | Need.REFERENCE  # a view without them cannot be built

    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on."""
        return _game(seed, 1.0)

    def silent(self, seed: int) -> GameSet:
        """What is asked about has nothing to do with what was trained on."""
        return _game(seed, 0.0)

    def run(self, game: GameSet, attack: Any, seed: int = 0) -> attempt.AttackResult:
        """One attack on one game."""
        (view,), (truth,) = game.views, game.truths
        measure = partial(assignment.measure, truth=truth, known=view.collusion)
        return attempt.run_on_federation(view, measure, attack, seed)

    def beats_chance(self, game: GameSet, result: attempt.AttackResult) -> bool:
        """An answer that is the same for all records may beat chance, but is not informed."""
        (view,) = game.views
        chance = assignment.chance_accuracy(view.collusion, len(view.targets))
        better = result.finding.metrics["accuracy"].low > chance
        return better and not self.covers_chance(game, result)

    def covers_chance(self, game: GameSet, result: attempt.AttackResult) -> bool:
        """By the interval of the AUC."""
        (view,), (truth,) = game.views, game.truths
        rng, label = np.random.default_rng(0), view.records.y
        return uninformed.randomise([result.guess], truth, view.collusion, label, rng).p > ERROR

    def relations(self, attack: Any) -> tuple[Property, ...]:
        """What a guess keeps where the game comes in another form."""
        return of_guesses.relations(self, attack)

    def check(self, view: Any, guess: Any) -> None:
        """Refuse a guess of another shape."""
        count, own = len(view.targets), view.collusion
        require(
            guess.client.shape == (len(view.records),)
            and guess.client.min() >= NOBODY
            and guess.client.max() < count,
            f"expected a client from {NOBODY} to {count - 1} for each record",
        )
        shape = None if guess.score is None else guess.score.shape
        require(shape == (len(view.records), count), f"scores of shape {shape}: one a client")
        known = np.array_equal(guess.client == own.client, own.records)
        require(known, "it guesses otherwise where the colluding client knows its own records")

    def permuted(
        self, game: GameSet, rng: np.random.Generator
    ) -> tuple[GameSet, Callable[[Any], Any]]:
        """The game in another order."""
        (view,), (truth,) = game.views, game.truths
        order = rng.permutation(len(view.records))
        known = dataclasses.replace(view.collusion, records=view.collusion.records[order])
        view = dataclasses.replace(view, records=view.records.take(order), collusion=known)
        moved = GameSet((view,), (Assignment(truth.client[order]),))
        return moved, lambda guess: Assignment(guess.client[order], guess.score[order])

    def lacking(self, game: GameSet) -> Iterator[Lack]:
        """The game without each thing that such views may lack."""
        (view,) = game.views
        for flag in view.targets[0].offers:
            some = (Poorer(view.targets[0], view.targets[0].offers & ~flag), *view.targets[1:])
            yield Lack(GameSet((dataclasses.replace(view, targets=some),), game.truths), flag)
        without = dataclasses.replace(view, updates=None)
        yield Lack(GameSet((without,), game.truths), Need.UPDATES)
        own = view.collusion
        known = Collusion(0, own.relevant, own.records)
        alone = dataclasses.replace(
            view, targets=view.targets[own.client :], relevant=view.relevant[own.client :],
            external=view.external[own.client :], collusion=known, updates=None,
        )  # fmt: skip
        mine = np.where(own.records, 0, NOBODY)
        yield Lack(GameSet((alone,), (Assignment(mine),)), Need.NONE)
        few = tuple(records.take(np.arange(2)) for records in view.external)
        view = dataclasses.replace(view, external=few)
        yield Lack(GameSet((view,), game.truths), Need.NONE)


def games() -> tuple[World, ...]:
    """Of clients whose models remember their members."""
    return (Federations(),)


@cache
def _game(seed: int, leak: float) -> GameSet:
    challenge = clients.draw_game(seed, leak=leak, sure=6 * leak).challenge
    return GameSet((challenge.view,), (challenge.truth,))
