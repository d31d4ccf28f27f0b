"""The blind control of attacks on federations: what they see is shuffled, and the truth is not.

An attack whose guess still fits the truth knows it from elsewhere, by a bug or on purpose.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.core import (
    Assignment,
    AssignmentAttack,
    AssignmentFacts,
    BlindRun,
    CompositionAttack,
    CompositionFacts,
    ControlOutcome,
    FederationView,
    InteractionAttack,
    InteractionFacts,
    Interactions,
    Proportions,
    Reconstruction,
    RecordedUpdates,
    Records,
    Round,
    Rounds,
    RoundSignals,
    UpdateView,
)
from divulge.metrics import assignment, composition, conditional, interactions
from divulge.metrics.membership import auc
from divulge.metrics.permutation import matches_p, pairing_p, signs_p
from divulge.metrics.uninformed import interactions as uninformed
from divulge.secrets import replay
from divulge.secrets.base import FederatedSecret
from divulge.secrets.controls import judge_p, too_few
from divulge.targets.cache import record_keys
from divulge.targets.shuffled import ShuffledTarget

FEWEST = 8
"""Clients below which no pairing by chance is as rare as a false alarm: 7! is less than 10,000."""

FEWEST_ACTING = 16
"""Likewise of signs: 2¹³ is less than 10,000, and the draw of signs needs some room."""


@dataclass(frozen=True, slots=True)
class RenamedRounds:
    """Rounds whose clients go by each other's names."""

    rounds: Rounds
    names: Mapping[str, str]
    """The new name of each client that gets one."""

    def __len__(self) -> int:
        return len(self.rounds)

    def __getitem__(self, index: int, /) -> Round:
        """One round; IndexError beyond the last."""
        return self._renamed(self.rounds[index])

    def __iter__(self) -> Iterator[Round]:
        return map(self._renamed, self.rounds)

    def _renamed(self, played: Round) -> Round:
        received = {self.names.get(name, name): got for name, got in played.received.items()}
        return replace(played, received=received)


@dataclass(frozen=True, slots=True)
class ShuffledUpdates:
    """Updates that, asked about a candidate, speak of another, with that one's class."""

    updates: RecordedUpdates
    records: Records
    order: Int[np.ndarray, " records"]
    """The candidate that each candidate is answered about."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients."""
        return self.updates.clients

    def signals(self, records: Records) -> tuple[RoundSignals, ...]:
        """What each round says; other records than candidates are asked about as they are.

        Raises:
            TargetError: the network could not be made, asked or differentiated.
        """
        return self.updates.signals(self._exchange(records))

    def residuals(
        self, records: Records, layer: str | None = None
    ) -> tuple[Float64[np.ndarray, "records clients"], ...]:
        """What no update spans, likewise; errors as of the updates themselves."""
        return self.updates.residuals(self._exchange(records), layer)

    def _exchange(self, records: Records) -> Records:
        """The same records, with others in the places of candidates."""
        place = {key: row for row, key in enumerate(record_keys(self.records.x))}
        places = np.array([place.get(key, -1) for key in record_keys(records.x)])
        rows = np.flatnonzero(places >= 0)
        stands_in = self.order[places[rows]]
        x, y = records.x.copy(), records.y.copy()
        x[rows], y[rows] = self.records.x[stands_in], self.records.y[stands_in]
        return replace(records, x=x, y=y)


def control_on_updates(
    views: Sequence[UpdateView],
    secret: FederatedSecret[CompositionFacts, Any],
    attack: CompositionAttack,
    seed: int,
    track: Track[Any] = track_silently,
) -> BlindRun | None:
    """An attack on exchanged updates; None where nobody said what clients hold."""
    truths = secret.facts.truth
    if truths is None:
        return None
    if len(truths) < FEWEST:  # no guess could fail, and attacks may take long
        return _too_few(len(truths))
    finding, guesses, _ = secret.attempt(exchange_updates(views, seed), attack, seed, track)
    if guesses is None:
        return BlindRun(None, None, ControlOutcome.FAILED, finding.reason)
    return judge_shares(guesses, truths, seed)


def control_on_interactions(
    views: Sequence[UpdateView],
    secret: FederatedSecret[InteractionFacts, Any],
    attack: InteractionAttack,
    seed: int,
    track: Track[Any] = track_silently,
) -> tuple[BlindRun | None, Float64[np.ndarray, " clients"] | None]:
    """An attack on updates of shuffled clicks, and by client its AUC against the real clicks.

    The AUC is 0.5 where a client has none; without shuffled clicks there are none at all.
    Where updates cannot be made of shuffled clicks, the attack is not tested, with the reason.
    With few clients it cannot fail, but the verdict needs what it achieves there.
    """
    truths = secret.facts.truth
    if truths is None:
        return None, None
    mixed = sum(map(interactions.is_mixed, truths))
    if not mixed:
        why = "no client acted on some of its items and left others alone"
        return _not_tested(why), None
    if mixed < uninformed.FEWEST:
        return _too_few(mixed), None
    try:
        moved = replay.replay_updates(views, truths, seed)
    except Exception as error:  # the learner is the user's own code
        return _not_tested(str(error) or type(error).__name__), None
    finding, guesses, _ = secret.attempt(moved, attack, seed, track)
    if guesses is None:
        return BlindRun(None, None, ControlOutcome.FAILED, finding.reason), None
    aucs = np.array([
        auc(guess.score, truth.acted).value if interactions.is_mixed(truth) else 0.5
        for guess, truth in zip(guesses, truths, strict=True)
    ])  # fmt: skip
    run = judge_clicks(guesses, truths, views, seed)
    return run if mixed >= FEWEST_ACTING else _too_few(mixed), aucs


def control_on_predictions(
    view: FederationView,
    secret: FederatedSecret[AssignmentFacts, Any],
    attack: AssignmentAttack,
    seed: int,
    track: Track[Any] = track_silently,
) -> BlindRun | None:
    """An attack on shuffled answers; None where nobody said who trained on the candidates."""
    truth = secret.facts.truth
    if truth is None:
        return None
    if view.collusion.records.all():
        return _not_tested("all candidates are the colluding client's own")
    finding, guess, _ = secret.attempt(shuffle_predictions(view, seed), attack, seed, track)
    if guess is None:
        return BlindRun(None, None, ControlOutcome.FAILED, finding.reason)
    return judge_clients(guess, truth, view, seed)


def exchange_updates(views: Sequence[UpdateView], seed: int) -> tuple[UpdateView, ...]:
    """The views with the clients' updates shuffled among them: each has the name of one alone."""
    order = stream(seed, "shuffled updates").permutation(len(views))
    names = {views[other].victim: view.victim for view, other in zip(views, order, strict=True)}
    return tuple(
        replace(views[other], victim=view.victim, rounds=RenamedRounds(views[other].rounds, names))
        for view, other in zip(views, order, strict=True)
    )


def judge_shares(
    guesses: Sequence[Proportions], truths: Sequence[Proportions], seed: int
) -> BlindRun:
    """Guesses on exchanged updates, held against the real class shares of each client.

    p is the chance that guesses and truths that are paired at random are as near by L1.
    """
    table = np.array([
        [composition.distance(guess, truth)["l1"] for truth in truths] for guess in guesses
    ])  # fmt: skip
    p_value = pairing_p(table, stream(seed, "blind control"))
    measured = composition.measure(guesses, truths).metrics.get("l1")
    return judge_p(measured, p_value, "")


def judge_clicks(
    guesses: Sequence[Reconstruction],
    truths: Sequence[Interactions],
    views: Sequence[UpdateView],
    seed: int,
) -> BlindRun:
    """Guesses on updates of shuffled clicks, held against what each client really acted on.

    A guess may follow features that clicks follow too. So what counts is the correlation that
    these leave. p is the chance that the correlations of all clients sum up as high where
    each is as likely with the other sign: tastes that make the clicks of one client depend on each
    other do not matter, as each client counts as one.
    """
    correlation = correlate_beyond_public(guesses, truths, views, seed)
    p_value = signs_p(correlation, stream(seed, "blind control"))
    telling = int(np.count_nonzero(correlation))
    few = "" if telling >= FEWEST_ACTING else _too_few(telling).reason
    measured = interactions.measure(guesses, truths).metrics["auc"]
    return judge_p(measured, p_value, few)


def correlate_beyond_public(
    guesses: Sequence[Reconstruction],
    truths: Sequence[Interactions],
    views: Sequence[UpdateView],
    seed: int,
) -> Float64[np.ndarray, " clients"]:
    """By client, the correlation of guess and clicks that is left by what is no secret.

    Both are regressed on `replay.public_features`, by the slopes of the other clients. Clients who
    acted on all items or on none are left out of that, and have 0.
    """
    correlation = np.zeros(len(truths))
    mixed = [k for k, truth in enumerate(truths) if interactions.is_mixed(truth)]
    if mixed:
        acted = [truths[k] for k in mixed]
        correlation[mixed] = conditional.partial_correlations(
            [guesses[k].score for k in mixed],
            [truth.acted for truth in acted],
            replay.public_features([views[k] for k in mixed], acted, seed),
        )
    return correlation


def _too_few(clients: int) -> BlindRun:
    return _not_tested(f"{clients} clients are too few for this control")


def _not_tested(why: str) -> BlindRun:
    return BlindRun(None, None, ControlOutcome.NOT_TESTED, why)


def shuffle_predictions(view: FederationView, seed: int) -> FederationView:
    """The view with all models' answers shuffled among the candidates of unknown clients.

    All models shuffle alike, and so do updates. The colluding client's own records stay, as it
    knows them.
    """
    unknown = ~view.collusion.records
    targets = tuple(
        ShuffledTarget(target, (view.records,), stream(seed, "shuffled answers"), chosen=unknown)
        for target in view.targets
    )
    if view.updates is None:
        return replace(view, targets=targets)
    order = np.arange(len(unknown))
    order[unknown] = stream(seed, "shuffled answers").permutation(np.flatnonzero(unknown))
    updates = ShuffledUpdates(view.updates, view.records, order)
    return replace(view, targets=targets, updates=updates)


def judge_clients(
    guess: Assignment, truth: Assignment, view: FederationView, seed: int
) -> BlindRun:
    """A guess on shuffled answers, held against the real client of each candidate.

    The truth is permuted within classes: clients may hold other classes than each other.
    """
    unknown = ~view.collusion.records
    guessed, real = (Assignment(one.client[unknown]) for one in (guess, truth))
    label, rng = view.records.y[unknown], stream(seed, "blind control")
    p_value = matches_p(guessed.client, real.client, label, rng)
    few = too_few(real.client, label, "records of unknown clients")
    return judge_p(assignment.accuracy(guessed, real), p_value, few)
