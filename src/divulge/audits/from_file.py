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
from divulge.audits.pose_federation import pose
from divulge.audits.result import SecretAudit
from divulge.audits.run_folder import Run, open_run_folder
from divulge.audits.runner import RunHeading, check_attacks
from divulge.audits.stored import refuse_images
from divulge.audits.wrapped import AfterRounds
from divulge.core import (
    AssignmentFacts,
    Attack,
    Facts,
    InteractionFacts,
    Need,
)
from divulge.errors import SpecError
from divulge.federation import Transcript
from divulge.report.federation.verdicts.judge import UNINFORMED
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
    attacks = config.requested_attacks(settings, place)
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
        subject = load_visibly(partial(inputs.load_inputs, settings, place), track)
        if not settings.attacks:  # only the loaded model says whether it answers numbers
            regression = Need.VALUES in subject.target.offers
            attacks = config.requested_attacks(settings, place, regression=regression)
        who = workers_by_name(workers)
        return audit_subject(subject, attacks, heading, settings.metrics.delta, started, track, who)


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
    challenge = load_visibly(partial(pose, settings, place), track)
    attacks = _repeat_after_rounds(settings, challenge.facts, attacks)
    pictures = _pictures(settings, place, challenge.facts) if show_records else {}
    found = runner.run_audit(challenge, attacks, heading, run, track)
    for name, png in pictures.items():
        run.write(name, png)
    found.report(show_records=show_records)
    return found


def _repeat_after_rounds(
    settings: config.FederationAuditSpec, facts: Facts, attacks: tuple[Attack[Any, Any], ...]
) -> tuple[Attack[Any, Any], ...]:
    """The attacks, and each that looks at anything again after so many rounds as settings say.

    Raises:
        SpecError: there are no more rounds than that.
    """
    if settings.assignment is None or not isinstance(facts, AssignmentFacts):
        return attacks
    after, played = settings.assignment.after_rounds, facts.rounds or 0
    if many := [rounds for rounds in after if rounds >= played]:
        raise SpecError(
            f"expected numbers of rounds below {played} in assignment.after_rounds, got {many[0]}: "
            "attacks see all rounds anyway"
        )
    looking = [attack for attack in attacks if attack.name not in UNINFORMED]
    return (*attacks, *(AfterRounds(a, rounds) for rounds in after for a in looking))


def _pictures(
    settings: config.FederationAuditSpec, folder: Path, facts: Facts
) -> Mapping[str, bytes]:
    """Contact sheets of the images that the first clients were shown.

    Raises:
        SpecError: the audit is about no images.
    """
    if settings.interactions is None or not isinstance(facts, InteractionFacts):
        refuse_images()
    return images.draw_sheets(
        Transcript.open(folder / settings.interactions.transcript), facts.clients
    )
