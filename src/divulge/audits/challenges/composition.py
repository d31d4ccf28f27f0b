"""From ``[updates]`` to the question what classes clients hold: one view a client."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from divulge._util import imports
from divulge.audits import attempt
from divulge.audits.challenges import blind
from divulge.audits.challenges.base import Question, attacked, digest
from divulge.audits.challenges.subjects.composition import Composition
from divulge.audits.config import UpdatesSpec
from divulge.data import records
from divulge.errors import SpecError
from divulge.federation import Transcript


def question(spec: UpdatesSpec, folder: Path) -> Question:
    """The question that settings ask.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: the transcript, the records or the network cannot be used, or the counts
            are not those of all clients.
    """
    transcript = Transcript.open(folder / spec.transcript)
    reference = records.records_of(spec.reference, spec.label, folder)
    network = imports.named(spec.network, folder)
    clients = attacked(transcript, spec.clients)
    counts = _counts(spec, clients)
    views = tuple(transcript.view(client, network, reference) for client in clients)
    subject = Composition(transcript.header.name, clients, counts, spec.class_names)
    subject.truth  # noqa: B018 - refuses a client without records
    return Question(
        subject,
        partial(attempt.run_on_clients, views, subject.measure),
        digest(
            repr((transcript.header, transcript.entries(), clients, counts)),
            reference.x,
            reference.y,
        ),
        blind=partial(blind.on_updates, views, subject),
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
