"""Pose what clients hold, as ``[updates]`` describes it."""

from collections.abc import Sequence
from pathlib import Path

from divulge._util import imports
from divulge._util.digest import digest
from divulge.core import CompositionFacts, UpdateView
from divulge.data import records
from divulge.errors import SpecError
from divulge.federation import Transcript
from divulge.federation.transcript.consistency import refuse_misread_updates
from divulge.federation.transcript.finite import find_broken_rounds, refuse_equal_updates
from divulge.secrets.base import FederationChallenge
from divulge.secrets.composition import CompositionSecret, UpdatesSpec
from divulge.secrets.posing.transcripts import check_network, choose_clients, count_summed


def pose(
    spec: UpdatesSpec, folder: Path
) -> FederationChallenge[CompositionFacts, tuple[UpdateView, ...]]:
    """The challenge; see `FederatedSecret.pose`."""
    transcript = Transcript.open(folder / spec.transcript)
    reference = records.load_records(spec.reference, spec.label, folder)
    network = imports.load_object(spec.network, folder)
    clients = choose_clients(transcript, spec.clients)
    refuse_equal_updates(transcript.rounds, clients)
    refuse_misread_updates(transcript.rounds, transcript.header.rule)
    broken = find_broken_rounds(transcript.rounds, clients, need_records=True)
    clients = tuple(client for client in clients if client not in broken.unusable)
    counts = _counts(spec, clients)
    _check_lengths(spec, check_network(transcript, network, reference, "updates.reference"))
    views = tuple(transcript.view(c, network, reference, broken.of(c)) for c in clients)
    name, notes = transcript.header.name, broken.notes
    sums = count_summed(transcript)
    facts = CompositionFacts(name, clients, counts, spec.class_names, notes, sums)
    facts.truth  # noqa: B018 - refuses a client without records
    text = repr((transcript.header, transcript.entries(), clients, counts))
    return FederationChallenge(
        views, CompositionSecret(facts), digest(text, reference.x, reference.y)
    )


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


def _check_lengths(spec: UpdatesSpec, classes: int) -> None:
    """Refuse counts and names that are not one a class.

    Raises:
        SpecError: there are more or fewer than classes, or a name is there twice.
    """
    names = spec.class_names
    if names and len(set(names)) != classes:
        raise SpecError(
            f"expected {classes} different updates.class_names, got {', '.join(names[:20])}: give "
            "one a class that the network tells apart, in order"
        )
    for client, row in spec.counts.items():
        if len(row) != classes:
            raise SpecError(
                f"expected {classes} numbers in updates.counts of client {client!r}, got "
                f"{len(row)}: give one a class that the network tells apart, 0 where it has none"
            )
