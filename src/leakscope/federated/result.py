"""What an audit of a federation found, and its run folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leakscope import atomic, auditing
from leakscope.core import Finding, Proportions, Status
from leakscope.errors import StoreError
from leakscope.report import clients as pages
from leakscope.store import Entry, Key, Run

NAME, PAGE, SCHEMA = "federation.json", "report.html", 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What was audited and how: ``federation.json``."""

    name: str
    created: str
    """UTC, ISO 8601."""
    challenge: str
    """Digest of the transcript, the attacker's records and the truth."""
    seed: int
    federation: str
    clients: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...] | None
    """Records of each class, by client, where they are known."""
    class_names: tuple[str, ...]
    attacks: tuple[str, ...]
    """Labels of all attacks asked for, in order."""
    findings: tuple[Key, ...]
    settings: dict[str, Any]
    environment: dict[str, str]
    leakscope: str
    schema: int = SCHEMA


Mixes = Sequence[Proportions]


@dataclass(frozen=True)
class FederatedAudit:
    """What each attack showed of the clients' class shares."""

    plan: Plan
    findings: tuple[Finding, ...]
    """One an attack, in the order asked for."""
    guesses: tuple[Mixes | None, ...]
    """One entry a client, or None where the attack is not done."""
    path: Path

    sound = True
    """There is no control to fail."""

    def sentences(self) -> tuple[str, ...]:
        """One a client, by the first attack that is done."""
        return pages.sentences(self._told())

    def lines(self) -> tuple[str, ...]:
        """The sentences, and how each attack ended."""
        return pages.lines(self._told())

    def report(self) -> Path:
        """Write the page, the summary and the figure into the run folder; the page's path.

        Raises:
            StoreError: it cannot be written.
        """
        run = Run.open(self.path)
        for name, content in pages.write_all(self._told()).items():
            run.write(name, content)
        return self.path / PAGE

    def measure(self) -> "FederatedAudit":
        """Compute all metrics again from the stored guesses.

        Raises:
            StoreError: the run folder cannot be written.
        """
        truth = self.truth
        findings = []
        run = Run.open(self.path)
        for key, finding, guess in zip(
            self.plan.findings, self.findings, self.guesses, strict=True
        ):
            again = finding
            if truth is not None and guess is not None:
                metrics, unmeasured = auditing.measure(guess, truth)
                again = replace(finding, metrics=metrics, unmeasured=unmeasured)
                run.put(key, Entry(again, arrays=as_arrays(guess)))
            findings.append(again)
        found = replace(self, findings=tuple(findings))
        found.report()
        return found

    @property
    def truth(self) -> tuple[Proportions, ...] | None:
        """What the clients hold, where it is known."""
        if self.plan.counts is None:
            return None
        return tuple(Proportions.of(np.array(row)) for row in self.plan.counts)

    def _told(self) -> pages.Told:
        return pages.Told(
            name=self.plan.name,
            created=self.plan.created,
            clients=self.plan.clients,
            class_names=self.plan.class_names,
            truth=self.truth,
            findings=self.findings,
            guesses=self.guesses,
            reproduction={
                "leakscope": self.plan.leakscope,
                "seed": self.plan.seed,
                "challenge": self.plan.challenge,
                "settings": self.plan.settings,
                "environment": self.plan.environment,
            },
        )


def begin(run: Run, plan: Plan) -> Plan:
    """Write the plan; of a run that is continued it keeps the date.

    Raises:
        StoreError: the folder was begun with other data, or cannot be written.
    """
    if (run.path / NAME).exists():
        before = _plan(run.path)
        if before.challenge != plan.challenge:
            raise StoreError(
                f"expected the transcript, records and counts that {run.path} was begun with, got "
                "different ones: start a new run"
            )
        plan = replace(plan, created=before.created)
    run.write(NAME, atomic.to_json(plan, Plan))
    return plan


def load(path: str | Path) -> FederatedAudit:
    """What is in the run folder of such an audit.

    Raises:
        StoreError: it is none, not finished, or damaged.
    """
    run = Run.open(Path(path))
    plan = _plan(run.path)
    entries = [run.get(key) for key in plan.findings]
    whole = [entry for entry in entries if entry is not None]
    if len(whole) < len(entries):
        raise StoreError(f"expected every attack in {path}, some are missing: finish with --resume")
    return FederatedAudit(
        plan,
        tuple(entry.finding for entry in whole),
        tuple(_mixes(entry, len(plan.clients)) for entry in whole),
        run.path,
    )


def as_arrays(guess: Mixes) -> Mapping[str, np.ndarray]:
    """Guesses as arrays of one dimension, one client after another."""
    return {
        "share": np.concatenate([one.share for one in guess]),
        "null": np.concatenate([one.null for one in guess]),
        "even": np.array([np.nan if one.even is None else one.even for one in guess]),
    }


def _mixes(entry: Entry, clients: int) -> Mixes | None:
    if entry.finding.status is not Status.DONE:
        return None
    try:
        share, null = (entry.arrays[name].reshape(clients, -1) for name in ("share", "null"))
        p = entry.arrays["even"]
        return tuple(
            Proportions(share[k], null[k], None if np.isnan(p[k]) else float(p[k]))
            for k in range(clients)
        )
    except (KeyError, ValueError, IndexError) as error:
        raise StoreError(
            f"expected the shares of {clients} clients for {entry.finding.label}, got something "
            "else: the run is damaged; run the audit again"
        ) from error


def _plan(path: Path) -> Plan:
    with atomic.said(path / NAME):
        raw = (path / NAME).read_bytes()
    plan = atomic.from_json(raw, Plan, path / NAME)
    if plan.schema > SCHEMA:
        raise StoreError(
            f"expected schema {SCHEMA} or older, {path} has schema {plan.schema}: "
            "it was made by a newer leakscope; update this one"
        )
    return plan
