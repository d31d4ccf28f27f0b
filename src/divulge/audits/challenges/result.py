"""What an audit of a federation found, and its run folder."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import pydantic

from divulge._util import atomic
from divulge.audits.challenges import images
from divulge.audits.challenges.subjects.assignment import TrainedOn
from divulge.audits.challenges.subjects.composition import Composition
from divulge.audits.challenges.subjects.interactions import ActedOn
from divulge.audits.gate import Gate, Ruling, rule
from divulge.audits.run_folder import Entry, Key, Run
from divulge.core import BlindRun, Finding, Status
from divulge.errors import DataError, StoreError
from divulge.metrics.intervals import CONFIDENCE
from divulge.report.evidence import limits_of
from divulge.report.federation import page
from divulge.report.federation.story import Sheet, Told
from divulge.report.federation.verdicts.judge import Judgement, floor
from divulge.report.schema import Limits

NAME, PAGE, SCHEMA = "federation.json", "report.html", 3

Subject = Annotated[Composition | ActedOn | TrainedOn, pydantic.Field(discriminator="kind")]


@dataclass(frozen=True, slots=True)
class Plan:
    """What was audited and how: ``federation.json``."""

    name: str
    created: str
    """UTC, ISO 8601."""
    challenge: str
    """Digest of all that attacks see, and of the truth."""
    seed: int
    subject: Subject
    attacks: tuple[str, ...]
    """Labels of all attacks asked for, in order."""
    findings: tuple[Key, ...]
    settings: dict[str, Any]
    environment: dict[str, str]
    divulge: str = atomic.BEFORE_NAMING
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What the file has in any schema."""

    schema: Any = None
    subject: Any = None


@dataclass(frozen=True, repr=False)
class FederatedAudit:
    """What each attack showed."""

    plan: Plan
    findings: tuple[Finding, ...]
    """One an attack, in the order asked for."""
    guesses: tuple[Any, ...]
    """By attack, as the subject has it; None where the attack is not done."""
    path: Path
    controls: tuple[BlindRun | None, ...] = ()
    """By attack, how it did on its blind control, where it has one."""

    @property
    def verdict(self) -> Judgement:
        """Whether the federation leaks, how sure that is, and what to do now."""
        return self._told.story.verdict

    @property
    def limits(self) -> Mapping[str, Limits]:
        """By metric, intervals that hold for all attacks at once: what a gate compares.

        Attacks that failed a control, and those that look at nothing, do not count.
        """
        guesses = {
            finding.label: guess
            for place, (finding, guess) in enumerate(zip(self.findings, self.guesses, strict=True))
            if guess is not None and place not in self._unsound() and not floor(finding)
        }
        confidence = 1 - (1 - CONFIDENCE) / max(1, len(guesses))
        return limits_of({
            label: self.plan.subject.measure(guess, confidence) for label, guess in guesses.items()
        })  # fmt: skip

    def gate(
        self,
        *,
        fail_on: Iterable[str] = (),
        fail_above: Mapping[str, float] | None = None,
        judge: str = "low",
    ) -> Ruling:
        """Hold the audit against a gate; arguments as for `divulge.Audit.gate`.

        Raises:
            SpecError: a word or a metric is unknown, or a ceiling is out of the metric's range.
        """
        kind = self.plan.subject.kind
        section = "updates" if kind == "composition" else kind
        asked = Gate(tuple(fail_on), fail_above, judge, section)
        return rule(asked, self.verdict, self.limits)

    def lines(self) -> tuple[str, ...]:
        """The verdict, what was found in plain sentences, and how each attack ended."""
        return page.lines(self._told)

    def report(self, *, show_records: bool = False) -> Path:
        """Write the page, the summary and the figures into the run folder; the page's path.

        Args:
            show_records: the page also shows images that clients were handed, if the audit was
                carried out with the same word.

        Raises:
            SpecError: the run folder has no images to show.
            StoreError: it cannot be written.
        """
        run = Run.open(self.path)
        sheets = self._sheets() if show_records else ()
        for name, content in page.write_all(replace(self._told, sheets=sheets)).items():
            run.write(name, content)
        return self.path / PAGE

    def measure(self) -> "FederatedAudit":
        """Compute all metrics again from the stored guesses.

        Raises:
            StoreError: the run folder cannot be written.
        """
        findings = []
        run = Run.open(self.path)
        for key, finding, guess, control in zip(
            self.plan.findings, self.findings, self.guesses, self.controls, strict=True
        ):
            again = finding
            if guess is not None:
                metrics, unmeasured = self.plan.subject.measure(guess)
                again = replace(finding, metrics=metrics, unmeasured=unmeasured)
                run.put(key, Entry(again, arrays=self.plan.subject.arrays(guess), blind=control))
            findings.append(again)
        found = replace(self, findings=tuple(findings))
        found.report()
        return found

    def __repr__(self) -> str:
        verdict = self.verdict
        return "\n".join([f"<divulge.FederatedAudit: {verdict.headline}>", *verdict.sentences])

    def _unsound(self) -> tuple[int, ...]:
        failed = (one is not None and not one.passed for one in self.controls)
        return tuple(place for place, yes in enumerate(failed) if yes)

    def _sheets(self) -> tuple[Sheet, ...]:
        subject = self.plan.subject
        if not isinstance(subject, ActedOn):
            images.none()
        return images.read(self.path, subject.clients, subject.items)

    @cached_property
    def _told(self) -> Told:
        """All that the report says, but for images; the test behind its verdict takes a moment."""
        plan = self.plan
        return Told(
            name=plan.name,
            created=plan.created,
            findings=self.findings,
            controls=self.controls,
            story=plan.subject.story(self.findings, self.guesses, self._unsound()),
            reproduction={
                "divulge": plan.divulge,
                "seed": plan.seed,
                "challenge": plan.challenge,
                "settings": plan.settings,
                "environment": plan.environment,
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
                f"expected the data and the truth that {run.path} was begun with, got different "
                "ones: start a new run"
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
        tuple(_guess(plan.subject, entry) for entry in whole),
        run.path,
        tuple(entry.blind for entry in whole),
    )


def _guess(subject: Subject, entry: Entry) -> Any:
    if entry.finding.status is not Status.DONE:
        return None
    try:
        return subject.guess(entry.arrays)
    except (KeyError, ValueError, TypeError, DataError) as error:
        raise StoreError(
            f"expected the guess of {entry.finding.label} as it was written, got something else "
            f"({error}): the run is damaged; run the audit again"
        ) from error


def _plan(path: Path) -> Plan:
    with atomic.said(path / NAME):
        raw = (path / NAME).read_bytes()
    stamp = atomic.from_json(raw, _Stamp, path / NAME)
    asked = stamp.subject.get("kind") if isinstance(stamp.subject, dict) else None
    # the only difference from schema 2: there, candidates whose client was asked had no labels
    if stamp.schema != SCHEMA and (stamp.schema != SCHEMA - 1 or asked == "assignment"):
        raise StoreError(
            f"expected schema {SCHEMA}, {path} has schema {stamp.schema!r}: it was made by another "
            "divulge; use that one, or run the audit again"
        )
    return atomic.from_json(raw, Plan, path / NAME)
