"""Audits that an ``audit.toml`` describes, of every kind."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import choose_run_folder
from divulge._util.progress import Progress, Track, as_track
from divulge.audits import config, inputs, runner
from divulge.audits.api import audit_subject
from divulge.audits.attempt import AfterRounds
from divulge.audits.challenges import images
from divulge.audits.leave_one_out import run as leave_one_out
from divulge.audits.leave_one_out.design import design_from_config
from divulge.audits.leave_one_out.result import LeaveOneOut
from divulge.audits.pose_federation import pose
from divulge.audits.result import SecretAudit
from divulge.audits.run_folder import Run, open_run_folder
from divulge.audits.runner import RunHeading, check_attacks
from divulge.audits.runs import refuse_images
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
    who, path = workers_by_name(workers), Path(path)
    settings = config.read_config(path)
    if show_records and not isinstance(settings, config.FederationAuditSpec):
        refuse_images()
    folder = choose_run_folder(run, path, settings.name, resume=resume)
    track = as_track(progress)
    if isinstance(settings, config.LeaveOneOutAuditSpec):
        with leave_one_out.take_folder(folder, resume=resume):
            asked = _load(partial(design_from_config, settings, path.parent), track)
            return leave_one_out.audit_each(asked, folder, track, who)
    attacks = config.requested_attacks(settings, path.parent)
    check_attacks(attacks)
    shown = settings.model_dump(mode="json", exclude_defaults=True)
    heading = RunHeading(settings.name, settings.seed, shown)
    with open_run_folder(folder, resume=resume) as started:
        assert started is not None
        if isinstance(settings, config.FederationAuditSpec):
            place = path.parent
            attacks = tuple(_with_workers(attack, workers) for attack in attacks)
            return _audit_federation(
                settings, place, attacks, heading, started, track, show_records=show_records
            )
        subject = _load(partial(inputs.load_inputs, settings, path.parent), track)
        if not settings.attacks:  # only the loaded model says whether it answers numbers
            regression = Need.VALUES in subject.target.offers
            attacks = config.requested_attacks(settings, path.parent, regression=regression)
        return audit_subject(subject, attacks, heading, settings.metrics.delta, started, track, who)


def _load(load: Callable[[], T], track: Track[Any]) -> T:
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
    challenge = _load(partial(pose, settings, place), track)
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
