"""From settings to loaded things: records, the model under audit, how its shadows are trained."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import numpy as np
from jaxtyping import Float64

from divulge._util import imports
from divulge._util.json import JSON
from divulge.audits import config
from divulge.audits.checkpoints import Checkpoint, find_checkpoints, load_file
from divulge.core import (
    AnswerDefence,
    Check,
    Guarantee,
    MembershipDraw,
    Need,
    Records,
    Target,
    Verdict,
)
from divulge.data import augmentation, ids
from divulge.data.augmentation import Augmentation
from divulge.data.ids import Ids
from divulge.data.known_features import KnownFeatures
from divulge.data.records import load_record_sets, resolve_augmentations
from divulge.defences import catalog
from divulge.errors import SpecError
from divulge.targets import files, wrap
from divulge.targets import predictions as targets_predictions
from divulge.targets.blind_column import read_blind
from divulge.targets.defended import DefendedTarget
from divulge.targets.given_scores import ScoreKind, read_scores
from divulge.targets.http import HTTPTarget
from divulge.targets.outputs import Output
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer


@dataclass(frozen=True, slots=True)
class AuditInputs:
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
    thresholds: bool = False
    """Whether shadow models also choose thresholds."""
    augment: tuple[str | Augmentation, ...] = ()
    """Ways in which candidates are seen otherwise, for further queries."""
    guarantee: Guarantee | None = None
    """What is claimed for the model."""
    known: KnownFeatures | None = None
    """What the attacker knows of each candidate; None is all."""
    known_members: float | None = None
    """How many members the attacker knows: below 1 a share of them, else their number."""
    fitted_on: tuple[str, ...] = ()
    """Names of the features in the order of the model, if it knows them."""
    ids: Ids | None = None
    """The user's own, one a member."""
    drawn: MembershipDraw = "fixed"
    """How it was decided who is a member."""
    randomised: bool = False
    """Whether the user says so."""
    defence: AnswerDefence | None = None
    """What changes the model's answers before anybody sees them."""
    noticed: tuple[Check, ...] = ()
    """What the page says of how the data were read."""
    key: int = 0
    """The model's secret, from which the randomness of the defence follows."""
    ease: Float64[np.ndarray, " rows"] | None = None
    """Of a table: how easy each row is for what never saw it, by a column of its own."""
    blind: str = ""
    """The name of that column."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """The model during its training, in that order, without the last state."""

    def behind(self, defence: AnswerDefence, key: int) -> "AuditInputs":
        """The same with an answer defence before the model, and before its shadows.

        Args:
            defence: what changes their answers.
            key: the model's secret; shadows have their own.
        """
        if self.checkpoints:
            raise SpecError(
                "expected no checkpoints beside an answer defence, got some: whoever has the "
                "model's checkpoints does not need its answers"
            )
        name = None if self.fingerprint is None else f"{self.fingerprint} {defence!r} {key}"
        DefendedTarget(self.target, defence, key)  # refuses a model that gives labels alone
        return replace(
            self,
            defence=defence,
            key=key,
            fingerprint=name,
            shadows=None if self.shadows is None else replace(self.shadows, answers=defence),
        )


def load_inputs(
    spec: config.ModelAuditSpec | config.PredictionsAuditSpec, folder: Path
) -> AuditInputs:
    """The model and records that settings name, or the table of its answers.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    if isinstance(spec, config.PredictionsAuditSpec):
        return inputs_from_predictions(spec.predictions, folder)
    data = spec.data
    if spec.shadows:
        imports.load_object(spec.shadows.train, folder)  # a misspelt name, before anything long
    target, fingerprint = _load_target(spec.target, folder)
    pool_name = spec.shadows.pool if spec.shadows else None
    names = [str(data.members), str(data.nonmembers), data.reference or None, pool_name or None]
    named = [name for name in names if name is not None]
    values = Need.VALUES in target.offers
    sets = iter(load_record_sets(named, data.label, folder, data.id, values=values))
    members, nonmembers, reference, pool = (None if name is None else next(sets) for name in names)
    assert members is not None
    assert nonmembers is not None
    subject = AuditInputs(
        target=target,
        members=members,
        nonmembers=nonmembers,
        reference=reference,
        class_names=data.class_names,
        fingerprint=fingerprint,
        budget=spec.target.budget,
        batch_size=wrap.choose_batch_size(target, spec.target.batch_size),
        shadows=_plan_shadows(spec.shadows, spec.target.output, pool, folder)
        if spec.shadows
        else None,
        thresholds=bool(spec.shadows and spec.shadows.thresholds),
        augment=resolve_augmentations(spec.shadows.augment, folder) if spec.shadows else (),
        guarantee=_claimed_guarantee(spec.target),
        known=KnownFeatures(**spec.known.model_dump()) if spec.known else None,
        fitted_on=wrap.feature_names(target),
        known_members=data.known_members,
        ids=ids_of(str(data.members), members, data.id, folder) if data.id else None,
        drawn=data.membership or "fixed",
        randomised=data.membership is not None,
        checkpoints=find_checkpoints(spec.target, folder),
    )
    defence = answer_defence_from_config(spec.target.answers)
    return subject if defence is None else subject.behind(defence, spec.seed)


def answer_defence_from_config(settings: JSON) -> AnswerDefence | None:
    """The answer defence that a key ``answers`` asks for; None without one.

    Raises:
        SpecError: there is none of this name, or a setting is wrong.
    """
    if settings is None:
        return None
    further = dict(settings) if isinstance(settings, Mapping) else {}
    name = further.pop("name", None)
    if not isinstance(name, str):
        raise SpecError(
            f'expected name = "..." in answers, got {settings}: see `divulge list defences`'
        )
    return catalog.answer_defence(name, **further)


def inputs_from_predictions(spec: config.PredictionsSpec, folder: Path) -> AuditInputs:
    """An exported table of answers as a subject.

    Raises:
        DataError: the file is not such a table.
        TargetError: the answers in it are not what was said.
    """
    path = folder / spec.file
    if spec.given is not None:
        return _inputs_from_scores(spec, path, *spec.given)
    answers = targets_predictions.read_predictions(
        path,
        probabilities=spec.probabilities,
        label=spec.label,
        member=spec.member,
        member_value=spec.member_value,
        class_names=spec.class_names,
        output=spec.output,
        own_id=spec.id,
        also=() if spec.blind is None else (spec.blind,),
    )
    # the only "feature" of a record is its row; the target offers no features, so nobody reads it
    rows = np.arange(len(answers.label))[:, None]
    records = Records(rows, answers.label)
    return AuditInputs(
        target=answers.target,
        members=records.take(answers.member),
        nonmembers=records.take(~answers.member),
        class_names=answers.classes,
        noticed=_describe_columns(answers),
        fingerprint=files.fingerprint_file(path),
        guarantee=_claimed_guarantee(spec),
        ids=ids.read_ids(path, spec.id, len(rows))[answers.member] if spec.id else None,
        drawn=spec.membership or "fixed",
        randomised=spec.membership is not None,
        **_read_ease(spec, path),
    )


def _inputs_from_scores(
    spec: config.PredictionsSpec, path: Path, kind: ScoreKind, column: str
) -> AuditInputs:
    """A table of losses or scores as a subject."""
    table = read_scores(
        path, kind, column, member=spec.member, member_value=spec.member_value, own_id=spec.id
    )
    rows = np.arange(len(table.score))[:, None]
    # nothing is known of classes: all records are of one, which nobody shows
    records = Records(rows, np.zeros(len(rows), np.int64))
    return AuditInputs(
        target=table.target,
        members=records.take(table.member),
        nonmembers=records.take(~table.member),
        noticed=(
            Check("membership column", Verdict.PASS, table.membership),
            Check(f"{kind} column", Verdict.PASS, table.how),
        ),
        fingerprint=files.fingerprint_file(path),
        guarantee=_claimed_guarantee(spec),
        ids=ids.read_ids(path, spec.id, len(rows))[table.member] if spec.id else None,
        drawn=spec.membership or "fixed",
        randomised=spec.membership is not None,
        **_read_ease(spec, path),
    )


class _BlindColumn(TypedDict, total=False):
    ease: Float64[np.ndarray, " rows"]
    blind: str


def _read_ease(spec: config.PredictionsSpec, path: Path) -> _BlindColumn:
    """The column that never saw the model, if one is named."""
    if spec.blind is None:
        return {}
    taken = {"the membership": spec.member, "your ids": spec.id}
    if spec.given is None:
        taken["the class"] = spec.label
    else:
        taken[f"the {spec.given[0]}"] = spec.given[1]
    return {"ease": read_blind(path, spec.blind, taken), "blind": spec.blind}


def _describe_columns(table: targets_predictions.PredictionTable) -> tuple[Check, ...]:
    """What the page says of how the file, labels and the member column were understood."""
    said = [
        Check("format of the table", Verdict.PASS, table.notation),
        Check("membership column", Verdict.PASS, table.membership),
        Check("labels", Verdict.PASS, table.matching),
    ]
    return tuple(check for check in said if check.text)


def _load_target(spec: config.TargetSpec, folder: Path) -> tuple[Target, str | None]:
    if spec.url is not None:
        return _load_endpoint(spec)
    assert spec.model is not None  # one of the two is there
    file, name = imports.split_reference(spec.model)
    if not name:
        path = folder / file
        return load_file(spec, path, folder), spec.fingerprint or files.fingerprint_file(path)
    model = imports.load_object(spec.model, folder)
    if inspect.isfunction(model) and not inspect.signature(model).parameters:
        model = imports.call_user_code(model, spec.model)
    target = wrap.as_target(
        model,
        spec.output,
        batch_size=spec.batch_size,
        device=spec.device,
        classes=spec.classes,
        output_name=spec.output_name,
        time_limit=spec.time_limit,
    )
    # a function may read its weights from anywhere: unless it is named, answers are not kept
    return target, spec.fingerprint or wrap.fingerprint_model(model)


def _load_endpoint(spec: config.TargetSpec) -> tuple[Target, str]:
    assert spec.url is not None
    endpoint = HTTPTarget(
        spec.url,
        spec.fingerprint or "",
        spec.output or "probabilities",
        spec.classes,
        **dict(spec.http),
    )
    return endpoint, endpoint.identity


def _claimed_guarantee(spec: config.TargetSpec | config.PredictionsSpec) -> Guarantee | None:
    if spec.epsilon is None or spec.delta is None:
        return None
    return Guarantee(spec.epsilon, spec.delta, noise=spec.noise)


def plan_shadows(
    train: str,
    models: int,
    output: Output | None,
    folder: Path,
    pool: tuple[Records, ...] = (),
    answers: AnswerDefence | None = None,
) -> ShadowPlan:
    """The plan of shadows that are trained as a name in a file says.

    Args:
        train: the name.
        models: how many.
        output: what a model answers that a function returned.
        folder: where relative paths start.
        pool: of offline shadows: the records, and these seen otherwise.
        answers: what stands between the models and whoever asks them.
    """
    how = imports.load_object(train, folder)
    fingerprint = f"{train} {files.fingerprint_code(train, folder)} {output}"
    own, otherwise = (pool[0], pool[1:]) if pool else (None, ())
    trainer = as_trainer(how, output)
    return ShadowPlan(trainer, models, own, otherwise, fingerprint, answers=answers)


def _plan_shadows(
    spec: config.ShadowsSpec, output: Output | None, own: Records | None, folder: Path
) -> ShadowPlan:
    pool: tuple[Records, ...] = ()
    if own is not None:
        pool = (own, *augmentation.augment(own, resolve_augmentations(spec.augment, folder)))
    return replace(
        plan_shadows(spec.train, spec.models, output, folder, pool), cascade=spec.cascade
    )


def ids_of(where: str, records: Records, own_id: str, folder: Path) -> Ids:
    """The user's own ids of these records.

    Args:
        where: the name of the records.
        records: how many ids there have to be.
        own_id: the column of their file; where they are an object, that of the ids likewise.
        folder: where relative paths start.

    Raises:
        DivulgeError: there are none of this name, or they do not fit.
    """
    if not imports.split_reference(where)[1]:
        return ids.read_ids(folder / where, own_id, len(records))
    value = imports.load_object(own_id, folder)
    value = imports.call_user_code(value, own_id) if callable(value) else value
    return ids.as_ids(value, len(records), own_id)
