"""Interactions: which of the items shown to them clients acted on."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from divulge._util.progress import Track, track_silently
from divulge._util.toml import Section
from divulge.core import (
    Entry,
    InteractionFacts,
    Measurements,
    Reconstruction,
    UpdateView,
)
from divulge.metrics import interactions
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.uninformed.interactions import BeyondPublic, SimulatedClicks
from divulge.secrets.base import Controls, FederatedSecret, decode_all, unmeasured


class InteractionsSpec(Section):
    """``[interactions]``: what clients did with items that the server handed out to them."""

    transcript: str
    """Folder of the [transcript](reference/transcript.md), with [what was handed
    out](reference/transcript.md#items-that-were-handed-out)."""
    learner: str | None = None
    """``file.py:name``: a function from what a client was handed, arrays by name, to how it trains;
    not needed where updates have a row for each item, but [the
    control](federation-audits.md#controls) is closer to the real thing with it."""
    clients: tuple[str, ...] = ()
    """Whom to attack; everybody, unless given."""
    truth: str | None = None
    """Where it is known: a ``.csv`` file with the columns ``client`` and ``item``, a line for each
    item acted on."""


class InteractionSecret(FederatedSecret[InteractionFacts, tuple[UpdateView, ...]]):
    """Which items clients interacted with."""

    __slots__ = ()
    kind: ClassVar = "interactions"
    guess: ClassVar = Reconstruction
    question: ClassVar = "Which items did a user interact with?"
    risk: ClassVar = "Can the server of a federation find out what its users clicked or bought?"
    task: ClassVar = "Inference of interactions"
    gated: ClassVar = interactions.METRICS
    lead: ClassVar = "auc"
    section: ClassVar = "interactions"
    usual: ClassVar = ("raifle", "random-interactions")

    @property
    def items(self) -> Sequence[int]:
        """How many items each client was shown."""
        return self.facts.items

    def control(
        self, view: Any, attack: Any, guess: Any, seed: int, track: Track[Any] = track_silently
    ) -> Controls:
        """The attack on updates of shuffled clicks, held against the real ones."""
        # reading a run needs none of these
        from divulge._util.contents import quote_error
        from divulge.secrets.blind import interactions as blind
        from divulge.secrets.blind import simulated_clicks
        from divulge.secrets.controls import not_tested

        if self.facts.truth is None:
            try:
                simulated = simulated_clicks.attack_simulated_clicks(
                    view, self, attack, guess, seed, track
                )
            except Exception as error:  # the learner is the user's own code
                why = f"no client could be simulated: {quote_error(error)}"
                return Controls(blind=not_tested(why))
            return Controls(arrays={} if simulated is None else encode_simulated(simulated))
        run, aucs = blind.control_on_interactions(view, self, attack, seed, track)
        left = blind.correlate_beyond_public(guess, self.facts.truth, view, seed)
        return Controls(blind=run, arrays=encode_beyond(BeyondPublic(left, aucs)))

    def _extras(self, entries: Sequence[Entry]) -> Mapping[str, Any]:
        decode = partial(decode_beyond, clients=len(self.facts.clients))
        simulated = partial(decode_simulated, clients=len(self.facts.clients))
        return {
            "beyond": tuple(decode_all(entries, decode)),
            "simulated": tuple(decode_all(entries, simulated)),
        }

    def measure(
        self, guess: Sequence[Reconstruction], confidence: float = CONFIDENCE
    ) -> Measurements:
        """Metrics over clients."""
        truth = self.facts.truth
        if truth is None:
            return unmeasured(interactions.METRICS, "the true interactions are unknown")
        return interactions.measure(guess, truth, confidence)

    def encode(self, guess: Sequence[Reconstruction]) -> Mapping[str, np.ndarray]:
        """Scores and decisions of items, one client after another."""
        return {
            "likely": np.concatenate([client.score for client in guess]),
            "decided": np.concatenate([client.decided for client in guess]),
        }

    def decode(self, arrays: Mapping[str, np.ndarray]) -> tuple[Reconstruction, ...]:
        """Scores and decisions by client.

        Raises:
            ValueError: there are more or fewer than items, or other things than scores and
                decisions.
        """
        if arrays["likely"].dtype.kind != "f" or arrays["decided"].dtype.kind != "b":
            raise ValueError("scores that are no numbers, or decisions that are no truth values")
        ends = np.cumsum(self.facts.items)
        parts = (np.split(arrays[name], ends) for name in ("likely", "decided"))
        *guesses, rest = map(Reconstruction, *parts)
        if len(rest.score) or len(guesses[-1].score) != self.facts.items[-1]:
            raise ValueError(f"not a score for each of {ends[-1]} items")
        return tuple(guesses)


def encode_beyond(beyond: BeyondPublic) -> dict[str, np.ndarray]:
    """What a guess of interactions owes to nothing public, as arrays of one dimension by name."""
    arrays = {"correlation": beyond.correlation, "shuffled": beyond.shuffled}
    return {name: array for name, array in arrays.items() if array is not None}


def decode_beyond(arrays: Mapping[str, np.ndarray], clients: int) -> BeyondPublic | None:
    """What `encode_beyond` made into arrays; None if there is none, as in earlier runs.

    Args:
        arrays: of a finding.
        clients: the number of clients.

    Raises:
        ValueError: there are more or fewer numbers than clients, or some that are not finite.
    """
    if "correlation" not in arrays:
        return None
    _check_numbers(arrays, ("correlation", "shuffled"), clients)
    return BeyondPublic(arrays["correlation"], arrays.get("shuffled"))


def encode_simulated(simulated: SimulatedClicks) -> dict[str, np.ndarray]:
    """How an attack does on simulated twins, as arrays of one dimension by name."""
    return {"twin_auc": simulated.auc, "twin_longer": simulated.longer}


def decode_simulated(arrays: Mapping[str, np.ndarray], clients: int) -> SimulatedClicks | None:
    """What `encode_simulated` made into arrays; None if there are no twins.

    Args:
        arrays: of a finding.
        clients: the number of clients.

    Raises:
        ValueError: there are more or fewer numbers than clients, or some that are not finite.
    """
    if "twin_auc" not in arrays:
        return None
    _check_numbers(arrays, ("twin_auc", "twin_longer"), clients)
    return SimulatedClicks(arrays["twin_auc"], arrays["twin_longer"])


def _check_numbers(arrays: Mapping[str, np.ndarray], names: Sequence[str], clients: int) -> None:
    for name in names:
        array = arrays.get(name)
        if array is None:
            continue
        if array.shape != (clients,) or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"not a finite number for each of {clients} clients as {name}")
