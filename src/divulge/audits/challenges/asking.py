"""What the model is asked: the attacker's view of the candidates, and the answers about it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge._util.progress import Track
from divulge._util.random import stream
from divulge.audits.checkpoints import trace_losses
from divulge.audits.subject import AuditInputs
from divulge.checks.question import SecondPredictions, SeenAnswers
from divulge.core import (
    Check,
    ModelView,
    Need,
    Records,
    Target,
    Verdict,
)
from divulge.data import augmentation, partial_records
from divulge.errors import BudgetSpent, DataError, SpecError
from divulge.targets.budget import CountingTarget
from divulge.targets.cache import CachedTarget
from divulge.training.shadows import train as training
from divulge.training.shadows.plan import ShadowPlan, shadow_key

ASKED_AGAIN = 32
"""The number of candidates that the model is asked about twice."""


def remember_answers(
    target: CountingTarget, place: Path | None, subject: AuditInputs, sets: Sequence[Records]
) -> CachedTarget:
    """The target, which is asked about each record once, and whose answers fit all records."""
    names = subject.class_names  # all of the inputs that is kept

    def accept(answers: Float64[np.ndarray, "records classes"]) -> None:
        for records in sets:  # before an answer is kept of a run that cannot go on
            check_classes(records, answers.shape[1], names)

    name = subject.fingerprint or ""
    return CachedTarget(target, place, name, subject.batch_size, accept=accept)


def settle_fill(subject: AuditInputs, candidates: Records, seed: int) -> tuple[AuditInputs, Check]:
    """The inputs with the fill that the reference records choose, and a check that names it.

    Raises:
        DataError: there is no such column, or a grid does not fit the records.
    """
    setting = subject.known
    assert setting is not None
    known = partial_records.settle_fill(
        candidates, subject.reference, setting, candidates.columns, seed
    )
    how = "as asked for"
    if setting.fill == "chosen":
        how = "which errs least where values of the reference records are hidden in the same way"
    text = f"Unknown features of candidates are filled in by {known.fill}, {how}."
    return replace(subject, known=known), Check("filling in", Verdict.PASS, text)


def ask_all(
    target: CachedTarget,
    sets: Sequence[Records],
    subject: AuditInputs,
    known_members: Records | None,
    seed: int,
    track: Track[Any],
) -> tuple[ModelView, ShadowPlan | None, SeenAnswers]:
    """The attacker's view once the model was asked, the shadows, and answers on candidates."""
    view, shadows = _view(target, sets[0], subject, seed)
    view = replace(view, known_members=known_members)
    answers, *_ = [_ask(target, records, subject, track) for records in sets]
    for records in (view.records, *view.augmented):
        _ask(target, records, subject, track)
    if subject.checkpoints:
        losses = trace_losses(subject.checkpoints, view, subject.batch_size, track)
        view = replace(view, loss_trace=losses)
    return view, shadows, answers


def ask_again(
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
        pool_asked, *otherwise = shown.pool
        plan = replace(
            plan,
            pool_asked=pool_asked,
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


def _ask(target: Target, records: Records, subject: AuditInputs, track: Track[Any]) -> SeenAnswers:
    rows = len(records) if Need.FEATURES in target.offers else 0  # a table has all answers
    for start in track(range(0, rows, subject.batch_size), "Asking the model"):
        target.predict(records.x[start : start + subject.batch_size])
    answers = SeenAnswers.from_target(target, records.x)
    check_classes(records, answers.classes, subject.class_names)
    return answers


def check_classes(
    records: Records,
    classes: int,
    class_names: tuple[str, ...],
) -> None:
    """Refuse labels and names that are not those of the model's classes.

    Raises:
        DataError: a label is too high, or there are more or fewer names.
    """
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
