"""From settings to the challenge: one view a client, and what clients hold if it is known."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakscope import loading, objects
from leakscope.core import Challenge, Proportions, UpdateView
from leakscope.errors import SpecError, did_you_mean
from leakscope.federation import Transcript
from leakscope.sections import UpdatesSpec


@dataclass(frozen=True, slots=True)
class Question:
    """A challenge, and what the auditor knows besides."""

    challenge: Challenge[Sequence[UpdateView], Sequence[Proportions] | None]
    federation: str
    """Its name."""
    clients: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...] | None
    """Their records by class; None if nobody said."""
    class_names: tuple[str, ...]
    digest: str
    """Of all that an attack sees."""


def question(spec: UpdatesSpec, folder: Path) -> Question:
    """The question that settings ask.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        LeakscopeError: the transcript, the records or the network cannot be used, or the counts
            are not those of all clients.
    """
    transcript = Transcript.open(folder / spec.transcript)
    reference = loading.records_of(spec.reference, spec.label, folder)
    network = objects.named(spec.network, folder)
    everybody = _everybody(transcript)
    clients = spec.clients or everybody
    for client in clients:
        if client not in everybody:
            hint = did_you_mean(client, everybody)
            raise SpecError(f"expected a client of the transcript, got {client!r}: {hint}")
    counts = _counts(spec, clients)
    views = tuple(transcript.view(client, network, reference) for client in clients)
    truth = None
    if counts is not None:
        truth = tuple(Proportions.of(np.array(row)) for row in counts)
    return Question(
        Challenge(views, truth),
        transcript.header.name,
        clients,
        counts,
        spec.class_names,
        _digest(transcript, views, counts),
    )


def _everybody(transcript: Transcript) -> tuple[str, ...]:
    """All clients that ever took part, in the order of their first round; numbers by size."""
    rounds = range(len(transcript.rounds))
    names = dict.fromkeys(client for k in rounds for client in transcript.clients(k))
    if all(name.isdecimal() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(names)


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


def _digest(
    transcript: Transcript,
    views: Sequence[UpdateView],
    counts: tuple[tuple[int, ...], ...] | None,
) -> str:
    digest = hashlib.blake2b(repr((transcript.header, counts)).encode(), digest_size=16)
    for played in transcript.rounds:
        digest.update(repr((played.number, played.training, sorted(played.received))).encode())
        for name, array in played.sent.items():
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    reference = views[0].reference
    assert reference is not None
    digest.update(np.ascontiguousarray(reference.x).tobytes() + reference.y.tobytes())
    digest.update(repr([view.victim for view in views]).encode())
    return digest.hexdigest()
