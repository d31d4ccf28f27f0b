"""Pose the challenges that sections of an ``audit.toml`` about a federation describe."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from divulge._util import imports
from divulge._util.digest import digest
from divulge.audits import inputs
from divulge.audits.challenges.base import Challenge
from divulge.audits.challenges.federation import (
    AssignmentChallenge,
    CompositionChallenge,
    InteractionChallenge,
    describe_assignment,
)
from divulge.audits.config import (
    AssignmentSpec,
    FederationAuditSpec,
    InteractionsSpec,
    UpdatesSpec,
)
from divulge.core import (
    Assignment,
    Collusion,
    CompositionFacts,
    FederationView,
    InteractionFacts,
    Records,
    Target,
)
from divulge.data import interactions, records
from divulge.data.encoding import refuse_encoded
from divulge.errors import DataError, SpecError, StoreError, did_you_mean
from divulge.federation import Transcript, TranscriptUpdates, prediction_tables
from divulge.federation.transcript import impressions
from divulge.federation.transcript.finite import (
    UsableRounds,
    client_note,
    find_broken_rounds,
    is_finite,
    refuse_none_left,
)
from divulge.federation.transcript.impressions import ClientImpressions


def pose(settings: FederationAuditSpec, folder: Path) -> Challenge:
    """The challenge that settings describe.

    Args:
        settings: of a federation.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: the transcript, the tables, the records, the network or the truth cannot be
            used.
    """
    if settings.updates is not None:
        return _pose_composition(settings.updates, folder)
    if settings.interactions is not None:
        return _pose_interactions(settings.interactions, folder)
    assert settings.assignment is not None  # one of the three is there
    if settings.assignment.transcript is not None:
        return _pose_recorded_assignment(settings.assignment, folder)
    return _pose_told_assignment(settings.assignment, folder)


def _pose_composition(spec: UpdatesSpec, folder: Path) -> CompositionChallenge:
    transcript = Transcript.open(folder / spec.transcript)
    reference = records.load_records(spec.reference, spec.label, folder)
    network = imports.load_object(spec.network, folder)
    clients = _choose_clients(transcript, spec.clients)
    broken = find_broken_rounds(transcript.rounds, clients, need_records=True)
    clients = tuple(client for client in clients if client not in broken.unusable)
    counts = _counts(spec, clients)
    views = tuple(transcript.view(c, network, reference, broken.of(c)) for c in clients)
    name, notes = transcript.header.name, broken.notes
    facts = CompositionFacts(name, clients, counts, spec.class_names, notes)
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


def _pose_interactions(spec: InteractionsSpec, folder: Path) -> InteractionChallenge:
    transcript = Transcript.open(folder / spec.transcript)
    learner = imports.load_object(spec.learner, folder) if spec.learner else None
    clients, unshown = _shown_clients(transcript, spec.clients)
    found, clients, notes = _finite(impressions.client_views(transcript, clients, learner))
    notes += unshown
    truth = None if spec.truth is None else _truth(folder / spec.truth, transcript, clients, found)
    items = tuple(len(one.item) for one in found)
    facts = InteractionFacts(transcript.header.name, clients, items, truth, notes)
    text = repr((transcript.header, transcript.entries(), facts, spec.learner))
    return InteractionChallenge(
        tuple(one.view for one in found),
        facts,
        digest(f"{text} {inputs.fingerprint_of(spec.learner, folder)}"),
    )


def _shown_clients(
    transcript: Transcript, asked: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The clients asked for, or all that were shown items, and what is said of the others."""
    clients = _choose_clients(transcript, asked)
    entries = transcript.entries()
    shown = {c for entry in entries for c in entry.handed if c in entry.clients}
    if asked or not shown:
        return clients, ()
    notes = (
        f"Client {client} was handed no items, so nothing is said about it."
        for client in clients
        if client not in shown
    )
    return tuple(client for client in clients if client in shown), tuple(notes)


def _finite(
    found: Sequence[ClientImpressions],
) -> tuple[tuple[ClientImpressions, ...], tuple[str, ...], tuple[str, ...]]:
    """Those whose tensors are finite, their clients, and what is said of the others.

    Raises:
        DataError: none is left.
    """
    broken = {}
    for one in found:
        (played,) = one.view.rounds
        got = played.received.get(one.view.victim)
        if not is_finite(played.sent) or (got is not None and not is_finite(got.tensors)):
            broken[one.view.victim] = client_note(one.view.victim, {played.number}, unusable=True)
    refuse_none_left([one.view.victim for one in found], frozenset(broken))
    kept = tuple(one for one in found if one.view.victim not in broken)
    return kept, tuple(one.view.victim for one in kept), tuple(broken.values())


def _truth(
    path: Path, transcript: Transcript, clients: Sequence[str], found: Sequence[ClientImpressions]
) -> tuple[tuple[int, ...], ...]:
    """By client, the places of items acted on among those handed out.

    Raises:
        DataError: the file is about clients who never took part, or about items not handed out.
    """
    pairs = interactions.read_interactions(path)
    if strangers := set(pairs) - set(_choose_clients(transcript, ())):
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


def _pose_recorded_assignment(spec: AssignmentSpec, folder: Path) -> AssignmentChallenge:
    assert spec.transcript is not None
    assert spec.network is not None
    assert spec.candidates is not None
    assert spec.external is not None
    transcript = Transcript.open(folder / spec.transcript)
    names = [spec.candidates, spec.external]
    candidates, external = records.load_record_sets(names, spec.label, folder)
    for part in (candidates, external):
        refuse_encoded(part, "a federation")
    clients = _choose_clients(transcript, ())
    broken = find_broken_rounds(transcript.rounds, clients)
    kept = tuple(client for client in clients if client not in broken.unusable)
    rounds, notes = UsableRounds(transcript.rounds, broken), broken.notes
    updates = TranscriptUpdates(rounds, kept, imports.load_object(spec.network, folder))
    view = FederationView(
        updates.models(),
        candidates,
        (candidates,) * len(kept),
        (external,) * len(kept),
        Collusion.none(len(candidates)),
        updates,
    )
    _check_classes(view.targets[0], candidates, external)
    truth = None
    if spec.truth is not None:
        everybody = (*kept, *(client for client in clients if client in broken.unusable))
        owner = prediction_tables.read_owners(folder / spec.truth, everybody, view).client
        view, truth = _leave_out(view, owner)
        if gone := len(candidates) - len(view.records):
            notes += (f"The {gone} candidates of clients without a usable round are left out.",)
    facts = describe_assignment(view, kept, truth, len(rounds), notes)
    network = inputs.fingerprint_of(spec.network, folder)
    text = repr((transcript.header, transcript.entries(), facts, network))
    arrays = [part for one in (candidates, external) for part in (one.x, one.y)]
    return AssignmentChallenge(view, facts, digest(text, *arrays))


def _check_classes(target: Target, candidates: Records, external: Records) -> None:
    """Refuse records that the network cannot read, or of other classes than it tells apart.

    Raises:
        TargetError: it cannot read them.
        DataError: there are other classes.
    """
    for part, name in ((candidates, "candidates"), (external, "external")):
        classes = target.predict(part.x[:1]).shape[1]
        if len(part) and part.y.max() >= classes:
            raise DataError(
                f"expected classes below {classes} in assignment.{name}, got {part.y.max()}: "
                "number them as the clients did"
            )


def _leave_out(
    view: FederationView, owner: Int64[np.ndarray, " records"]
) -> tuple[FederationView, Assignment]:
    """The view and the truth without candidates of clients that are not in the view."""
    there = owner < len(view.targets)
    left = view.records.take(np.flatnonzero(there))
    relevant, collusion = (left,) * len(view.targets), Collusion.none(len(left))
    less = replace(view, records=left, relevant=relevant, collusion=collusion)
    return less, Assignment(owner[there])


def _pose_told_assignment(spec: AssignmentSpec, folder: Path) -> AssignmentChallenge:
    assert spec.colluder is not None
    files = {name: folder / path for name, path in spec.predictions.items()}
    view = prediction_tables.read(
        files,
        spec.colluder,
        probabilities=spec.probabilities,
        label=spec.label,
        output=spec.output,
    )
    truth = None
    if spec.truth is not None:
        truth = prediction_tables.read_owners(folder / spec.truth, tuple(files), view)
    facts = describe_assignment(view, tuple(files), truth)
    predictions = [
        target.predict(np.arange(len(view.records) + len(relevant) + len(external)))
        for target, relevant, external in zip(
            view.targets, view.relevant, view.external, strict=True
        )
    ]
    labels = [part.y for part in (view.records, *view.relevant, *view.external)]
    return AssignmentChallenge(
        view, facts, digest(repr(facts), *predictions, *labels, view.collusion.relevant)
    )


def _choose_clients(transcript: Transcript, asked: Sequence[str]) -> tuple[str, ...]:
    """The clients asked for; without any, all that ever took part.

    They come in the order of their first round; if their names are numbers, by size.

    Raises:
        SpecError: one of them never took part.
        StoreError: there are no rounds.
    """
    rounds = range(len(transcript.rounds))
    everybody = tuple(dict.fromkeys(c for k in rounds for c in transcript.clients(k)))
    if all(name.isdecimal() for name in everybody):
        everybody = tuple(sorted(everybody, key=int))
    if not everybody:
        raise StoreError("expected a transcript with rounds, got one without: record some first")
    for client in asked:
        if client not in everybody:
            hint = did_you_mean(client, everybody)
            raise SpecError(f"expected a client of the transcript, got {client!r}: {hint}")
    return tuple(asked) or everybody
