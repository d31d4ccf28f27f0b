"""Which client of a federation trained on this record?"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from divulge.attacks import catalog
from divulge.audits import attempt
from divulge.core import NOBODY, Assignment, Collusion, Need
from divulge.metrics import assignment
from divulge.metrics.uninformed import assignment as uninformed
from divulge.metrics.uninformed.draws import ERROR

from .. import federations
from ..table import Lack, Trial, World
from .membership import Poorer


class Federations(World):
    """Three clients, whose models are surer of their own members and gather their answers."""

    guess = Assignment
    always = Need.LABELS | Need.REFERENCE  # a view without them cannot be built
    honest = catalog.federation_attack("variance-lira")

    def leaky(self, seed: int = 0) -> Trial:
        return _game(seed, 1.0)

    def silent(self, seed: int) -> Trial:
        return _game(seed, 0.0)

    def run(self, game: Trial, attack: Any, seed: int = 0) -> attempt.AttackResult:
        (view,), (truth,) = game.views, game.truths

        def measure(guess: Assignment) -> Any:
            return assignment.measure(guess, truth, view.collusion)

        return attempt.run_on_federation(view, measure, attack, seed)

    def beats_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        """An answer that is the same for all records may beat chance, but is not informed."""
        (view,) = game.views
        chance = assignment.chance_accuracy(view.collusion.records, len(view.targets))
        better = found.finding.metrics["accuracy"].low > chance
        return better and not self.covers_chance(game, found)

    def covers_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        (view,), (truth,) = game.views, game.truths
        rng, label = np.random.default_rng(0), view.records.y
        return uninformed.randomise([found.guess], truth, view.collusion, label, rng).p > ERROR

    def check(self, view: Any, guess: Any) -> None:
        clients, own = len(view.targets), view.collusion
        assert guess.client.shape == (len(view.records),)
        assert guess.client.min() >= NOBODY
        assert guess.client.max() < clients
        assert guess.score.shape == (len(view.records), clients)
        # what the attacker knows is never guessed otherwise
        np.testing.assert_array_equal(guess.client == own.client, own.records)

    def permuted(self, game: Trial, rng: np.random.Generator) -> tuple[Trial, Callable[[Any], Any]]:
        (view,), (truth,) = game.views, game.truths
        order = rng.permutation(len(view.records))
        known = dataclasses.replace(view.collusion, records=view.collusion.records[order])
        view = dataclasses.replace(view, records=view.records.take(order), collusion=known)
        moved = Trial((view,), (Assignment(truth.client[order]),))
        return moved, lambda guess: Assignment(guess.client[order], guess.score[order])

    def lacking(self, game: Trial) -> Iterator[Lack]:
        (view,) = game.views
        for flag in view.targets[0].offers:
            some = (Poorer(view.targets[0], view.targets[0].offers & ~flag), *view.targets[1:])
            yield Lack(Trial((dataclasses.replace(view, targets=some),), game.truths), flag)
        own = view.collusion
        known = Collusion(0, own.relevant, own.records)
        alone = dataclasses.replace(
            view, targets=view.targets[own.client :], relevant=view.relevant[own.client :],
            external=view.external[own.client :], collusion=known,
        )  # fmt: skip
        mine = np.where(own.records, 0, NOBODY)
        yield Lack(Trial((alone,), (Assignment(mine),)), Need.NONE)
        few = tuple(records.take(np.arange(2)) for records in view.external)
        view = dataclasses.replace(view, external=few)
        yield Lack(Trial((view,), game.truths), Need.NONE)

    def coin(self, view: Any, rng: np.random.Generator) -> Assignment:
        score = rng.random((len(view.records), len(view.targets)))
        return Assignment(rng.integers(NOBODY, len(view.targets), len(score)), score)

    def flipped(self, guess: Any) -> Assignment:
        return Assignment(guess.score.argmin(axis=1), -guess.score)

    def told(self, view: Any, truth: Any, rng: np.random.Generator) -> Assignment:
        del view
        wrong = rng.random(len(truth.client)) < 0.5
        random = rng.permutation(truth.client)
        return Assignment(np.where(wrong, random, truth.client))

    def same(self, one: Any, other: Any) -> bool:
        return one.records is other.records


@cache
def _game(seed: int, leak: float) -> Trial:
    challenge = federations.made(seed, leak=leak, sure=6 * leak).challenge
    return Trial((challenge.view,), (challenge.truth,))
