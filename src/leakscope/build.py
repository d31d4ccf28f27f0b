"""From settings, or a model and arrays, to a prepared challenge: the slow part of an audit.

Data is loaded, the model is wrapped, and every candidate and reference record is put to it once;
the answers are kept, so that no attack asks again. Attacks start from what this leaves behind.
"""

import hashlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from leakscope import auditing, objects
from leakscope import spec as specs
from leakscope.core import (
    Challenge,
    Guarantee,
    Membership,
    MembershipAttack,
    ModelView,
    Records,
    Target,
)
from leakscope.data import augment, files, partial
from leakscope.data.augment import Change
from leakscope.data.masks import Known
from leakscope.errors import DataError, SpecError
from leakscope.progress import Track, untracked
from leakscope.randomness import stream
from leakscope.shadowing.plan import ShadowPlan, identity
from leakscope.shadowing.train import queries
from leakscope.targets import saved, table, wrap
from leakscope.targets.answers import Output
from leakscope.targets.cached import Cached
from leakscope.targets.counting import Counting
from leakscope.training.trainers import as_trainer


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be audited, loaded but not yet asked anything."""

    target: Target
    members: Records
    nonmembers: Records
    reference: Records | None = None
    class_names: tuple[str, ...] = ()
    fingerprint: str | None = None
    """Identifies the model, so that answers on disk are never taken for another one's."""
    budget: int | None = None
    batch_size: int = 1024
    shadows: ShadowPlan | None = None
    augment: tuple[str | Change, ...] = ()
    """Ways in which candidates are seen otherwise, for further queries."""
    guarantee: Guarantee | None = None
    """What is claimed for the model."""
    known: Known | None = None
    """What the attacker knows of each candidate; None is all."""
    columns: tuple[str, ...] = ()
    """Names of the features, if they have any."""


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


def load(spec: specs.AuditSpec, folder: Path) -> Subject:
    """The model and records that settings name.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        LeakscopeError: a file, a name in it, or what it holds is not what was expected.
    """
    if spec.predictions is not None:
        return predictions(spec.predictions, folder)
    if spec.target is None or spec.data is None:
        raise SpecError("expected [target] and [data], got [leave_one_out]: use leave_one_out_file")
    data = spec.data
    target, fingerprint = _target(spec.target, folder)
    return Subject(
        target=target,
        members=_records(str(data.members), data.label, folder),
        nonmembers=_records(str(data.nonmembers), data.label, folder),
        reference=_records(data.reference, data.label, folder) if data.reference else None,
        class_names=data.class_names,
        fingerprint=fingerprint,
        budget=spec.target.budget,
        batch_size=spec.target.batch_size,
        shadows=_shadows(spec.shadows, spec.target.output, data.label, folder)
        if spec.shadows
        else None,
        augment=ways(spec.shadows.augment, folder) if spec.shadows else (),
        guarantee=_claimed(spec.target),
        known=Known(**spec.known.model_dump()) if spec.known else None,
        columns=_columns(str(data.members), data.label, folder) if spec.known else (),
    )


def prepare(
    subject: Subject,
    seed: int = 0,
    delta: float = 0.0,
    answers_path: Path | None = None,
    track: Track[Any] = untracked,
) -> Prepared:
    """Put every record to the model once and draw up the challenge.

    The candidates are shuffled: their order must not tell who is a member.

    Raises:
        DataError: a set is empty, shapes differ, or labels do not fit the model's classes.
        TargetError: the model failed, or the budget is too small for one answer a record.
    """
    for name, records in (("members", subject.members), ("nonmembers", subject.nonmembers)):
        if not len(records):
            raise DataError(f"expected records in {name}, got none: an audit compares two groups")
    both = subject.members.joined(subject.nonmembers)
    order = stream(seed, "order of candidates").permutation(len(both))
    candidates = both.take(order)
    member = order < len(subject.members)
    counted = Counting(subject.target, subject.budget)
    target = Cached(counted, answers_path, subject.fingerprint or "", subject.batch_size)
    answers = _ask(target, candidates, subject, track)
    if subject.reference is not None:
        both.joined(subject.reference)  # refuses other shapes
        _ask(target, subject.reference, subject, track)
    view, shadows = _view(target, candidates, subject, seed)
    for records in (view.records, *view.augmented):
        _ask(target, records, subject, track)
    digest = _digest(view, member, answers, f"{subject.fingerprint} {seed} {delta!r}")
    return Prepared(
        Challenge(view, Membership(member)),
        np.where(member, order, order - len(subject.members)),
        answers,
        subject.class_names,
        digest,
        compared(shadows, view, seed),
        None if view.known is None else ModelView(target, candidates, subject.reference),
        shadows,
    )


def _view(
    target: Target, candidates: Records, subject: Subject, seed: int
) -> tuple[ModelView, ShadowPlan | None]:
    """The candidates as the attacker sees them, and the shadows that are asked likewise.

    Raises:
        SpecError: what the attacker knows does not go with other settings.
    """
    plan = subject.shadows
    if subject.known is None:
        augmented = augment.seen(candidates, subject.augment)
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
    shown = partial.seen(candidates, subject.reference, pool, subject.known, subject.columns, seed)
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
        plan = replace(plan, pool_asked=asked, pool_otherwise=tuple(otherwise))
    return view, plan


def compared(plan: ShadowPlan | None, view: ModelView, seed: int) -> str:
    """What tells the shadows of one audit from those of another, their number included."""
    if plan is None:
        return "no shadows"
    return f"{plan.models} {len(view.augmented)} {identity(plan, queries(view, plan), seed)}"


def finding_key(prepared: Prepared, attack: MembershipAttack) -> str:
    """The name of a finding's files: the attack, and a digest of all that its result depends on."""
    settings = sorted(auditing.settings(attack).items())
    text = f"{prepared.digest} {prepared.compared} {auditing.label(attack)} {settings!r}"
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


def predictions(spec: specs.PredictionsSpec, folder: Path) -> Subject:
    """An exported table of answers as a subject.

    Raises:
        DataError: the file is not such a table.
        TargetError: the answers in it are not what was said.
    """
    path = folder / spec.file
    answers = table.read(
        path,
        probabilities=spec.probabilities,
        label=spec.label,
        member=spec.member,
        output=spec.output,
    )
    # the only "feature" of a record is its row; the target offers no features, so nobody reads it
    rows = np.arange(len(answers.label))[:, None]
    records = Records(rows, answers.label)
    return Subject(
        target=answers.target,
        members=records.take(answers.member),
        nonmembers=records.take(~answers.member),
        class_names=spec.class_names,
        fingerprint=saved.fingerprint_file(path),
        guarantee=_claimed(spec),
    )


def _target(spec: specs.TargetSpec, folder: Path) -> tuple[Target, str | None]:
    file, name = objects.split(spec.model)
    if not name:
        path = folder / file
        factory = objects.named(spec.factory, folder) if spec.factory else None
        target = saved.load(
            path,
            spec.output,
            factory=factory,
            batch_size=spec.batch_size,
            device=spec.device,
            classes=spec.classes,
        )
        return target, saved.fingerprint_file(path)
    model = objects.named(spec.model, folder)
    if inspect.isfunction(model) and not inspect.signature(model).parameters:
        model = objects.called(model, spec.model)
    target = wrap.wrap(
        model,
        spec.output,
        batch_size=spec.batch_size,
        device=spec.device,
        classes=spec.classes,
    )
    # a function from an installed package has no fingerprint: its answers are not kept on disk
    fingerprint = wrap.fingerprint(model)
    if fingerprint is None and file.endswith(".py"):
        fingerprint = saved.fingerprint_file(folder / file)
    return target, fingerprint


def _claimed(spec: specs.TargetSpec | specs.PredictionsSpec) -> Guarantee | None:
    if spec.epsilon is None or spec.delta is None:
        return None
    return Guarantee(spec.epsilon, spec.delta)


def pool(data: specs.DataSpec, folder: Path) -> tuple[Records, Records | None]:
    """All records, members or not, and reference records."""
    if data.records is not None:
        records = _records(data.records, data.label, folder)
    else:
        groups = (_records(str(w), data.label, folder) for w in (data.members, data.nonmembers))
        records = next(groups).joined(next(groups))
    reference = _records(data.reference, data.label, folder) if data.reference else None
    if reference is not None:
        records.joined(reference)  # refuses other shapes
    return records, reference


def shadow_plan(
    train: str,
    models: int,
    output: Output | None,
    folder: Path,
    pool: tuple[Records, ...] = (),
) -> ShadowPlan:
    """The plan of shadows that are trained as a name in a file says.

    Args:
        train: the name.
        models: how many.
        output: what a model answers that a function returned.
        folder: where relative paths start.
        pool: of offline shadows: the records, and these seen otherwise.
    """
    how = objects.named(train, folder)
    file, _ = objects.split(train)
    content = saved.fingerprint_file(folder / file) if file.endswith(".py") else ""
    fingerprint = f"{train} {content} {output}"
    own, otherwise = (pool[0], pool[1:]) if pool else (None, ())
    return ShadowPlan(as_trainer(how, output), models, own, otherwise, fingerprint)


def _shadows(
    spec: specs.ShadowsSpec, output: Output | None, label: str, folder: Path
) -> ShadowPlan:
    pool: tuple[Records, ...] = ()
    if spec.pool:
        own = _records(spec.pool, label, folder)
        pool = (own, *augment.seen(own, ways(spec.augment, folder)))
    return shadow_plan(spec.train, spec.models, output, folder, pool)


def ways(names: Iterable[str], folder: Path) -> tuple[str | Change, ...]:
    """Ways to see candidates otherwise: names as they are, and functions of the user's."""
    return tuple(objects.named(n, folder) if objects.split(n)[1] else n for n in names)


def _records(where: str, label: str, folder: Path) -> Records:
    _, name = objects.split(where)
    if not name:
        return files.read(folder / where, label)
    value = objects.named(where, folder)
    if callable(value):
        value = objects.called(value, where)
    return as_records(value, where)


def _columns(where: str, label: str, folder: Path) -> tuple[str, ...]:
    """The names of features, where a file has them."""
    return () if objects.split(where)[1] else files.features(folder / where, label)


def as_records(pair: Any, where: str) -> Records:
    """Records from a pair of arrays.

    Args:
        pair: ``Records``, or features and labels: arrays, data frames, tensors.
        where: what to call it in a message.

    Raises:
        DataError: it is not such a pair.
    """
    if isinstance(pair, Records):
        return pair
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(f"expected a pair (x, y) for {where}, got {type(pair).__name__}")
    try:
        x, y = (np.asarray(part) for part in pair)
    except Exception as error:
        raise DataError(f"expected arrays x and y for {where}, got: {error}") from error
    return Records(x, files.labels(y, where))
