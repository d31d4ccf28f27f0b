"""Membership: from audit inputs to a challenge, whose slow part is asking the model and shadows.

The model is queried once for every candidate and reference record; the predictions are kept, so
that no attack queries it again.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Shaped

from divulge._util.digest import ArrayParts, digest
from divulge._util.progress import Track, track_silently
from divulge.audits.challenges import asking
from divulge.audits.challenges import facts as facts_of
from divulge.audits.challenges.drawn_candidates import DrawnCandidates, draw_candidates
from divulge.audits.challenges.model import MembershipChallenge
from divulge.audits.people import (
    count_most_records,
    describe_people,
    keep_one_a_person,
)
from divulge.audits.strata import merge_small_strata
from divulge.audits.subject import AuditInputs
from divulge.checks.contents import check_contents
from divulge.checks.difficulty import recall_ease
from divulge.checks.question import CandidateEase, SeenAnswers
from divulge.core import (
    Candidates,
    Check,
    Claim,
    Game,
    Membership,
    ModelView,
    Need,
    Records,
    Target,
    Verdict,
    stream_answers,
)
from divulge.core.people import StrataFacts
from divulge.core.tokens import as_token_target
from divulge.errors import DataError, SpecError
from divulge.metrics.difficulty_test import Ease
from divulge.targets.budget import CountingTarget
from divulge.targets.model_facts import declares_probabilities, describe_model, kind_of_model
from divulge.targets.model_parts import versions_of
from divulge.training.shadows.plan import ShadowPlan

_UNKNOWN_MODEL = (
    "The model is a function, which may read its weights from anywhere, so that nothing tells it "
    "from a later version: its answers are not kept, and a run that is continued asks it again. "
    "Name its version as fingerprint to keep them."
)


def pose(
    subject: AuditInputs,
    seed: int = 0,
    delta: float | None = None,
    answers_path: Path | None = None,
    track: Track[Any] = track_silently,
) -> MembershipChallenge:
    """Query the model for every record once and draw up the challenge.

    Records that are in two sets are left out, and members that the attacker knows are no
    candidates. The candidates are shuffled: their order must not tell who is a member. A few
    candidates are queried twice.

    Args:
        subject: the model and the records.
        seed: of the audit.
        delta: δ of the bound on ε; None is that of the claim, or 0.
        answers_path: the file that keeps the model's predictions; None keeps none.
        track: shows progress.

    Raises:
        DataError: a set is empty or mostly the same as another, shapes differ, or labels do not
            fit the model's classes.
        TargetError: the model failed, or the budget is too small for one answer a record.
    """
    _refuse_unusable(subject)
    drawn = draw_candidates(subject, seed)
    most = count_most_records(subject.members, subject.nonmembers)
    claim, doubts = facts_of.claim_of(subject, most)
    if delta is None:
        delta = claim.guarantee.delta if claim else 0.0
    subject = drawn.subject
    # without a fingerprint nothing could tell these answers from those of a changed model
    place = answers_path if subject.fingerprint else None
    answered = _ask_model(drawn, place, seed, track)
    drawn_up, strata = _draw_up(drawn, answered.view, seed)
    game = Game(answered.view, Membership(drawn_up.member, subject.drawn))
    knowledge = replace(
        _describe_knowledge(drawn, answered, claim),
        again=asking.ask_again(answered.counted, drawn.candidates, subject, seed, place),
        further=(
            *drawn.noticed,
            *_note_unknown_model(subject, answers_path),
            *doubts,
            *check_contents(subject.target, drawn.candidates.x, drawn.member),
        ),
        ease=drawn_up.ease,
        people=describe_people(drawn_up, most, subject.person_scores),
        strata=strata,
    )
    with track.step("Checking the records"):
        facts = facts_of.describe_facts(game, knowledge, seed, delta)
    key = f"{subject.fingerprint} {seed} {delta!r}"
    compared = asking.comparison_key(answered.shadows, answered.view, seed)
    return MembershipChallenge(
        game=game,
        facts=facts,
        candidates=drawn_up,
        digest=_digest(game, answered.read(drawn.candidates), key, drawn_up.ease, subject.blind),
        compared=compared + " thresholds" * subject.thresholds,
        shadows=answered.shadows,
        seed=seed,
        thresholds=subject.thresholds,
        libraries=versions_of(subject.target, subject.shadows, *subject.sets.values()),
    )


class _AskedModel(NamedTuple):
    """What the model answered about each record."""

    counted: CountingTarget
    """The model, which counts what it is asked."""
    target: Target
    """The model, which remembers its answers."""
    view: ModelView
    shadows: ShadowPlan | None
    answers: SeenAnswers

    def read(self, candidates: Records) -> ArrayParts:
        """All answers about the candidates."""
        parts = (answers for _, answers in stream_answers(self.target, candidates.x))
        return ArrayParts((len(candidates), self.answers.classes), parts)


def _ask_model(
    drawn: DrawnCandidates, place: Path | None, seed: int, track: Track[Any]
) -> _AskedModel:
    """Ask the model about each record once, and keep its answers at a place."""
    subject = drawn.subject
    counted = CountingTarget(subject.target, subject.budget)
    target = asking.remember_answers(counted, place, subject, drawn.sets)
    answered = asking.ask_all(target, drawn.sets, subject, drawn.known_members, seed, track)
    return _AskedModel(counted, target, *answered)


def _note_unknown_model(subject: AuditInputs, answers_path: Path | None) -> list[Check]:
    """A check that says why answers are not kept, where they were to be."""
    if answers_path is None or subject.fingerprint or Need.FEATURES not in subject.target.offers:
        return []
    return [Check("model identity", Verdict.NOT_APPLICABLE, _UNKNOWN_MODEL)]


def _describe_knowledge(
    drawn: DrawnCandidates, answered: _AskedModel, claim: Claim | None
) -> facts_of.AuditorKnowledge:
    """What the settings, the records and the model say, without what is measured on these."""
    subject, view = drawn.subject, answered.view
    whole = ModelView(answered.target, drawn.candidates, subject.reference)
    return facts_of.AuditorKnowledge(
        answers=answered.answers,
        shadows=answered.shadows,
        whole=None if view.known is None else whole,
        class_names=subject.class_names,
        claim=claim,
        copies=drawn.copies if facts_of.knows_features(view) else None,
        model=describe_model(subject.target),
        kind=kind_of_model(subject.target),
        declared=declares_probabilities(subject.target),
        blind=subject.blind,
        randomised=subject.randomised,
        completion=subject.completion,
    )


def _refuse_unusable(subject: AuditInputs) -> None:
    """Refuse sets without records, and thresholds from shadows that are attacked otherwise."""
    if subject.thresholds and subject.shadows is not None and subject.shadows.pool is not None:
        raise SpecError(
            "expected no pool of records beside thresholds, got one: only shadows that are trained "
            "on candidates are attacked as the target is"
        )
    for name, records in (("members", subject.members), ("nonmembers", subject.nonmembers)):
        if not len(records):
            raise DataError(f"expected records in {name}, got none: an audit compares two groups")
    if subject.reference is not None and not len(subject.reference):
        raise DataError("expected records in reference, got none: pass some, or no reference")


def _draw_up(
    drawn: DrawnCandidates, view: ModelView, seed: int
) -> tuple[Candidates, StrataFacts | None]:
    """The candidates, people where records are grouped by person, and the strata to be shown."""
    subject, candidates, member = drawn.subject, drawn.candidates, drawn.member
    drawn_up = Candidates(
        member=member,
        label=view.records.stratum,
        index=drawn.positions,
        ids=_ids_of(subject)[drawn.order] if subject.ids is not None else None,
        ease=_measure_ease(subject, view, candidates, member, seed),
        subpopulation=candidates.subpopulation,
    )
    person = candidates.people
    if person is not None:
        drawn_up = keep_one_a_person(drawn_up, person)
    return merge_small_strata(drawn_up, subject.subpopulations, subject.smallest_stratum)


def _measure_ease(
    subject: AuditInputs,
    view: ModelView,
    candidates: Records,
    member: Bool[np.ndarray, " records"],
    seed: int,
) -> Ease | None:
    """How easy each candidate is for what never saw it: models of our own, a column, references."""
    if subject.ease is not None:  # of a table, in which records are row numbers
        return subject.ease[:, candidates.x[:, 0]]
    if Need.FEATURES not in subject.target.offers:
        return None
    if Need.TOKENS in view.target.offers:
        tokens = as_token_target(view.target).tokens(candidates.x)
        return tokens.reference_means if len(tokens.reference) else None
    return recall_ease(candidates, member, seed)


def _ids_of(subject: AuditInputs) -> Shaped[np.ndarray, " records"]:
    """Those of the members, followed by nothing for each non-member."""
    assert subject.ids is not None
    return np.concatenate([subject.ids, np.full(len(subject.nonmembers), "")])


def _digest(
    game: Game[ModelView, Membership],
    answers: ArrayParts,
    rest: str,
    ease: CandidateEase | None = None,
    blind: str = "",
) -> str:
    view, truth = game.view, game.truth
    parts: list[np.ndarray | ArrayParts] = [view.records.x, view.records.y, truth.member, answers]
    if view.reference is not None:
        parts += [view.reference.x, view.reference.y]
    if view.known is not None:
        parts.append(view.known)
    if view.known_members is not None:
        parts += [view.known_members.x, view.known_members.y]
        rest += " known members"
    if view.loss_trace is not None:
        parts.append(view.loss_trace)
        rest += " loss trace"
    if view.records.people is not None:
        parts.append(view.records.people)
        rest += " people"
    if ease is not None and blind:
        parts.append(ease)
        rest += f" {blind}"
    return digest(f"{rest} coins" if truth.drawn == "coins" else rest, *parts)
