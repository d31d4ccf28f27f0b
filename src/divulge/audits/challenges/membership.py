"""Membership: from audit inputs to a challenge, whose slow part is asking the model and shadows.

The model is queried once for every candidate and reference record; the predictions are kept, so
that no attack queries it again.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped

from divulge._util.digest import digest
from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.audits.challenges import asking
from divulge.audits.challenges import facts as facts_of
from divulge.audits.challenges.model import MembershipChallenge
from divulge.audits.known_members import set_known_members_aside
from divulge.audits.matching import match
from divulge.audits.people import (
    check_groups,
    count_most_records,
    describe_people,
    keep_one_a_person,
)
from divulge.audits.strata import merge_small_strata
from divulge.audits.subject import AuditInputs
from divulge.checks import duplicates
from divulge.checks.contents import check_contents
from divulge.checks.difficulty import recall_ease
from divulge.checks.duplicates import DistinctSets
from divulge.checks.question import CandidateEase
from divulge.core import (
    Candidates,
    Check,
    Game,
    Membership,
    ModelView,
    Need,
    Records,
    Verdict,
)
from divulge.core.people import StrataFacts
from divulge.core.tokens import as_token_target
from divulge.errors import DataError, SpecError
from divulge.metrics.difficulty_test import Ease
from divulge.targets.budget import CountingTarget
from divulge.targets.model_facts import declares_probabilities, describe_model, kind_of_model
from divulge.targets.model_parts import versions_of

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
    given, (subject, further) = subject, match(subject)
    check_groups(subject.sets, ("members", "nonmembers"))
    subject, distinct = set_copies_aside(subject)
    subject, known_members, known = set_known_members_aside(subject, seed)
    order = stream(seed, "order of candidates").permutation(
        len(subject.members) + len(subject.nonmembers)
    )
    candidates = subject.members.joined(subject.nonmembers).take(order)
    if subject.known is not None:
        subject, filling = asking.settle_fill(subject, candidates, seed)
        further += (filling,)
    most = count_most_records(given.members, given.nonmembers)
    claim, doubts = facts_of.claim_of(given, most)
    if delta is None:
        delta = claim.guarantee.delta if claim else 0.0
    counted = CountingTarget(subject.target, subject.budget)
    # without a fingerprint nothing could tell these answers from those of a changed model
    place = answers_path if subject.fingerprint else None
    if answers_path is not None and place is None and Need.FEATURES in subject.target.offers:
        further += (Check("model identity", Verdict.NOT_APPLICABLE, _UNKNOWN_MODEL),)
    sets = (candidates, *(one for one in (subject.reference, known_members) if one is not None))
    target = asking.remember_answers(counted, place, subject, sets)
    view, shadows, answers = asking.ask_all(target, sets, subject, known_members, seed, track)
    positions = np.concatenate([distinct.members[~known], distinct.nonmembers])[order]
    member = order < len(subject.members)
    drawn_up, strata = _draw_up(subject, view, candidates, member, positions, order, seed)
    game = Game(view, Membership(drawn_up.member, subject.drawn))
    knowledge = facts_of.AuditorKnowledge(
        answers=answers,
        shadows=shadows,
        whole=None if view.known is None else ModelView(target, candidates, subject.reference),
        class_names=subject.class_names,
        claim=claim,
        copies=distinct.copies if facts_of.knows_features(view) else None,
        again=asking.ask_again(counted, candidates, subject, seed, place),
        further=(*further, *doubts, *check_contents(subject.target, candidates.x, member)),
        model=describe_model(subject.target),
        kind=kind_of_model(subject.target),
        declared=declares_probabilities(subject.target),
        ease=drawn_up.ease,
        blind=subject.blind,
        randomised=subject.randomised,
        people=describe_people(drawn_up, most, subject.person_scores),
        strata=strata,
        completion=subject.completion,
    )
    with track.step("Checking the records"):
        facts = facts_of.describe_facts(game, knowledge, seed, delta)
    asked_of = f"{subject.fingerprint} {seed} {delta!r}"
    return MembershipChallenge(
        game=game,
        facts=facts,
        candidates=drawn_up,
        digest=_digest(game, answers, asked_of, drawn_up.ease, subject.blind),
        compared=asking.comparison_key(shadows, view, seed) + " thresholds" * subject.thresholds,
        shadows=shadows,
        seed=seed,
        thresholds=subject.thresholds,
        libraries=versions_of(subject.target, subject.shadows, *subject.sets.values()),
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
    subject: AuditInputs,
    view: ModelView,
    candidates: Records,
    member: Bool[np.ndarray, " records"],
    positions: Int[np.ndarray, " records"],
    order: Int[np.ndarray, " records"],
    seed: int,
) -> tuple[Candidates, StrataFacts | None]:
    """The candidates, people where records are grouped by person, and the strata to be shown."""
    drawn_up = Candidates(
        member=member,
        label=view.records.stratum,
        index=positions,
        ids=_ids_of(subject)[order] if subject.ids is not None else None,
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


def set_copies_aside(subject: AuditInputs) -> tuple[AuditInputs, DistinctSets]:
    """The subject without the records that are in two sets.

    Raises:
        DataError: two sets are mostly the same, or have other features.
    """
    members, nonmembers, reference = subject.members, subject.nonmembers, subject.reference
    for other in (nonmembers, *([] if reference is None else [reference])):
        members.joined(other)  # refuses other shapes
    found = duplicates.find_copies(members, nonmembers, reference)
    counts = len(members), len(nonmembers), 0 if reference is None else len(reference)
    duplicates.check_copies(found.copies, *counts)
    if not found.copies.between:
        return subject, found
    left = replace(
        subject,
        members=members.take(found.members),
        nonmembers=nonmembers.take(found.nonmembers),
        reference=None if reference is None else reference.take(found.reference),
        ids=None if subject.ids is None else subject.ids[found.members],
    )
    return left, found


def _digest(
    game: Game[ModelView, Membership],
    answers: Float64[np.ndarray, "records classes"],
    rest: str,
    ease: CandidateEase | None = None,
    blind: str = "",
) -> str:
    view, truth = game.view, game.truth
    parts = [view.records.x, view.records.y, truth.member, answers]
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
