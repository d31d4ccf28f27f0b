"""Interactions: from ``[interactions]`` to the challenge what each client clicked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from divulge._util import imports
from divulge._util.digest import digest
from divulge._util.progress import Track, track_silently
from divulge.audits import attempt, inputs
from divulge.audits.attempt import AttackResult
from divulge.audits.challenges import blind, images
from divulge.audits.challenges.base import Controls, FederationChallenge, clients_under_attack
from divulge.audits.config import InteractionsSpec
from divulge.audits.secrets import InteractionSecret
from divulge.core import InteractionAttack, InteractionFacts, Reconstruction, UpdateView
from divulge.data import interactions
from divulge.errors import DataError
from divulge.federation import Transcript
from divulge.federation.transcript import impressions
from divulge.federation.transcript.impressions import ClientImpressions


@dataclass(frozen=True, slots=True)
class InteractionChallenge(FederationChallenge):
    """What the server of a federation has against each client that was shown items."""

    transcript: Transcript
    views: tuple[UpdateView, ...]
    facts: InteractionFacts
    digest: str

    def attempt(
        self, attack: InteractionAttack, seed: int, track: Track[Any] = track_silently
    ) -> AttackResult:
        """One attack on every client."""
        measure = InteractionSecret(self.facts).measure
        return attempt.run_on_clients(self.views, measure, attack, seed, track)

    def control(
        self,
        attack: InteractionAttack,
        guess: Sequence[Reconstruction],
        seed: int,
        track: Track[Any] = track_silently,
    ) -> Controls:
        """The attack on updates of shuffled clicks, held against the real ones."""
        del guess
        return Controls(
            blind=blind.control_on_interactions(self.views, self.facts, attack, seed, track)
        )

    def pictures(self) -> Mapping[str, bytes]:
        """Contact sheets of the images that the first clients were shown.

        Raises:
            SpecError: the transcript has no images, or no originals.
        """
        return images.draw_sheets(self.transcript, self.facts.clients)


def pose(spec: InteractionsSpec, folder: Path) -> InteractionChallenge:
    """The challenge that settings describe.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: the transcript or the learner cannot be used, or the truth is about other
            clients or items.
    """
    transcript = Transcript.open(folder / spec.transcript)
    learner = imports.load_object(spec.learner, folder) if spec.learner else None
    clients = clients_under_attack(transcript, spec.clients)
    found = impressions.client_views(transcript, clients, learner)
    truth = None if spec.truth is None else _truth(folder / spec.truth, transcript, clients, found)
    items = tuple(len(one.item) for one in found)
    facts = InteractionFacts(transcript.header.name, clients, items, truth)
    text = repr((transcript.header, transcript.entries(), facts, spec.learner))
    return InteractionChallenge(
        transcript,
        tuple(one.view for one in found),
        facts,
        digest(f"{text} {inputs.fingerprint_of(spec.learner, folder)}"),
    )


def _truth(
    path: Path, transcript: Transcript, clients: Sequence[str], found: Sequence[ClientImpressions]
) -> tuple[tuple[int, ...], ...]:
    """By client, the places of items acted on among those handed out.

    Raises:
        DataError: the file is about clients who never took part, or about items not handed out.
    """
    pairs = interactions.read_interactions(path)
    if strangers := set(pairs) - set(clients_under_attack(transcript, ())):
        raise DataError(
            f"expected clients of the transcript in {path}, got {min(strangers)!r}: name clients "
            "as it does"
        )
    places = []
    for client, one in zip(clients, found, strict=True):
        items = pairs.get(client, np.zeros(0, np.int64))
        if missing := set(items.tolist()) - set(one.item.tolist()):
            raise DataError(
                f"expected items that client {client!r} was handed in {path}, got {min(missing)}: "
                "number items as the transcript does, and leave out those of other rounds"
            )
        places.append(tuple(np.flatnonzero(np.isin(one.item, items)).tolist()))
    return tuple(places)
