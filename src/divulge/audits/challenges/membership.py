"""From a loaded subject to a prepared challenge: the slow part of an audit.

Every candidate and reference record is put to the model once; the answers are kept, so that no
attack asks again. Attacks start from what this leaves behind.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped

from divulge._util.progress import Track, untracked
from divulge._util.random import stream
from divulge.audits import attempt
from divulge.audits.checks import duplicates
from divulge.audits.checks.duplicates import Copies, Distinct, PoolCopies
from divulge.audits.checks.records import Again
from divulge.audits.inputs import Subject
from divulge.core import Challenge, Membership, MembershipAttack, ModelView, Need, Records, Target
from divulge.data import augmentation, partial_records
from divulge.errors import BudgetSpent, DataError, SpecError
from divulge.targets.budget import Counting
from divulge.targets.cache import Cached
from divulge.training.shadows.plan import ShadowPlan, identity
from divulge.training.shadows.train import queries

ASKED_AGAIN = 32
"""Candidates that the model is asked about twice."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A challenge, and what the auditor knows besides."""

    challenge: Challenge[ModelView, Membership]
    index: Int[np.ndarray, " records"]
    """Each candidate's position among the members, or the non-members, as they were given."""
    answers: Float64[np.ndarray, "records classes"]
    class_names: tuple[str, ...]
    digest: str
    """Of the model and the records, but not of what the model is compared with."""
    compared: str = ""
    """Identifies the shadows, and the ways in which candidates are seen."""
    whole: ModelView | None = None
    """What only the auditor sees, where the attacker's view shows parts of the candidates."""
    shadows: ShadowPlan | None = None
    """As they are to be trained and asked."""
    ids: Shaped[np.ndarray, " records"] | None = None
    """The user's own, empty where a candidate has none."""
    copies: Copies | PoolCopies | None = None
    """Of records that stood twice, and are left out here; None where features are unknown."""
    again: Again | None = None
    """What the model says of some candidates when it is asked again, if it can be."""


def prepare(
    subject: Subject,
    seed: int = 0,
    delta: float = 0.0,
    answers_path: Path | None = None,
    track: Track[Any] = untracked,
) -> Prepared:
    """Put every record to the model once and draw up the challenge.

    Records that stand in two sets are left out. The candidates are shuffled: their order must not
    tell who is a member. A few candidates are put to the model twice.

    Raises:
        DataError: a set is empty or mostly the same as another, shapes differ, or labels do not
            fit the model's classes.
        TargetError: the model failed, or the budget is too small for one answer a record.
    """
    for name, records in (("members", subject.members), ("nonmembers", subject.nonmembers)):
        if not len(records):
            raise DataError(f"expected records in {name}, got none: an audit compares two groups")
    subject, kept = distinct(subject)
    both = subject.members.joined(subject.nonmembers)
    order = stream(seed, "order of candidates").permutation(len(both))
    candidates = both.take(order)
    member = order < len(subject.members)
    counted = Counting(subject.target, subject.budget)
    target = Cached(counted, answers_path, subject.fingerprint or "", subject.batch_size)
    answers = _ask(target, candidates, subject, track)
    if subject.reference is not None:
        _ask(target, subject.reference, subject, track)
    view, shadows = _view(target, candidates, subject, seed)
    for records in (view.records, *view.augmented):
        _ask(target, records, subject, track)
    coins = " coins" if subject.drawn == "coins" else ""
    digest = _digest(view, member, answers, f"{subject.fingerprint} {seed} {delta!r}{coins}")
    return Prepared(
        Challenge(view, Membership(member, subject.drawn)),
        np.concatenate([kept.members, kept.nonmembers])[order],
        answers,
        subject.class_names,
        digest,
        compared(shadows, view, seed),
        None if view.known is None else ModelView(target, candidates, subject.reference),
        shadows,
        _ids_of(subject)[order] if subject.ids is not None else None,
        kept.copies if Need.FEATURES in target.offers else None,
        _again(counted, candidates, subject, seed, answers_path),
    )


def _ids_of(subject: Subject) -> Shaped[np.ndarray, " records"]:
    """Those of the members, followed by nothing for each non-member."""
    assert subject.ids is not None
    return np.concatenate([subject.ids, np.full(len(subject.nonmembers), "")])


def distinct(subject: Subject) -> tuple[Subject, Distinct]:
    """The subject without the records that stand in two sets.

    Raises:
        DataError: two sets are mostly the same, or have other features.
    """
    members, nonmembers, reference = subject.members, subject.nonmembers, subject.reference
    for other in (nonmembers, *([] if reference is None else [reference])):
        members.joined(other)  # refuses other shapes
    found = duplicates.find(members, nonmembers, reference)
    counts = len(members), len(nonmembers), 0 if reference is None else len(reference)
    duplicates.check(found.copies, *counts)
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


def _again(
    target: Counting, candidates: Records, subject: Subject, seed: int, path: Path | None
) -> Again | None:
    """Second answers about a few candidates; none if they were exported, or the budget is spent."""
    if Need.FEATURES not in target.offers:
        return None
    rows = stream(seed, "asked again").permutation(len(candidates))[:ASKED_AGAIN]
    # beside the first answers, so that a run that is continued does not pay for these twice either
    second = Cached(target, path, subject.fingerprint or "", subject.batch_size, salt=b"again")
    try:
        return Again(rows, second.predict(candidates.x[rows]))
    except BudgetSpent:
        return None


def _view(
    target: Target, candidates: Records, subject: Subject, seed: int
) -> tuple[ModelView, ShadowPlan | None]:
    """The candidates as the attacker sees them, and the shadows that are asked likewise.

    Raises:
        SpecError: what the attacker knows does not go with other settings.
    """
    plan = subject.shadows
    if subject.known is None:
        augmented = augmentation.seen(candidates, subject.augment)
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
    shown = partial_records.seen(
        candidates, subject.reference, pool, subject.known, subject.columns, seed
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


def compared(plan: ShadowPlan | None, view: ModelView, seed: int) -> str:
    """What tells the shadows of one audit from those of another, their number included."""
    if plan is None:
        return "no shadows"
    return f"{plan.models} {len(view.augmented)} {identity(plan, queries(view, plan), seed)}"


def finding_key(prepared: Prepared, attack: MembershipAttack) -> str:
    """The name of a finding's files: the attack, and a digest of all that its result depends on."""
    settings = sorted(attempt.settings(attack).items())
    text = f"{prepared.digest} {prepared.compared} {attempt.label(attack)} {settings!r}"
    return f"{attack.name}-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def _ask(
    target: Target, records: Records, subject: Subject, track: Track[Any]
) -> Float64[np.ndarray, "records classes"]:
    starts = range(0, len(records), subject.batch_size)
    for start in track(starts, "Asking the model"):
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


def _digest(
    view: ModelView,
    member: Bool[np.ndarray, " records"],
    answers: Float64[np.ndarray, "records classes"],
    rest: str,
) -> str:
    parts = [view.records.x, view.records.y, member, answers]
    if view.reference is not None:
        parts += [view.reference.x, view.reference.y]
    if view.known is not None:
        parts.append(view.known)
    digest = hashlib.blake2b(rest.encode(), digest_size=16)
    for part in parts:
        digest.update(f"{part.dtype}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
