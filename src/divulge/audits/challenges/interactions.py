"""From ``[interactions]`` to the question what clients acted on: one view a client."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from divulge._util import imports
from divulge.audits import attempt, inputs
from divulge.audits.challenges import blind, images
from divulge.audits.challenges.base import Question, attacked, digest
from divulge.audits.challenges.subjects.interactions import ActedOn
from divulge.audits.config import InteractionsSpec
from divulge.data import interactions
from divulge.errors import DataError
from divulge.federation import Transcript
from divulge.federation.transcript import impressions
from divulge.federation.transcript.impressions import Handed


def question(spec: InteractionsSpec, folder: Path) -> Question:
    """The question that settings ask.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: the transcript or the learner cannot be used, or the truth is about other
            clients or items.
    """
    transcript = Transcript.open(folder / spec.transcript)
    learner = imports.named(spec.learner, folder) if spec.learner else None
    clients = attacked(transcript, spec.clients)
    found = impressions.views(transcript, clients, learner)
    truth = None if spec.truth is None else _truth(folder / spec.truth, transcript, clients, found)
    subject = ActedOn(transcript.header.name, clients, tuple(len(h.item) for h in found), truth)
    views = tuple(one.view for one in found)
    told = (transcript.header, transcript.entries(), subject, spec.learner)
    return Question(
        subject,
        partial(attempt.run_on_clients, views, subject.measure),
        digest(f"{told!r} {inputs.fingerprint_of(spec.learner, folder)}"),
        blind=partial(blind.on_interactions, views, subject),
        records=partial(images.sheets, transcript, clients),
    )


def _truth(
    path: Path, transcript: Transcript, clients: Sequence[str], found: Sequence[Handed]
) -> tuple[tuple[int, ...], ...]:
    """By client, the places of items acted on among those handed out.

    Raises:
        DataError: the file is about clients who never took part, or about items not handed out.
    """
    pairs = interactions.read(path)
    if strangers := set(pairs) - set(attacked(transcript, ())):
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
