"""From settings to loaded things: records, the model under audit, how its shadows are trained."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from divulge._util import imports
from divulge._util.json import JSON
from divulge.audits import config, model_sections
from divulge.audits.checkpoints import find_checkpoints, load_file
from divulge.audits.subject import AuditInputs, claimed_guarantee
from divulge.audits.table_inputs import inputs_from_predictions
from divulge.audits.texts import Completion
from divulge.core import (
    AnswerDefence,
    Need,
    Records,
    Target,
)
from divulge.data import augmentation, groups, ids
from divulge.data.ids import Ids
from divulge.data.known_features import KnownFeatures
from divulge.data.records import load_record_sets, load_texts, resolve_augmentations
from divulge.defences import catalog
from divulge.errors import SpecError
from divulge.targets import files, model_facts, wrap
from divulge.targets.fingerprints import fingerprint_model
from divulge.targets.http import HTTPTarget
from divulge.targets.outputs import Output
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer


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
    sets, subpopulations = _load_sets(spec, folder, target)
    members, nonmembers = sets["members"], sets["nonmembers"]
    assert members is not None
    assert nonmembers is not None
    subject = AuditInputs(
        target=target,
        members=members,
        nonmembers=nonmembers,
        reference=sets["reference"],
        class_names=data.class_names,
        fingerprint=fingerprint,
        budget=spec.target.budget,
        batch_size=model_facts.choose_batch_size(target, spec.target.batch_size),
        shadows=_plan_shadows(spec.shadows, spec.target.output, sets["pool"], folder)
        if spec.shadows
        else None,
        thresholds=bool(spec.shadows and spec.shadows.thresholds),
        augment=resolve_augmentations(spec.shadows.augment, folder) if spec.shadows else (),
        guarantee=claimed_guarantee(spec.target),
        known=KnownFeatures(**spec.known.model_dump()) if spec.known else None,
        fitted_on=model_facts.feature_names(target),
        known_members=data.known_members,
        ids=ids_of(str(data.members), members, data.id, folder) if data.id else None,
        drawn=data.membership or "fixed",
        randomised=data.membership is not None,
        checkpoints=find_checkpoints(spec.target, folder),
        person_scores=data.person_scores,
        subpopulations=subpopulations,
        smallest_stratum=data.smallest_stratum,
        completion=Completion(data.prefix, data.suffix),
    )
    defence = answer_defence_from_config(spec.target.answers)
    return subject if defence is None else subject.behind(defence, spec.seed)


def _load_sets(
    spec: config.ModelAuditSpec, folder: Path, target: Target
) -> tuple[dict[str, Records | None], tuple[str, ...]]:
    """By name, the sets of records that settings name, and the names of subpopulations."""
    data = spec.data
    names = {
        "members": str(data.members),
        "nonmembers": str(data.nonmembers),
        "reference": data.reference or None,
        "pool": (spec.shadows.pool if spec.shadows else None) or None,
    }
    places = {kind: name for kind, name in names.items() if name is not None}
    loaded = (
        [load_texts(name, folder) for name in places.values()]
        if Need.TOKENS in target.offers
        else load_record_sets(
            list(places.values()),
            data.label,
            folder,
            data.besides(model_facts.feature_names(target)),
            values=Need.VALUES in target.offers,
        )
    )
    sets: dict[str, Records | None] = dict.fromkeys(names)
    sets |= dict(zip(places, loaded, strict=True))
    return groups.attach(
        sets,
        _read_beside(places, data.group, folder),
        _read_beside(places, data.strata, folder),
    )


def _read_beside(
    places: Mapping[str, str], column: str | None, folder: Path
) -> dict[str, Any] | None:
    """What a column says of each set of records, by name; None without a column."""
    if column is None:
        return None
    return {kind: groups.read_values(name, column, folder) for kind, name in places.items()}


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


def _load_target(spec: model_sections.TargetSpec, folder: Path) -> tuple[Target, str | None]:
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
    return target, spec.fingerprint or fingerprint_model(model)


def _load_endpoint(spec: model_sections.TargetSpec) -> tuple[Target, str]:
    assert spec.url is not None
    endpoint = HTTPTarget(
        spec.url,
        spec.fingerprint or "",
        spec.output or "probabilities",
        spec.classes,
        **dict(spec.http),
    )
    return endpoint, endpoint.identity


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
    spec: model_sections.ShadowsSpec, output: Output | None, own: Records | None, folder: Path
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
