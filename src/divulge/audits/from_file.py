"""Audits of one model, one table of predictions or one federation, from settings."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from divulge._util.progress import Track
from divulge.audits import config, inputs, runner
from divulge.audits.api import audit_subject
from divulge.audits.challenges import images
from divulge.audits.requested_attacks import requested_attacks
from divulge.audits.result import SecretAudit
from divulge.audits.runner import RunHeading, check_attacks
from divulge.core import Attack
from divulge.federation import Transcript
from divulge.finished_runs.run_folder import Run, open_run_folder
from divulge.finished_runs.stored import refuse_images
from divulge.training.shadows import workers_by_name

T = TypeVar("T")


def audit_settings(
    settings: config.ModelAuditSpec | config.PredictionsAuditSpec | config.FederationAuditSpec,
    place: Path,
    folder: Path,
    track: Track[Any],
    workers: str,
    *,
    resume: bool,
    show_records: bool,
) -> SecretAudit:
    """Audit the one model, table or federation that settings describe.

    Args:
        settings: as read from the file.
        place: where relative paths in them start.
        folder: the run folder.
        track: shows progress.
        workers: who trains models.
        resume: continue the run folder.
        show_records: the page shows images that clients were shown, beside the originals.

    Raises:
        DivulgeError: see `divulge.audit`.
    """
    attacks = requested_attacks(settings, place)
    check_attacks(attacks)
    shown = settings.model_dump(mode="json", exclude_defaults=True)
    heading = RunHeading(settings.name, settings.seed, shown)
    with open_run_folder(folder, resume=resume) as started:
        assert started is not None
        if isinstance(settings, config.FederationAuditSpec):
            attacks = tuple(_with_workers(attack, workers) for attack in attacks)
            return _audit_federation(
                settings, place, attacks, heading, started, track, show_records=show_records
            )
        loaded = [load_visibly(partial(inputs.load_inputs, settings, place), track)]
        if not settings.attacks:  # only the loaded model says whether it answers numbers
            attacks = requested_attacks(settings, place, loaded[0].target.offers)
        workers_object = workers_by_name(workers)
        return audit_subject(  # handed over, so that only what attacks need is kept
            loaded.pop(), attacks, heading, settings.metrics.delta, started, track, workers_object
        )


def load_visibly(load: Callable[[], T], track: Track[Any]) -> T:
    """What a function loads, with a line that says so."""
    with track.step("Loading models and data"):
        return load()


def _with_workers(attack: Attack[Any, Any], workers: str) -> Attack[Any, Any]:
    """The attack; one that trains models itself, by these workers."""
    if workers == "local" or not hasattr(attack, "workers"):
        return attack
    changed: Attack[Any, Any] = dataclasses.replace(attack, workers=workers)  # type: ignore[type-var]
    return changed


def _audit_federation(
    settings: config.FederationAuditSpec,
    place: Path,
    attacks: tuple[Attack[Any, Any], ...],
    heading: RunHeading,
    run: Run,
    track: Track[Any],
    *,
    show_records: bool,
) -> SecretAudit:
    section = getattr(settings, settings.section)
    challenge = load_visibly(partial(settings.secret.pose, section, place), track)
    attacks = challenge.secret.repeat(section, attacks)
    pictures: Mapping[str, bytes] = {}
    if show_records:
        if not challenge.secret.items:
            refuse_images()
        transcript = Transcript.open(place / section.transcript)
        pictures = images.draw_sheets(transcript, challenge.facts.clients)
    audit = runner.run_audit(challenge, attacks, heading, run, track)
    for name, png in pictures.items():
        run.write(name, png)
    audit.report(show_records=show_records)
    return audit
