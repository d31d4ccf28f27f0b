"""Membership: from audit inputs to a challenge, whose slow part is asking the model and shadows.

The model is queried once for every candidate and reference record; the predictions are kept, so
that no attack queries it again.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from divulge._util.digest import digest
from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.audits.challenges.model import MembershipChallenge
from divulge.audits.checkpoints import trace_losses
from divulge.audits.checks import duplicates
from divulge.audits.checks import records as checks
from divulge.audits.checks.difficulty import recall_ease
from divulge.audits.checks.duplicates import Copies, DistinctSets, PoolCopies
from divulge.audits.checks.records import SecondPredictions
from divulge.audits.inputs import AuditInputs
from divulge.audits.known_members import set_known_members_aside
from divulge.audits.matching import match
from divulge.core import (
    Candidates,
    Check,
    Claim,
    Game,
    Membership,
    MembershipFacts,
    ModelView,
    Need,
    PrivateTrainer,
    Records,
    Target,
    Verdict,
)
from divulge.core.records import STRATA
from divulge.core.runs import ShadowKind
from divulge.data import augmentation, partial_records
from divulge.errors import BudgetSpent, DataError, SpecError
from divulge.metrics.difficulty_test import Ease
from divulge.targets.budget import CountingTarget
from divulge.targets.cache import CachedTarget
from divulge.targets.wrap import declares_probabilities, describe_model
from divulge.training.shadows import train as training
from divulge.training.shadows.plan import ShadowPlan, shadow_key

_UNKNOWN_MODEL = (
    "The model is a function, which may read its weights from anywhere, so that nothing tells it "
    "from a later version: its answers are not kept, and a run that is continued asks it again. "
    "Name its version as fingerprint to keep them."
)

ASKED_AGAIN = 32
"""The number of candidates that the model is asked about twice."""


@dataclass(frozen=True, slots=True)
class AuditorKnowledge:
    """What the auditor knows besides the challenge."""

    answers: Float64[np.ndarray, "records classes"]
    """The model's predictions about the candidates."""
    shadows: ShadowPlan | None = None
    """All shadow models, trained already or not."""
    whole: ModelView | None = None
    """What only the auditor sees, where the attacker's view shows parts of the candidates."""
    class_names: tuple[str, ...] = ()
    claim: Claim | None = None
    copies: Copies | PoolCopies | None = None
    """Records that stood twice and are left out; None where features are unknown."""
    again: SecondPredictions | None = None
    """What the model says of some candidates when it is asked again, if it can be."""
    further: tuple[Check, ...] = ()
    """What was noticed before the model was asked anything."""
    model: str = ""
    """What kind of model it is, in a few words."""
    declared: bool = False
    """Whether the user, and not the model, says that its answers are probabilities."""
    ease: Ease | None = None
    """How easy each candidate is for what never saw it; None if nobody knows."""
    blind: str = ""
    """The column that says so; empty where models of the candidates do."""
    randomised: bool = False
    """Whether somebody says that members were drawn at random."""


def describe_facts(
    game: Game[ModelView, Membership], known: AuditorKnowledge, seed: int, delta: float
) -> MembershipFacts:
    """What the run folder keeps of a challenge; all checks of its records are made here.

    Raises:
        DataError: the pool of the shadow models has other features than the candidates.
    """
    view, truth, plan = known.whole or game.view, game.truth, known.shadows
    question = checks.CheckInputs(
        view.records,
        truth.member,
        view.reference,
        known.answers,
        features=Need.FEATURES in view.offers,
        pool=None if plan is None else plan.pool,
        copies=known.copies,
        again=known.again,
        soft=Need.PROBABILITIES in view.offers,
        declared=known.declared,
        scores=Need.SCORES in view.offers,
        ease=known.ease,
        blind=known.blind,
    )
    return MembershipFacts(
        delta=delta,
        members=int(truth.member.sum()),
        nonmembers=int((~truth.member).sum()),
        reference=0 if view.reference is None else len(view.reference),
        classes=0 if view.records.regression else known.answers.shape[1],
        class_names=STRATA if view.records.regression else known.class_names,
        checks=(*checks.check_records(question, seed), *known.further),
        shadows=_shadow_kind(plan),
        claim=known.claim,
        drawn=truth.drawn,
        randomised=known.randomised or truth.drawn == "coins",
        known_members=0 if view.known_members is None else len(view.known_members),
        model=known.model,
    )


def _shadow_kind(plan: ShadowPlan | None) -> ShadowKind:
    if plan is None:
        return "none"
    return "online" if plan.pool is None else "offline"


def promised_claim(plan: ShadowPlan | None, candidates: Records, members: int) -> Claim | None:
    """What training shadow models in the target's way promises for so many records."""
    if plan is None or not isinstance(plan.trainer, PrivateTrainer):
        return None
    plan.check(candidates)  # a guarantee names the way of clipping that the network needs
    promised = plan.trainer.guarantee(members)
    return Claim(promised, derived=True) if promised else None


def pose(
    subject: AuditInputs,
    seed: int = 0,
    delta: float | None = None,
    answers_path: Path | None = None,
    track: Track[Any] = track_silently,
) -> MembershipChallenge:
    """Query the model for every record once and draw up the challenge.

    Records that stand in two sets are left out, and members that the attacker knows are no
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
    if subject.thresholds and subject.shadows is not None and subject.shadows.pool is not None:
        raise SpecError(
            "expected no pool of records beside thresholds, got one: only shadows that are trained "
            "on candidates are attacked as the target is"
        )
    claim = promised_claim(subject.shadows, subject.members, len(subject.members))
    if subject.guarantee is not None:
        claim = Claim(subject.guarantee)
    if delta is None:
        delta = claim.guarantee.delta if claim else 0.0
    for name, records in (("members", subject.members), ("nonmembers", subject.nonmembers)):
        if not len(records):
            raise DataError(f"expected records in {name}, got none: an audit compares two groups")
    if subject.reference is not None and not len(subject.reference):
        raise DataError("expected records in reference, got none: pass some, or no reference")
    subject, further = match(subject)
    subject, kept = set_copies_aside(subject)
    subject, known_members, told = set_known_members_aside(subject, seed)
    order = stream(seed, "order of candidates").permutation(
        len(subject.members) + len(subject.nonmembers)
    )
    candidates = subject.members.joined(subject.nonmembers).take(order)
    counted = CountingTarget(subject.target, subject.budget)
    # without a fingerprint nothing could tell these answers from those of a changed model
    place = answers_path if subject.fingerprint else None
    owned = [one for one in (subject.reference, known_members) if one is not None]
    asked = (candidates, *owned)

    def accept(answers: Float64[np.ndarray, "records classes"]) -> None:
        for records in asked:  # before an answer is kept of a run that cannot go on
            check_classes(records, answers, subject.class_names)

    target = CachedTarget(
        counted, place, subject.fingerprint or "", subject.batch_size, accept=accept
    )
    if answers_path is not None and place is None and Need.FEATURES in target.offers:
        further += (Check("model identity", Verdict.NOT_APPLICABLE, _UNKNOWN_MODEL),)
    view, shadows = _view(target, candidates, subject, seed)
    view = replace(view, known_members=known_members)
    answers, *_ = [_ask(target, records, subject, track) for records in asked]
    for records in (view.records, *view.augmented):
        _ask(target, records, subject, track)
    if subject.checkpoints:
        losses = trace_losses(subject.checkpoints, view, subject.batch_size, track)
        view = replace(view, loss_trace=losses)
    game = Game(view, Membership(order < len(subject.members), subject.drawn))
    ease = _measure_ease(subject, candidates, game.truth, seed)
    known = AuditorKnowledge(
        answers=answers,
        shadows=shadows,
        whole=None if view.known is None else ModelView(target, candidates, subject.reference),
        class_names=subject.class_names,
        claim=claim,
        copies=kept.copies if Need.FEATURES in target.offers else None,
        again=_ask_again(counted, candidates, subject, seed, place),
        further=further,
        model=describe_model(subject.target),
        declared=declares_probabilities(subject.target),
        ease=ease,
        blind=subject.blind,
        randomised=subject.randomised,
    )
    with track.step("Checking the records"):
        facts = describe_facts(game, known, seed, delta)
    asked_of = f"{subject.fingerprint} {seed} {delta!r}"
    return MembershipChallenge(
        game=game,
        facts=facts,
        candidates=Candidates(
            member=game.truth.member,
            label=view.records.stratum,
            index=np.concatenate([kept.members[~told], kept.nonmembers])[order],
            ids=_ids_of(subject)[order] if subject.ids is not None else None,
            ease=ease,
        ),
        digest=_digest(game, answers, asked_of, ease, subject.blind),
        compared=comparison_key(shadows, view, seed) + " thresholds" * subject.thresholds,
        shadows=shadows,
        seed=seed,
        thresholds=subject.thresholds,
    )


def _measure_ease(
    subject: AuditInputs, candidates: Records, truth: Membership, seed: int
) -> Ease | None:
    """How easy each candidate is for what never saw it, by models of our own or by a column."""
    if subject.ease is not None:  # of a table, in which records are row numbers
        return subject.ease[None, candidates.x[:, 0]]
    if Need.FEATURES not in subject.target.offers:
        return None
    return recall_ease(candidates, truth.member, seed)


def _ids_of(subject: AuditInputs) -> Shaped[np.ndarray, " records"]:
    """Those of the members, followed by nothing for each non-member."""
    assert subject.ids is not None
    return np.concatenate([subject.ids, np.full(len(subject.nonmembers), "")])


def set_copies_aside(subject: AuditInputs) -> tuple[AuditInputs, DistinctSets]:
    """The subject without the records that stand in two sets.

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


def _ask_again(
    target: CountingTarget, candidates: Records, subject: AuditInputs, seed: int, path: Path | None
) -> SecondPredictions | None:
    """Second answers about a few candidates; none if they were exported, or the budget is spent."""
    if Need.FEATURES not in target.offers:
        return None
    rows = stream(seed, "asked again").permutation(len(candidates))[:ASKED_AGAIN]
    # beside the first answers, so that a run that is continued does not pay for these twice either
    second = CachedTarget(
        target, path, subject.fingerprint or "", subject.batch_size, salt=b"again"
    )
    try:
        return SecondPredictions(rows, second.predict(candidates.x[rows]))
    except BudgetSpent:
        return None


def _view(
    target: Target, candidates: Records, subject: AuditInputs, seed: int
) -> tuple[ModelView, ShadowPlan | None]:
    """The candidates as the attacker sees them, and the shadows that are asked likewise.

    Raises:
        SpecError: what the attacker knows does not go with other settings.
    """
    plan = subject.shadows
    if subject.known is None:
        augmented = augmentation.augment(candidates, subject.augment)
        return ModelView(target, candidates, subject.reference, augmented=augmented), plan
    if subject.augment:
        raise SpecError(
            "expected no augment beside known features, got some: use completions, which are "
            "further ways to ask about a candidate as well"
        )
    if plan is not None and plan.pool is None:
        raise SpecError(
            "expected a pool of records to train shadows on beside known features, got none: who "
            "knows only parts of the candidates cannot train on them"
        )
    pool = None if plan is None else plan.pool
    shown = partial_records.hide_and_impute(
        candidates, subject.reference, pool, subject.known, candidates.columns, seed
    )
    first, *others = shown.candidates
    view = ModelView(
        target,
        first,
        shown.reference,
        augmented=tuple(others),
        known=shown.known,
        own=subject.reference,
    )
    if plan is not None:
        asked, *otherwise = shown.pool
        plan = replace(
            plan,
            pool_asked=asked,
            pool_otherwise=tuple(otherwise),
            pool_known=shown.pool_known,
        )
    return view, plan


def comparison_key(plan: ShadowPlan | None, view: ModelView, seed: int) -> str:
    """What tells the shadows of one audit from those of another, their number included."""
    if plan is None:
        return "no shadows"
    key = shadow_key(plan, training.shadow_queries(view, plan), seed)
    further = f" cascade {plan.cascade}" if plan.cascade else ""
    return f"{plan.models} {len(view.augmented)} {key}{further}"


def _ask(
    target: Target, records: Records, subject: AuditInputs, track: Track[Any]
) -> Float64[np.ndarray, "records classes"]:
    asked = len(records) if Need.FEATURES in target.offers else 0  # a table has all answers
    for start in track(range(0, asked, subject.batch_size), "Asking the model"):
        target.predict(records.x[start : start + subject.batch_size])
    answers = target.predict(records.x)
    check_classes(records, answers, subject.class_names)
    return answers


def check_classes(
    records: Records,
    answers: Float64[np.ndarray, "records classes"],
    class_names: tuple[str, ...],
) -> None:
    """Refuse labels and names that are not those of the model's classes.

    Raises:
        DataError: a label is too high, or there are more or fewer names.
    """
    classes = answers.shape[1]
    if records.regression:
        _check_values(classes, class_names)
        return
    if records.y.max() >= classes:
        raise DataError(
            f"expected labels 0 to {classes - 1}, as the model answers with {classes} classes, got "
            f"{records.y.max()}: encode the labels in the order of the model's classes"
        )
    if class_names and len(class_names) != classes:
        raise DataError(
            f"expected {classes} class names, one a class of the model, got "
            f"{len(class_names)}: name all of them or none"
        )


def _check_values(columns: int, class_names: tuple[str, ...]) -> None:
    if columns > 1:
        raise DataError(
            f"expected class numbers as labels, as the model answers with {columns} classes, got "
            "true values: pass labels 0, 1, 2..."
        )
    if class_names:
        raise DataError(
            f"expected no class names for a model that answers a number, got {len(class_names)}: "
            "leave them out"
        )


def _digest(
    game: Game[ModelView, Membership],
    answers: Float64[np.ndarray, "records classes"],
    rest: str,
    ease: Ease | None = None,
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
    if ease is not None and blind:
        parts.append(ease)
        rest += f" {blind}"
    return digest(f"{rest} coins" if truth.drawn == "coins" else rest, *parts)
