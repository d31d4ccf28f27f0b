"""The path that every audit takes: begin the run, prepare, attack, control, store."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from divulge._util.json import JSON
from divulge._util.progress import Track, track_silently
from divulge.attacks import own
from divulge.audits.challenges.base import Challenge, finding_key, run_attack
from divulge.audits.result import SecretAudit, audit_of
from divulge.core import Attack, Contents, Entry, Facts, Head, Status
from divulge.errors import SpecError
from divulge.finished_runs.run_folder import Run
from divulge.finished_runs.run_json import new_head
from divulge.secrets import wrapped
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
    head = _head(challenge, attacks, heading)
    if folder is not None:  # another challenge is refused before models are trained for it
        folder.continues(head)
    ready = challenge.prepare(None if folder is None else folder.path, track, workers)
    head = replace(head, facts=ready.facts)  # shadow models, once trained, are checked too
    if folder is not None:
        head = folder.begin(head, challenge.candidates)
    before = {} if folder is None else folder.entries()
    entries = []
    for attack, key in zip(attacks, head.findings, strict=True):
        entry = _entry(ready, attack, heading.seed, folder, key, before.get(key), track)
        if folder is None:
            entries.append(entry)
        del entry  # where there is a folder it is in there, and may be large
    if folder is None:
        return audit_of(Contents(head, challenge.candidates, tuple(entries)))
    return SecretAudit.load(folder.path)


def _entry(
    challenge: Challenge,
    attack: Attack[Any, Any],
    seed: int,
    folder: Run | None,
    key: str,
    before: Entry | None,
    track: Track[Any],
) -> Entry:
    """What one attack found; a finding that is stored and did not fail is not computed again."""
    # what failed may have been a passing fault, such as a model that did not answer
    if before is not None and before.finding.status is not Status.FAILED:
        return before
    entry = run_attack(challenge, attack, seed, track)
    if folder:
        folder.put(key, entry)
    return entry


def _head(
    challenge: Challenge, attacks: Sequence[Attack[Any, Any]], heading: RunHeading
) -> Head[Facts]:
    return new_head(
        "audit",
        *heading,
        challenge=challenge.digest,
        facts=challenge.facts,
        attacks=tuple(wrapped.attack_label(attack) for attack in attacks),
        findings=tuple(finding_key(challenge, attack, heading.seed) for attack in attacks),
        libraries=challenge.libraries,
    )


def check_attacks(attacks: Iterable[Attack[Any, Any]]) -> None:
    """Refuse what is no attack, and to run one attack twice.

    Raises:
        SpecError: names the attack, and what it lacks.
    """
    labels: set[str] = set()
    for attack in attacks:
        own.check_attack_object(attack)
        label = wrapped.attack_label(attack)
        if label in labels:
            raise SpecError(f"expected different attacks, got {label} twice: drop one")
        labels.add(label)
