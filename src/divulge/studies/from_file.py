"""Audits that an ``audit.toml`` describes, of every kind."""

from functools import partial
from pathlib import Path

from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import choose_run_folder
from divulge._util.progress import Progress, as_track
from divulge.audits import config
from divulge.audits.from_file import audit_settings, load_visibly
from divulge.audits.result import SecretAudit
from divulge.finished_runs.stored import refuse_images
from divulge.studies.leave_one_out import run as leave_one_out
from divulge.studies.leave_one_out.design import design_from_config
from divulge.studies.leave_one_out.result import LeaveOneOut
from divulge.training.shadows import workers_by_name


@check_arguments
def audit_file(
    path: FilePath,
    run: FilePath | None = None,
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
    workers_object, path = workers_by_name(workers), Path(path)
    settings = config.read_config(path)
    if show_records and not isinstance(settings, config.FederationAuditSpec):
        refuse_images()
    folder = choose_run_folder(run, path, settings.name, resume=resume)
    track = as_track(progress)
    if isinstance(settings, config.LeaveOneOutAuditSpec):
        with leave_one_out.take_folder(folder, resume=resume):
            design = load_visibly(partial(design_from_config, settings, path.parent), track)
            return leave_one_out.audit_each(design, folder, track, workers_object)
    return audit_settings(
        settings, path.parent, folder, track, workers, resume=resume, show_records=show_records
    )
