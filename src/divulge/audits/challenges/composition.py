"""Composition: from ``[updates]`` to the challenge what classes clients hold, one view a client."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from divulge._util import imports
from divulge._util.digest import digest
from divulge._util.progress import Track, track_silently
from divulge.audits import attempt
from divulge.audits.attempt import AttackResult
from divulge.audits.challenges import blind
from divulge.audits.challenges.base import Controls, FederationChallenge, clients_under_attack
from divulge.audits.config import UpdatesSpec
from divulge.audits.secrets import CompositionSecret
from divulge.core import CompositionAttack, CompositionFacts, Proportions, UpdateView
from divulge.data import records
from divulge.errors import SpecError
from divulge.federation import Transcript


@dataclass(frozen=True, slots=True)
class CompositionChallenge(FederationChallenge):
    """What the server of a federation has against each client."""

    views: tuple[UpdateView, ...]
    facts: CompositionFacts
    digest: str

    def attempt(
        self, attack: CompositionAttack, seed: int, track: Track[Any] = track_silently
    ) -> AttackResult:
        """One attack on every client."""
        measure = CompositionSecret(self.facts).measure
        return attempt.run_on_clients(self.views, measure, attack, seed, track)

    def control(
        self,
        attack: CompositionAttack,
        guess: Sequence[Proportions],
        seed: int,
        track: Track[Any] = track_silently,
    ) -> Controls:
        """The attack on exchanged updates, held against the real class shares."""
        del guess
        return Controls(blind=blind.control_on_updates(self.views, self.facts, attack, seed, track))


def pose(spec: UpdatesSpec, folder: Path) -> CompositionChallenge:
    """The challenge that settings describe.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: the transcript, the records or the network cannot be used, or the counts
            are not those of all clients.
    """
    transcript = Transcript.open(folder / spec.transcript)
    reference = records.load_records(spec.reference, spec.label, folder)
    network = imports.load_object(spec.network, folder)
    clients = clients_under_attack(transcript, spec.clients)
    counts = _counts(spec, clients)
    views = tuple(transcript.view(client, network, reference) for client in clients)
    facts = CompositionFacts(transcript.header.name, clients, counts, spec.class_names)
    facts.truth  # noqa: B018 - refuses a client without records
    text = repr((transcript.header, transcript.entries(), clients, counts))
    return CompositionChallenge(views, facts, digest(text, reference.x, reference.y))


def _counts(spec: UpdatesSpec, clients: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
    if not spec.counts:
        return None
    for client in clients:
        if client not in spec.counts:
            raise SpecError(
                f"expected counts of client {client!r} in [updates], got none: give those of all "
                "clients that are attacked, or of none"
            )
    return tuple(spec.counts[client] for client in clients)
