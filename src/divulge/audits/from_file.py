"""Audits that an ``audit.toml`` describes, of every kind."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from divulge._util.folders import choose_run_folder
from divulge._util.progress import Progress, Track, as_track
from divulge.audits import config, inputs, runner
from divulge.audits.api import audit_subject
from divulge.audits.challenges import assignment, composition, images, interactions
from divulge.audits.challenges.base import Challenge
from divulge.audits.leave_one_out import run as leave_one_out
from divulge.audits.leave_one_out.design import design_from_config
from divulge.audits.leave_one_out.result import LeaveOneOut
from divulge.audits.result import SecretAudit
from divulge.audits.run_folder import Run, open_run_folder
from divulge.audits.runner import RunHeading, check_distinct
from divulge.core import Attack
from divulge.training.shadows import workers_by_name

T = TypeVar("T")


def audit_file(
    path: str | Path,
    run: str | Path | None = None,
    *,
    resume: bool = False,
    show_records: bool = False,
    progress: Progress = False,
    workers: str = "local",
) -> SecretAudit | LeaveOneOut:
    """Audit what an ``audit.toml`` describes: a model, models in turn, or a federation.

    Args:
        path: the settings; relative paths in them start at its folder.
        run: the run folder; by default the next free ``runs/NAME-001`` beside the settings, or
            the latest one with ``resume``.
        resume: continue the run folder.
        show_records: the page shows images that clients were shown, beside the originals: of
            ``[interactions]`` whose transcript has them.
        progress: True shows how far the work is; see `divulge.Options`.
        workers: who trains models, as for `audit`.

    Raises:
        DivulgeError: see `audit`.
    """
    who, path = workers_by_name(workers), Path(path)
    settings = config.read_config(path)
    if show_records and not isinstance(settings, config.FederationAuditSpec):
        images.refuse_images()
    folder = choose_run_folder(run, path, settings.name, resume=resume)
    track = as_track(progress)
    if isinstance(settings, config.LeaveOneOutAuditSpec):
        with leave_one_out.take_folder(folder, resume=resume):
            asked = _load(partial(design_from_config, settings, path.parent), track)
            return leave_one_out.audit_each(asked, folder, track, who)
    attacks = config.requested_attacks(settings)
    check_distinct(attacks)
    shown = settings.model_dump(mode="json", exclude_defaults=True)
    heading = RunHeading(settings.name, settings.seed, shown)
    with open_run_folder(folder, resume=resume) as started:
        assert started is not None
        if isinstance(settings, config.FederationAuditSpec):
            challenge = _load(partial(_pose, settings, path.parent), track)
            return _audit_federation(
                challenge, attacks, heading, started, track, show_records=show_records
            )
        subject = _load(partial(inputs.load_inputs, settings, path.parent), track)
        return audit_subject(subject, attacks, heading, settings.metrics.delta, started, track, who)


def _load(load: Callable[[], T], track: Track[Any]) -> T:
    loaded = [load() for _ in track([load], "Loading models and data")]
    return loaded[0]


def _audit_federation(
    challenge: Challenge,
    attacks: tuple[Attack[Any, Any], ...],
    heading: RunHeading,
    run: Run,
    track: Track[Any],
    *,
    show_records: bool,
) -> SecretAudit:
    pictures = challenge.pictures() if show_records else {}
    found = runner.run_audit(challenge, attacks, heading, run, track)
    for name, png in pictures.items():
        run.write(name, png)
    found.report(show_records=show_records)
    return found


def _pose(settings: config.FederationAuditSpec, folder: Path) -> Challenge:
    if settings.updates is not None:
        return composition.pose(settings.updates, folder)
    if settings.interactions is not None:
        return interactions.pose(settings.interactions, folder)
    assert settings.assignment is not None  # one of the three is there
    return assignment.pose(settings.assignment, folder)
