"""The relations, of one attack on what clients hold: what it guesses about another form of a game.

A form holds the same information, so an attack that draws nothing has to guess the same. One
that draws, draws for one class or client after another: in another order it guesses otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from divulge.core import (
    NOBODY,
    Assignment,
    Proportions,
    Reconstruction,
    Records,
    Round,
    Tensors,
    UpdateView,
)
from divulge.targets.recorded import TableTarget
from divulge.testing.clients import TableUpdates
from divulge.testing.properties import (
    ROUNDING,
    Case,
    GameSet,
    Property,
    World,
    done,
    first,
    is_same,
    require,
)
from divulge.testing.relations.ways import describe

Form = Callable[[GameSet], tuple[GameSet, Callable[[Any], Any]]]
"""A game in another form, and what a guess about it is in that form."""

CLASSES = np.array([2, 0, 3, 1])
"""The order of four classes; none stays, and doing it twice is no undoing."""


def _same(guess: Any) -> Any:
    return guess


def _turned(guesses: Any) -> Any:
    return list(guesses)[::-1]


def _change_rounds(game: GameSet, change: Callable[[Round], Round]) -> tuple[UpdateView, ...]:
    """The views with rounds that are changed once for all clients that share them."""
    made: dict[int, tuple[Round, ...]] = {}
    for view in game.views:
        made.setdefault(id(view.rounds), tuple(map(change, view.rounds)))
    return tuple(replace(view, rounds=made[id(view.rounds)]) for view in game.views)


def _change_tensors(played: Round, change: Callable[[Tensors], Tensors]) -> Round:
    """The round, in which the tensors that were sent and received are changed alike."""
    received = {
        name: replace(got, tensors=change(got.tensors)) for name, got in played.received.items()
    }
    aggregated = None if played.aggregated is None else change(played.aggregated)
    return replace(played, sent=change(played.sent), received=received, aggregated=aggregated)


def turn_clients(game: GameSet) -> tuple[GameSet, Callable[[Any], Any]]:
    """The same clients in reverse order."""

    def turn(played: Round) -> Round:
        return replace(played, received=dict(list(played.received.items())[::-1]))

    views = _change_rounds(game, turn)
    return GameSet(views[::-1], game.truths[::-1]), _turned


def rename_clients(game: GameSet) -> tuple[GameSet, Callable[[Any], Any]]:
    """The same clients under other names."""

    def rename(played: Round) -> Round:
        return replace(
            played,
            received={f"client-{name}": got for name, got in played.received.items()},
            handed={f"client-{name}": arrays for name, arrays in played.handed.items()},
        )

    views = tuple(
        replace(view, victim=f"client-{view.victim}") for view in _change_rounds(game, rename)
    )
    return GameSet(views, game.truths), _same


def send_changes(game: GameSet) -> tuple[GameSet, Callable[[Any], Any]]:
    """The same updates, sent as what changed in place of new weights."""

    def send(played: Round) -> Round:
        changes = {
            name: replace(got, tensors=played.change(name)) for name, got in played.received.items()
        }
        return replace(played, kind="update", received=changes)

    return GameSet(_change_rounds(game, send), game.truths), _same


def permute_classes_of_updates(game: GameSet) -> tuple[GameSet, Callable[[Any], Any]]:
    """The same classes in another order, in the output layer and in the labels."""

    def permute(tensors: Tensors) -> Tensors:
        *_, weight, bias = tensors
        return {n: a[CLASSES] if n in (weight, bias) else a for n, a in tensors.items()}

    def relabel(known: Records | None) -> Records | None:
        return None if known is None else replace(known, y=np.argsort(CLASSES)[known.y])

    known = relabel(game.views[0].reference)
    views = _change_rounds(game, lambda played: _change_tensors(played, permute))
    moved = tuple(replace(view, reference=known) for view in views)

    def expected(guesses: Any) -> Any:
        return [
            replace(guess, share=guess.share[CLASSES], null=guess.null[CLASSES])
            for guess in guesses
        ]

    return GameSet(moved, tuple(expected(game.truths))), expected


def permute_owners(game: GameSet) -> tuple[GameSet, Callable[[Any], Any]]:
    """The same clients in another order, their models and updates too."""
    (view,), (truth,) = game.views, game.truths
    order = np.roll(np.arange(len(view.targets)), 1)
    place = np.argsort(order)
    known = replace(view.collusion, client=int(place[view.collusion.client]))
    moved = replace(
        view,
        targets=tuple(view.targets[k] for k in order),
        relevant=tuple(view.relevant[k] for k in order),
        external=tuple(view.external[k] for k in order),
        collusion=known,
        updates=_reorder(view.updates, order),
    )

    def expected(guess: Any) -> Any:
        client = np.where(guess.client == NOBODY, NOBODY, place[guess.client])
        return Assignment(client, None if guess.score is None else guess.score[:, order])

    return GameSet((moved,), (expected(truth),)), expected


def _reorder(updates: TableUpdates, order: np.ndarray) -> TableUpdates:
    rounds = tuple(
        signals._replace(
            loss=signals.loss[:, order],
            inner=signals.inner[:, order],
            update_norm=signals.update_norm[order],
        )
        for signals in updates.rounds
    )
    return TableUpdates(rounds, tuple(updates.clients[k] for k in order))


def permute_classes_of_answers(game: GameSet) -> tuple[GameSet, Callable[[Any], Any]]:
    """The same classes in another order, in the answers and in the labels."""
    (view,) = game.views

    def relabel(records: Records) -> Records:
        return replace(records, y=np.argsort(CLASSES)[records.y])

    def permute(target: TableTarget) -> TableTarget:
        raw = None if target.raw is None else target.raw[:, CLASSES]
        return replace(target, answers=target.answers[:, CLASSES], raw=raw)

    moved = replace(
        view,
        targets=tuple(map(permute, view.targets)),
        records=relabel(view.records),
        relevant=tuple(map(relabel, view.relevant)),
        external=tuple(map(relabel, view.external)),
    )
    return GameSet((moved,), game.truths), _same


def turn_known_records(game: GameSet) -> tuple[GameSet, Callable[[Any], Any]]:
    """The same relevant and external records in reverse order."""
    (view,) = game.views

    def turn(records: Records) -> Records:
        return records.take(np.arange(len(records))[::-1])

    moved = replace(
        view,
        relevant=tuple(map(turn, view.relevant)),
        external=tuple(map(turn, view.external)),
        collusion=replace(view.collusion, relevant=view.collusion.relevant[::-1]),
    )
    return GameSet((moved,), game.truths), _same


FORMS: Mapping[type, tuple[Form, ...]] = {
    Proportions: (turn_clients, rename_clients, send_changes, permute_classes_of_updates),
    Reconstruction: (turn_clients, rename_clients),
    Assignment: (permute_owners, permute_classes_of_answers, turn_known_records),
}
"""By the kind of a guess; `permutes_with_the_order` tries the order of records and items."""


def keeps_its_guess_in_another_form(case: Case) -> None:
    """Guesses the same of clients and classes in another order, and of updates in another form."""
    for form in FORMS[case.world.guess]:
        game, expected = form(case.world.leaky())
        same = is_same(done(case, game).guess, expected(first(case).guess), atol=ROUNDING)
        require(same, f"its guess changes with {describe(form)}")


def relations(world: World, attack: Any) -> tuple[Property, ...]:
    """The relations that can be tried: none of an attack whose guess hangs on the seed."""
    once, again = (world.run(world.leaky(), attack, seed).guess for seed in (0, 1))
    draws = once is None or not is_same(once, again)
    return () if draws else (keeps_its_guess_in_another_form,)
