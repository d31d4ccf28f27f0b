"""Attacks on what clients hold, on updates that are exchanged among the clients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.core import (
    BlindRun,
    CompositionAttack,
    CompositionFacts,
    ControlOutcome,
    Proportions,
    Round,
    Rounds,
    UpdateView,
)
from divulge.metrics import composition
from divulge.metrics.permutation import pairing_p
from divulge.secrets.base import FederatedSecret
from divulge.secrets.controls import judge_p, too_few_clients

FEWEST = 8
"""Clients below which no pairing by chance is as rare as a false alarm: 7! is less than 10,000."""


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
        return too_few_clients(len(truths))
    finding, guesses, _ = secret.attempt(exchange_updates(views, seed), attack, seed, track)
    if guesses is None:
        return BlindRun(None, None, ControlOutcome.FAILED, finding.reason)
    return judge_shares(guesses, truths, seed)


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
