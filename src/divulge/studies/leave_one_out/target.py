"""One model of a fleet as the target of an ordinary audit, with others as its shadows."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util import atomic
from divulge._util.json import JSON
from divulge._util.random import stream
from divulge.audits import runner
from divulge.audits.challenges import asking, facts
from divulge.audits.challenges.model import MembershipChallenge
from divulge.audits.people import (
    claim_for_people,
    count_most_records,
    describe_people,
    keep_one_a_person,
)
from divulge.audits.result import Audit
from divulge.audits.runner import RunHeading
from divulge.checks.question import SeenAnswers
from divulge.core import Candidates, Game, Membership, ModelView
from divulge.finished_runs.run_folder import Run
from divulge.studies.leave_one_out import result
from divulge.studies.leave_one_out.design import LeaveOneOutDesign
from divulge.targets.outputs import Output, access_of
from divulge.targets.recorded import RecordedTarget
from divulge.training.shadows import train as training

ANSWERS = "answers.npy"

Subsets = Bool[np.ndarray, "models records"]


def audit_target(
    design: LeaveOneOutDesign,
    k: int,
    matrix: training.RowMatrix,
    subsets: Subsets,
    path: Path,
    stored: bool,  # noqa: FBT001
) -> Audit:
    """An ordinary audit of one model against others."""
    head, records, others = design.head, design.queries[0], design.others(k)
    answers = answers_of(design, k, path)
    asking.check_classes(records, answers.shape[1], design.class_names)
    view = view_target(design, k, answers, matrix, subsets)
    candidates, people = Candidates(subsets[k], records.stratum, design.index, design.ids), None
    claim = facts.promised_claim(design.shadows, records, int(subsets[k].sum()))
    most = count_most_records(records)
    claim, doubts = claim_for_people(claim, most)
    if (person := records.people) is not None:
        candidates = keep_one_a_person(candidates, person)
        people = describe_people(candidates, most, design.person_scores)
    game = Game(view, Membership(candidates.member, "coins"))
    known = facts.AuditorKnowledge(
        SeenAnswers.of(answers[: len(records)]),
        design.shadows,
        class_names=design.class_names,
        claim=claim,
        copies=head.facts.copies,
        further=doubts,
        people=people,
    )
    seed = int(stream(head.seed, "target", k).integers(2**31))
    challenge = MembershipChallenge(
        game,
        facts.describe_facts(game, known, seed, design.delta),
        candidates,
        digest=f"{head.challenge}-{k}-{design.delta!r}",
        compared=repr(others),
    )
    name = f"{head.name}, target {k} of {head.facts.targets}"
    settings: dict[str, JSON] = {"leave_one_out": {"target": k, "shadows": others}}
    run = _open_target(result.target_folder(path, k)) if stored else None
    audit = runner.run_audit(challenge, design.attacks, RunHeading(name, seed, settings), run)
    assert isinstance(audit, Audit)
    return audit


def answers_of(
    design: LeaveOneOutDesign, k: int, path: Path
) -> Float64[np.ndarray, "queries classes"]:
    """What target k answers about all queries, as the folder has it.

    Raises:
        StoreError: it is damaged.
    """
    place = result.target_folder(path, k) / ANSWERS
    return _read_predictions(place, sum(map(len, design.queries)))


def view_target(
    design: LeaveOneOutDesign,
    k: int,
    answers: Float64[np.ndarray, "queries classes"],
    matrix: training.RowMatrix,
    subsets: Subsets,
) -> ModelView:
    """The attacker's view on one target, with the others as its shadows."""
    records, others = design.queries[0], design.others(k)
    further = design.queries[1 : len(design.queries) - design.reference]
    reference = design.queries[-1] if design.reference else None
    output: Output = "values" if records.regression else "probabilities"
    defence, allowed = design.shadows.answers, access_of(output)
    recorded = RecordedTarget(
        design.queries, answers, allowed if defence is None else defence.offers(allowed)
    )
    view = ModelView(recorded, records, reference, augmented=further)
    shadows = training.as_shadows(view, design.shadows, matrix[others], subsets[others])
    return ModelView(view.target, records, reference, shadows, further)


def _open_target(path: Path) -> Run:
    with atomic.translate_os_errors(path):
        (path / "findings").mkdir(mode=0o700, exist_ok=True)
    return Run.open(path)


def _read_predictions(place: Path, size: int) -> Float64[np.ndarray, "queries classes"]:
    answers = atomic.map_array(place)
    if answers.ndim != 2 or len(answers) != size or answers.dtype != np.float64:
        raise atomic.damaged_file_error(
            place, ValueError(f"{answers.dtype} of shape {answers.shape}")
        )
    return np.asarray(answers)
