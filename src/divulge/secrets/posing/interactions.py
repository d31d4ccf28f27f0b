"""Pose what clients acted on, as ``[interactions]`` describes it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from divulge._util import imports
from divulge._util.digest import digest
from divulge.core import InteractionFacts, UpdateView
from divulge.data import interactions
from divulge.errors import DataError
from divulge.federation import Transcript
from divulge.federation.transcript import impressions
from divulge.federation.transcript.consistency import refuse_misread_updates
from divulge.federation.transcript.finite import (
    client_note,
    is_finite,
    refuse_equal_updates,
    refuse_none_left,
)
from divulge.federation.transcript.impressions import ClientImpressions
from divulge.secrets.base import FederationChallenge
from divulge.secrets.interactions import InteractionSecret, InteractionsSpec
from divulge.secrets.posing.transcripts import choose_clients, count_summed
from divulge.targets import files


def pose(
    spec: InteractionsSpec, folder: Path
) -> FederationChallenge[InteractionFacts, tuple[UpdateView, ...]]:
    """The challenge; see `FederatedSecret.pose`."""
    transcript = Transcript.open(folder / spec.transcript)
    learner = imports.load_object(spec.learner, folder) if spec.learner else None
    clients, unshown = _shown_clients(transcript, spec.clients)
    refuse_equal_updates(transcript.rounds, clients)
    refuse_misread_updates(transcript.rounds, transcript.header.rule)
    shown, clients, notes = _finite(impressions.client_views(transcript, clients, learner))
    notes += unshown
    truth = None if spec.truth is None else _truth(folder / spec.truth, transcript, clients, shown)
    items = tuple(len(client.item) for client in shown)
    sums = count_summed(transcript)
    facts = InteractionFacts(transcript.header.name, clients, items, truth, notes, sums)
    text = repr((transcript.header, transcript.entries(), facts, spec.learner))
    code = files.fingerprint_code(spec.learner, folder)
    return FederationChallenge(
        tuple(client.view for client in shown), InteractionSecret(facts), digest(f"{text} {code}")
    )


def _shown_clients(
    transcript: Transcript, wanted: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The clients that settings name, or all that were shown items; and notes on the others."""
    clients = choose_clients(transcript, wanted)
    entries = transcript.entries()
    shown = {c for entry in entries for c in entry.handed if c in entry.clients}
    if wanted or not shown:
        return clients, ()
    notes = (
        f"Client {client} was handed no items, so nothing is said about it."
        for client in clients
        if client not in shown
    )
    return tuple(client for client in clients if client in shown), tuple(notes)


def _finite(
    shown: Sequence[ClientImpressions],
) -> tuple[tuple[ClientImpressions, ...], tuple[str, ...], tuple[str, ...]]:
    """Those whose tensors are finite, their clients, and notes on the others.

    Raises:
        DataError: none is left.
    """
    broken = {}
    for view in (client.view for client in shown):
        (played,) = view.rounds
        got = played.received.get(view.victim)
        if not is_finite(played.sent) or (got is not None and not is_finite(got.tensors)):
            broken[view.victim] = client_note(view.victim, {played.number}, unusable=True)
    refuse_none_left([client.view.victim for client in shown], frozenset(broken))
    usable = tuple(client for client in shown if client.view.victim not in broken)
    return usable, tuple(client.view.victim for client in usable), tuple(broken.values())


def _truth(
    path: Path, transcript: Transcript, clients: Sequence[str], shown: Sequence[ClientImpressions]
) -> tuple[tuple[int, ...], ...]:
    """By client, the places of items acted on among those handed out.

    Raises:
        DataError: the file is about clients who never took part, or about items not handed out.
    """
    pairs = interactions.read_interactions(path)
    if strangers := set(pairs) - set(choose_clients(transcript, ())):
        raise DataError(
            f"expected clients of the transcript in {path}, got {min(strangers)!r}: name clients "
            "as it does"
        )
    places = []
    for client, items_shown in zip(clients, shown, strict=True):
        items = pairs.get(client, np.zeros(0, np.int64))
        if missing := set(items.tolist()) - set(items_shown.item.tolist()):
            raise DataError(
                f"expected items that client {client!r} was handed in {path}, got {min(missing)}: "
                "number items as the transcript does, and leave out those of other rounds"
            )
        places.append(tuple(np.flatnonzero(np.isin(items_shown.item, items)).tolist()))
    return tuple(places)
