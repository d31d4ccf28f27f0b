"""The path of an audit of a federation: question, attacks, store, report."""

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from divulge._util.folders import place
from divulge._util.progress import Track, untracked
from divulge.audits import attempt, config
from divulge.audits.challenges import assignment, composition, interactions, result
from divulge.audits.challenges.base import Question
from divulge.audits.challenges.result import FederatedAudit, Plan
from divulge.audits.config import FEDERATED
from divulge.audits.run_folder import Entry, Run, environment, run_folder
from divulge.audits.runner import check_distinct
from divulge.core import Attack, Status
from divulge.errors import SpecError

QUESTIONS: Mapping[str, Callable[[Any, Path], Question]] = {
    "updates": composition.question,
    "interactions": interactions.question,
    "assignment": assignment.question,
}
"""By section: what asks its question."""


def federated_file(
    path: str | Path,
    run: str | Path | None = None,
    *,
    resume: bool = False,
    show_records: bool = False,
    track: Track[Any] = untracked,
) -> FederatedAudit:
    """Audit the federation that an ``audit.toml`` describes.

    Args:
        path: the settings; relative paths in them start at its folder.
        run: the run folder; by default the next free ``runs/NAME-001`` beside the settings, or
            the latest one with ``resume``.
        resume: continue the run folder.
        show_records: the report shows images that clients were handed, beside the originals.
        track: shows progress.

    Raises:
        DivulgeError: what the settings name, or a setting, cannot be used.
    """
    path = Path(path)
    settings = config.read(path)
    if settings.federated is None:
        wanted = " or ".join(f"[{name}]" for name in FEDERATED)
        raise SpecError(f"{path}: expected {wanted}, got none: use audit_file")
    attacks = config.federated_attacks(settings)
    check_distinct(attacks)
    section = settings.federated
    asked = QUESTIONS[section](getattr(settings, section), path.parent)
    pictures = asked.records() if show_records else {}
    folder = run_folder(place(run, path, settings.name, resume=resume), resume=resume)
    plan = Plan(
        name=settings.name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        challenge=asked.digest,
        seed=settings.seed,
        subject=asked.subject,
        attacks=tuple(attempt.label(attack) for attack in attacks),
        findings=tuple(_key(asked, attack, settings.seed) for attack in attacks),
        settings=settings.model_dump(mode="json", exclude_defaults=True),
        environment=environment(),
        divulge=version("divulge"),
    )
    result.begin(folder, plan)
    for attack, key in zip(attacks, plan.findings, strict=True):
        _attack(folder, key, asked, attack, settings.seed, track)
    for name, png in pictures.items():
        folder.write(name, png)
    found = result.load(folder.path)
    found.report(show_records=show_records)
    return found


def _attack(
    run: Run, key: str, asked: Question, attack: Attack[Any, Any], seed: int, track: Track[Any]
) -> None:
    """Attack, and store what came of it; what is stored already is left alone."""
    before = run.get(key)
    if before is not None and before.finding.status is not Status.FAILED:
        return
    finding, guess = asked.run(attack, seed, track)
    if guess is None:
        run.put(key, Entry(finding))
        return
    control = asked.blind(attack, seed, track)
    run.put(key, Entry(finding, arrays=asked.subject.arrays(guess), blind=control))


def _key(asked: Question, attack: Attack[Any, Any], seed: int) -> str:
    settings = sorted(attempt.settings(attack).items())
    text = f"{asked.digest} {seed} {settings!r}"
    return f"{attack.name}-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
