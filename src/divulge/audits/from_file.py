"""Audits that an ``audit.toml`` describes, of every kind."""

from functools import partial
from pathlib import Path
from typing import Any

from divulge._util.folders import choose_run_folder
from divulge._util.progress import Track, track_silently
from divulge.audits import config, inputs, runner
from divulge.audits.api import audit_subject
from divulge.audits.challenges import assignment, composition, images, interactions
from divulge.audits.challenges.base import Challenge
from divulge.audits.leave_one_out import run as leave_one_out
from divulge.audits.leave_one_out.design import design_from_config
from divulge.audits.leave_one_out.result import LeaveOneOut
from divulge.audits.result import SecretAudit
from divulge.audits.run_folder import open_run_folder
from divulge.audits.runner import RunHeading, check_distinct
from divulge.training.shadows import workers_by_name


def audit_file(
    path: str | Path,
    run: str | Path | None = None,
    *,
    resume: bool = False,
    show_records: bool = False,
    track: Track[Any] = track_silently,
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
        track: shows progress.
        workers: who trains models, as for `audit`.

    Raises:
        DivulgeError: see `audit`.
    """
    who, path = workers_by_name(workers), Path(path)
    settings = config.read_config(path)
    if show_records and not isinstance(settings, config.FederationAuditSpec):
        images.refuse_images()
    choose = partial(choose_run_folder, run, path, settings.name, resume=resume)
    if isinstance(settings, config.LeaveOneOutAuditSpec):
        asked = design_from_config(settings, path.parent)
        folder = leave_one_out.begin(choose(), resume=resume)
        return leave_one_out.audit_each(asked, folder, track, who)
    attacks = config.requested_attacks(settings)
    check_distinct(attacks)
    shown = settings.model_dump(mode="json", exclude_defaults=True)
    heading = RunHeading(settings.name, settings.seed, shown)
    if not isinstance(settings, config.FederationAuditSpec):
        subject = inputs.load_inputs(settings, path.parent)
        started = open_run_folder(choose(), resume=resume)
        return audit_subject(subject, attacks, heading, settings.metrics.delta, started, track, who)
    challenge = _pose(settings, path.parent)
    pictures = challenge.pictures() if show_records else {}
    started = open_run_folder(choose(), resume=resume)
    found = runner.run_audit(challenge, attacks, heading, started, track)
    for name, png in pictures.items():
        started.write(name, png)
    found.report(show_records=show_records)
    return found


def _pose(settings: config.FederationAuditSpec, folder: Path) -> Challenge:
    if settings.updates is not None:
        return composition.pose(settings.updates, folder)
    if settings.interactions is not None:
        return interactions.pose(settings.interactions, folder)
    assert settings.assignment is not None  # one of the three is there
    return assignment.pose(settings.assignment, folder)
