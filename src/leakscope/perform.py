"""The path every audit takes: prepare, check, attack, store, report."""

import datetime as dt
import os
import platform
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from leakscope import auditing, build, controls, shadowing
from leakscope.core import Claim, MembershipAttack, Need, Private, Status
from leakscope.data import checks
from leakscope.errors import SpecError
from leakscope.progress import Track, untracked
from leakscope.result import Audit, load
from leakscope.store import Candidates, Contents, Entry, Manifest, Run


def perform(
    subject: build.Subject,
    *,
    attacks: tuple[MembershipAttack, ...],
    settings: dict[str, Any],
    seed: int,
    delta: float | None,
    name: str,
    run: Run | None,
    track: Track[Any] = untracked,
) -> Audit:
    """Audit a subject.

    With a run folder, each finding is stored as soon as it is there, and what is stored already
    is not computed again. The epsilon bound is taken at the δ given, else at that of the claim.
    """
    check_distinct(attacks)
    claim = _claim(subject)
    if delta is None:
        delta = claim.guarantee.delta if claim else 0.0
    # without a fingerprint nothing could tell these answers from those of a changed model
    answers_path = run.path / "answers.sqlite" if run and subject.fingerprint else None
    prepared = build.prepare(subject, seed, delta, answers_path, track)
    manifest = replace(
        _manifest(subject, prepared, attacks, settings, seed, delta, name), claim=claim
    )
    candidates = Candidates(
        prepared.challenge.truth.member, prepared.challenge.view.records.y, prepared.index
    )
    if run:
        run.begin(manifest, candidates)
    if subject.shadows is not None:
        view = prepared.challenge.view
        shadows = shadowing.train(view, subject.shadows, prepared.digest, seed, run, track)
        challenge = replace(prepared.challenge, view=replace(view, shadows=shadows))
        prepared = replace(prepared, challenge=challenge)
    entries = []
    for attack in track(attacks, "Attacking"):
        key = build.finding_key(prepared.digest, attack)
        entry = run.get(key) if run else None
        # what failed may have been a passing fault, such as a model that did not answer
        if entry is None or entry.finding.status is Status.FAILED:
            entry = _attack(prepared, attack, seed, delta)
            if run:
                run.put(key, entry)
        entries.append(entry)
    if run is None:
        return Audit(Contents(manifest, candidates, tuple(entries)))
    found = load(run.path)
    found.report()
    return found


def check_distinct(attacks: Iterable[MembershipAttack]) -> None:
    """Refuse to run one attack twice.

    Raises:
        SpecError: names the attack.
    """
    seen: set[str] = set()
    for attack in attacks:
        label = auditing.label(attack)
        if label in seen:
            raise SpecError(f"expected different attacks, got {label} twice: drop one")
        seen.add(label)


def _claim(subject: build.Subject) -> Claim | None:
    """What was stated; failing that, what training shadows in the target's way promises."""
    if subject.guarantee is not None:
        return Claim(subject.guarantee)
    trainer: object = subject.shadows.trainer if subject.shadows else None
    promised = trainer.guarantee(len(subject.members)) if isinstance(trainer, Private) else None
    return Claim(promised, derived=True) if promised else None


def _attack(prepared: build.Prepared, attack: MembershipAttack, seed: int, delta: float) -> Entry:
    finding, guess = auditing.run(prepared.challenge, attack, seed, delta)
    if guess is None:
        return Entry(finding)
    return Entry(finding, controls.check(prepared.challenge, attack, guess, seed), guess.score)


def _manifest(
    subject: build.Subject,
    prepared: build.Prepared,
    attacks: Iterable[MembershipAttack],
    settings: dict[str, Any],
    seed: int,
    delta: float,
    name: str,
) -> Manifest:
    view, truth = prepared.challenge.view, prepared.challenge.truth
    question = checks.Subject(
        view.records,
        truth.member,
        view.reference,
        prepared.answers,
        features=Need.FEATURES in view.offers,
    )
    return Manifest(
        name=name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        challenge=prepared.digest,
        seed=seed,
        delta=delta,
        members=len(subject.members),
        nonmembers=len(subject.nonmembers),
        reference=0 if subject.reference is None else len(subject.reference),
        classes=prepared.answers.shape[1],
        class_names=prepared.class_names,
        attacks=tuple(auditing.label(attack) for attack in attacks),
        settings=settings,
        environment=_environment(),
        checks=checks.check(question, seed),
        leakscope=version("leakscope"),
    )


def _environment() -> dict[str, str]:
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        **packages,
    }
