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
    asked: LeaveOneOutDesign,
    k: int,
    matrix: training.RowMatrix,
    subsets: Subsets,
    path: Path,
    stored: bool,  # noqa: FBT001
) -> Audit:
    """An ordinary audit of one model against others."""
    head, records, others = asked.head, asked.queries[0], asked.others(k)
    answers = answers_of(asked, k, path)
    asking.check_classes(records, answers[: len(records)], asked.class_names)
    view = view_target(asked, k, answers, matrix, subsets)
    candidates, people = Candidates(subsets[k], records.stratum, asked.index, asked.ids), None
    claim = facts.promised_claim(asked.shadows, records, int(subsets[k].sum()))
    most = count_most_records(records)
    claim, doubts = claim_for_people(claim, most)
    if (person := records.people) is not None:
        candidates = keep_one_a_person(candidates, person)
        people = describe_people(candidates, most, asked.person_scores)
    game = Game(view, Membership(candidates.member, "coins"))
    known = facts.AuditorKnowledge(
        answers[: len(records)],
        asked.shadows,
        class_names=asked.class_names,
        claim=claim,
        copies=head.facts.copies,
        further=doubts,
        people=people,
    )
    seed = int(stream(head.seed, "target", k).integers(2**31))
    challenge = MembershipChallenge(
        game,
        facts.describe_facts(game, known, seed, asked.delta),
        candidates,
        digest=f"{head.challenge}-{k}-{asked.delta!r}",
        compared=repr(others),
    )
    name = f"{head.name}, target {k} of {head.facts.targets}"
    settings: dict[str, JSON] = {"leave_one_out": {"target": k, "shadows": others}}
    run = _open_target(result.target_folder(path, k)) if stored else None
    found = runner.run_audit(challenge, asked.attacks, RunHeading(name, seed, settings), run)
    assert isinstance(found, Audit)
    return found


def answers_of(
    asked: LeaveOneOutDesign, k: int, path: Path
) -> Float64[np.ndarray, "queries classes"]:
    """What target k answers about all queries, as the folder has it.

    Raises:
        StoreError: it is damaged.
    """
    place = result.target_folder(path, k) / ANSWERS
    return _read_predictions(place, sum(map(len, asked.queries)))


def view_target(
    asked: LeaveOneOutDesign,
    k: int,
    answers: Float64[np.ndarray, "queries classes"],
    matrix: training.RowMatrix,
    subsets: Subsets,
) -> ModelView:
    """The attacker's view on one target, with the others as its shadows."""
    records, others = asked.queries[0], asked.others(k)
    further = asked.queries[1 : len(asked.queries) - asked.reference]
    reference = asked.queries[-1] if asked.reference else None
    output: Output = "values" if records.regression else "probabilities"
    defence, allowed = asked.shadows.answers, access_of(output)
    recorded = RecordedTarget(
        asked.queries, answers, allowed if defence is None else defence.offers(allowed)
    )
    view = ModelView(recorded, records, reference, augmented=further)
    shadows = training.as_shadows(view, asked.shadows, matrix[others], subsets[others])
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
