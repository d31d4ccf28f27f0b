"""From ``[assignment]`` to the question which client trained on each record."""

from functools import partial
from pathlib import Path

import numpy as np

from divulge.audits import attempt
from divulge.audits.challenges import blind
from divulge.audits.challenges.base import Question, digest
from divulge.audits.challenges.subjects.assignment import TrainedOn
from divulge.audits.config import AssignmentSpec
from divulge.federation import prediction_tables


def question(spec: AssignmentSpec, folder: Path) -> Question:
    """The question that settings ask.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: a table or the truth cannot be used.
    """
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
        truth = prediction_tables.owners(folder / spec.truth, tuple(files), view)
    known = view.collusion
    subject = TrainedOn(
        clients=tuple(files),
        colluder=known.client,
        candidates=len(view.records),
        labels=tuple(view.records.y.tolist()),
        known=tuple(np.flatnonzero(known.records).tolist()),
        owners=None if truth is None else tuple(truth.client.tolist()),
    )
    rows = np.arange
    asked = [
        target.predict(rows(len(view.records) + len(relevant) + len(external)))
        for target, relevant, external in zip(
            view.targets, view.relevant, view.external, strict=True
        )
    ]
    labels = [part.y for part in (view.records, *view.relevant, *view.external)]
    return Question(
        subject,
        partial(attempt.run_on_federation, view, subject.measure),
        digest(repr(subject), *asked, *labels, known.relevant),
        blind=partial(blind.on_answers, view, subject),
    )
