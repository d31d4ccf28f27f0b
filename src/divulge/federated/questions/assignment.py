"""From ``[assignment]`` to the question which client trained on each record."""

from functools import partial
from pathlib import Path

import numpy as np

from divulge import auditing
from divulge.federated import blind
from divulge.federated.questions.question import Question, digest
from divulge.federated.subjects.assignment import TrainedOn
from divulge.federation import answer_files
from divulge.sections import AssignmentSpec


def question(spec: AssignmentSpec, folder: Path) -> Question:
    """The question that settings ask.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: a table or the truth cannot be used.
    """
    files = {name: folder / path for name, path in spec.predictions.items()}
    view = answer_files.read(
        files,
        spec.colluder,
        probabilities=spec.probabilities,
        label=spec.label,
        output=spec.output,
    )
    truth = None
    if spec.truth is not None:
        truth = answer_files.owners(folder / spec.truth, tuple(files), view)
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
        partial(auditing.run_on_federation, view, subject.measure),
        digest(repr(subject), *asked, *labels, known.relevant),
        blind=partial(blind.on_answers, view, subject),
    )
