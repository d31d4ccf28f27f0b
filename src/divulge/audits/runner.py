"""The path every audit takes: prepare, check, attack, store, report."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Literal

import numpy as np

from divulge._util.progress import Track, untracked
from divulge.audits import attempt, controls, inputs
from divulge.audits.challenges import membership
from divulge.audits.checks import records
from divulge.audits.result import Audit, load
from divulge.audits.run_folder import Candidates, Contents, Entry, Manifest, Run, environment
from divulge.core import Attack, Claim, MembershipAttack, Need, Private, Status
from divulge.errors import SpecError
from divulge.training.shadows import train
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import Workers


def perform(
    subject: inputs.Subject,
    *,
    attacks: tuple[MembershipAttack, ...],
    settings: dict[str, Any],
    seed: int,
    delta: float | None,
    name: str,
    run: Run | None,
    track: Track[Any] = untracked,
    workers: Workers | None = None,
) -> Audit:
    """Audit a subject.

    With a run folder, each finding is stored as soon as it is there, and what is stored already
    is not computed again. The epsilon bound is taken at the δ given, else at that of the claim.
    """
    check_distinct(attacks)
    check_delta(delta)
    claim = _claim(subject)
    if delta is None:
        delta = claim.guarantee.delta if claim else 0.0
    # without a fingerprint nothing could tell these answers from those of a changed model
    answers_path = run.path / "answers.sqlite" if run and subject.fingerprint else None
    prepared = membership.prepare(subject, seed, delta, answers_path, track)
    contents = begun(prepared, prepared.shadows, claim, attacks, settings, seed, delta, name, run)
    if prepared.shadows is not None:
        view, folder = prepared.challenge.view, run.path if run else None
        shadows = train.train(view, prepared.shadows, seed, folder, track, workers)
        looks = view.known is not None and any(Need.PARTIAL in one.needs for one in attacks)
        first = train.first(view, prepared.shadows, seed) if looks else None
        challenge = replace(prepared.challenge, view=replace(view, shadows=shadows, shadow=first))
        prepared = replace(prepared, challenge=challenge)
    found = attacked(prepared, attacks, contents, run, track)
    if run:
        found.report()
    return found


def begun(
    prepared: membership.Prepared,
    shadows: ShadowPlan | None,
    claim: Claim | None,
    attacks: tuple[MembershipAttack, ...],
    settings: dict[str, Any],
    seed: int,
    delta: float,
    name: str,
    run: Run | None,
) -> Contents:
    """A run without findings, in memory and in its folder.

    Raises:
        StoreError: the folder belongs to another challenge, or cannot be written.
    """
    manifest = replace(
        _manifest(prepared, shadows, attacks, settings, seed, delta, name), claim=claim
    )
    view, truth = prepared.challenge.view, prepared.challenge.truth
    candidates = Candidates(truth.member, view.records.y, prepared.index, prepared.ids)
    if run:
        run.begin(manifest, candidates)
    return Contents(manifest, candidates, ())


def attacked(
    prepared: membership.Prepared,
    attacks: tuple[MembershipAttack, ...],
    contents: Contents,
    run: Run | None,
    track: Track[Any] = untracked,
) -> Audit:
    """The run with its findings; what is stored already is not computed again."""
    entries = []
    for attack, key in zip(track(attacks, "Attacking"), contents.manifest.findings, strict=True):
        entry = run.get(key) if run else None
        # what failed may have been a passing fault, such as a model that did not answer
        if entry is None or entry.finding.status is Status.FAILED:
            entry = _attack(prepared, attack, contents.manifest.seed, contents.manifest.delta)
            if run:
                run.put(key, entry)
        entries.append(entry)
    return load(run.path) if run else Audit(replace(contents, entries=tuple(entries)))


def check_delta(delta: Any) -> None:
    """Refuse what is no δ.

    Raises:
        SpecError: it is neither None nor a number from 0 to below 1.
    """
    if delta is None:
        return
    number = isinstance(delta, (int, float, np.number)) and not isinstance(delta, bool)
    if not number or not 0 <= delta < 1:
        raise SpecError(
            f"expected delta from 0 to below 1, got {delta!r}: it is a probability, such as 1e-5"
        )


def check_distinct(attacks: Iterable[Attack[Any, Any]]) -> None:
    """Refuse to run one attack twice.

    Raises:
        SpecError: names the attack.
    """
    seen: set[str] = set()
    for attack in attacks:
        label = attempt.label(attack)
        if label in seen:
            raise SpecError(f"expected different attacks, got {label} twice: drop one")
        seen.add(label)


def _claim(subject: inputs.Subject) -> Claim | None:
    """What was stated; failing that, what training shadows in the target's way promises."""
    if subject.guarantee is not None:
        return Claim(subject.guarantee)
    return derived(subject.shadows, len(subject.members))


def derived(plan: ShadowPlan | None, members: int) -> Claim | None:
    """What training shadows in the target's way promises for so many records."""
    trainer: object = plan.trainer if plan else None
    promised = trainer.guarantee(members) if isinstance(trainer, Private) else None
    return Claim(promised, derived=True) if promised else None


def _attack(
    prepared: membership.Prepared, attack: MembershipAttack, seed: int, delta: float
) -> Entry:
    finding, guess = attempt.run(prepared.challenge, attack, seed, delta)
    if guess is None:
        return Entry(finding)
    return Entry(finding, controls.check(prepared.challenge, attack, guess, seed), guess.score)


def _manifest(
    prepared: membership.Prepared,
    shadows: ShadowPlan | None,
    attacks: tuple[MembershipAttack, ...],
    settings: dict[str, Any],
    seed: int,
    delta: float,
    name: str,
) -> Manifest:
    view, truth = prepared.whole or prepared.challenge.view, prepared.challenge.truth
    question = records.Subject(
        view.records,
        truth.member,
        view.reference,
        prepared.answers,
        features=Need.FEATURES in view.offers,
        pool=None if shadows is None else shadows.pool,
        copies=prepared.copies,
        again=prepared.again,
    )
    return Manifest(
        name=name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        challenge=prepared.digest,
        seed=seed,
        delta=delta,
        members=int(truth.member.sum()),
        nonmembers=int((~truth.member).sum()),
        reference=0 if view.reference is None else len(view.reference),
        classes=prepared.answers.shape[1],
        class_names=prepared.class_names,
        attacks=tuple(attempt.label(attack) for attack in attacks),
        findings=tuple(membership.finding_key(prepared, attack) for attack in attacks),
        settings=settings,
        environment=environment(),
        checks=records.check(question, seed),
        shadows=_kind(shadows),
        divulge=version("divulge"),
        drawn=truth.drawn,
    )


def _kind(plan: ShadowPlan | None) -> Literal["none", "online", "offline"]:
    if plan is None:
        return "none"
    return "online" if plan.pool is None else "offline"
