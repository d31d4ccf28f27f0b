"""Pose who trained on what, as ``[assignment]`` describes it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from divulge._util import imports
from divulge._util.digest import digest
from divulge.core import Assignment, AssignmentFacts, Collusion, FederationView
from divulge.data import records
from divulge.data.encoding import refuse_encoded
from divulge.federation import Transcript, TranscriptUpdates, prediction_tables
from divulge.federation.transcript.consistency import refuse_misread_updates
from divulge.federation.transcript.finite import (
    UsableRounds,
    find_broken_rounds,
    refuse_equal_updates,
)
from divulge.secrets.assignment import (
    AssignmentSecret,
    AssignmentSpec,
    describe_assignment,
)
from divulge.secrets.base import FederationChallenge
from divulge.secrets.posing.transcripts import check_network, choose_clients
from divulge.targets import files

Challenge = FederationChallenge[AssignmentFacts, FederationView]


def pose(spec: AssignmentSpec, folder: Path) -> Challenge:
    """The challenge; see `FederatedSecret.pose`."""
    if spec.transcript is None:
        return _pose_tables(spec, folder)
    return _pose_recorded(spec, spec.transcript, folder)


def _pose_recorded(spec: AssignmentSpec, recorded: str, folder: Path) -> Challenge:
    assert spec.network is not None
    assert spec.candidates is not None
    assert spec.external is not None
    transcript = Transcript.open(folder / recorded)
    names = [spec.candidates, spec.external]
    candidates, external = records.load_record_sets(names, spec.label, folder)
    for part in (candidates, external):
        refuse_encoded(part, "a federation")
    clients = choose_clients(transcript, ())
    refuse_equal_updates(transcript.rounds, clients)
    refuse_misread_updates(transcript.rounds, transcript.header.rule)
    broken = find_broken_rounds(transcript.rounds, clients)
    usable = tuple(client for client in clients if client not in broken.unusable)
    rounds, notes = UsableRounds(transcript.rounds, broken), broken.notes
    made = imports.load_object(spec.network, folder)
    for part, key in ((candidates, "candidates"), (external, "external")):
        check_network(transcript, made, part, f"assignment.{key}")
    updates = TranscriptUpdates(rounds, usable, made)
    view = FederationView(
        updates.models(),
        candidates,
        (candidates,) * len(usable),
        (external,) * len(usable),
        Collusion.none(len(candidates)),
        updates,
    )
    truth = None
    if spec.truth is not None:
        participants = (*usable, *(client for client in clients if client in broken.unusable))
        owner = prediction_tables.read_owners(folder / spec.truth, participants, view).client
        view, truth = _leave_out(view, owner)
        if gone := len(candidates) - len(view.records):
            notes += (f"The {gone} candidates of clients without a usable round are left out.",)
    facts = describe_assignment(view, usable, truth, len(rounds), notes)
    network = files.fingerprint_code(spec.network, folder)
    text = repr((transcript.header, transcript.entries(), facts, network))
    arrays = [array for part in (candidates, external) for array in (part.x, part.y)]
    return FederationChallenge(view, AssignmentSecret(facts), digest(text, *arrays))


def _leave_out(
    view: FederationView, owner: Int64[np.ndarray, " records"]
) -> tuple[FederationView, Assignment]:
    """The view and the truth without candidates of clients that are not in the view."""
    there = owner < len(view.targets)
    left = view.records.take(np.flatnonzero(there))
    relevant, collusion = (left,) * len(view.targets), Collusion.none(len(left))
    less = replace(view, records=left, relevant=relevant, collusion=collusion)
    return less, Assignment(owner[there])


def _pose_tables(spec: AssignmentSpec, folder: Path) -> Challenge:
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
    content = digest(repr(facts), *predictions, *labels, view.collusion.relevant)
    return FederationChallenge(view, AssignmentSecret(facts), content)
