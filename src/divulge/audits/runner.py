"""The path that every audit takes: begin the run, prepare, attack, control, store."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, NamedTuple

from divulge._util.json import JSON
from divulge._util.progress import Track, track_silently
from divulge.attacks import own
from divulge.audits import attempt
from divulge.audits.challenges.base import Challenge, finding_key, run_attack
from divulge.audits.result import SecretAudit, audit_of, load_audit
from divulge.audits.run_folder import Run, describe_environment
from divulge.core import Attack, Contents, Entry, Manifest, Status
from divulge.errors import SpecError
from divulge.training.shadows.workers import Workers


class RunHeading(NamedTuple):
    """What a run is called, and what it was asked for with."""

    name: str
    seed: int
    settings: dict[str, JSON]


def run_audit(
    challenge: Challenge,
    attacks: Sequence[Attack[Any, Any]],
    heading: RunHeading,
    folder: Run | None = None,
    track: Track[Any] = track_silently,
    workers: Workers | None = None,
) -> SecretAudit:
    """Put a challenge to attacks.

    With a run folder, each finding is stored as soon as it is there, and what is stored already
    is not computed again.

    Args:
        challenge: of any secret.
        attacks: on that secret.
        heading: the name of the run, the seed, and the settings as the user gave them.
        folder: the run folder.
        track: shows progress.
        workers: who trains shadow models.

    Raises:
        SpecError: an attack stands there twice.
        StoreError: the folder belongs to another challenge, or cannot be written.
        TargetError: a shadow model could not be trained.
    """
    check_attacks(attacks)
    manifest = _manifest(challenge, attacks, heading)
    if folder is not None:
        manifest = folder.begin(manifest, challenge.candidates)
    ready = challenge.prepare(None if folder is None else folder.path, track, workers)
    if ready.facts != manifest.facts:  # shadow models, once trained, are checked too
        manifest = replace(manifest, facts=ready.facts)
        if folder is not None:
            folder.begin(manifest, challenge.candidates)
    entries = [
        _entry(ready, attack, key, heading.seed, folder, track)
        for attack, key in zip(attacks, manifest.findings, strict=True)
    ]
    if folder is None:
        return audit_of(Contents(manifest, challenge.candidates, tuple(entries)))
    return load_audit(folder.path)


def _entry(
    challenge: Challenge,
    attack: Attack[Any, Any],
    key: str,
    seed: int,
    folder: Run | None,
    track: Track[Any],
) -> Entry:
    """What one attack found; a finding that is stored and did not fail is not computed again."""
    before = folder.get(key) if folder else None
    # what failed may have been a passing fault, such as a model that did not answer
    if before is not None and before.finding.status is not Status.FAILED:
        return before
    entry = run_attack(challenge, attack, seed, track)
    if folder:
        folder.put(key, entry)
    return entry


def _manifest(
    challenge: Challenge, attacks: Sequence[Attack[Any, Any]], heading: RunHeading
) -> Manifest:
    return Manifest(
        name=heading.name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        challenge=challenge.digest,
        seed=heading.seed,
        attacks=tuple(attempt.attack_label(attack) for attack in attacks),
        findings=tuple(finding_key(challenge, attack, heading.seed) for attack in attacks),
        settings=heading.settings,
        environment=describe_environment(),
        facts=challenge.facts,
        divulge=version("divulge"),
    )


def check_attacks(attacks: Iterable[Attack[Any, Any]]) -> None:
    """Refuse what is no attack, and to run one attack twice.

    Raises:
        SpecError: names the attack, and what it lacks.
    """
    seen: set[str] = set()
    for attack in attacks:
        own.check_attack_object(attack)
        label = attempt.attack_label(attack)
        if label in seen:
            raise SpecError(f"expected different attacks, got {label} twice: drop one")
        seen.add(label)
