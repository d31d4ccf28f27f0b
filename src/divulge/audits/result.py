"""What an audit of one secret found, as Python users hold it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge._util import showable
from divulge._util.arguments import Count, check_arguments
from divulge._util.json import JSON
from divulge.core import (
    BlindRun,
    Candidates,
    Check,
    Contents,
    ControlOutcome,
    Estimate,
    Facts,
    FederatedFacts,
    Finding,
    Head,
    MembershipFacts,
    Status,
)
from divulge.errors import NotApplicable, SpecError, StoreError, did_you_mean
from divulge.finished_runs.changes import ScoredCandidates
from divulge.finished_runs.finished_run import GatedAudit
from divulge.finished_runs.judged import Sample
from divulge.finished_runs.run_folder import Run, hold_run
from divulge.finished_runs.stored import as_frame, refuse_images
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.measure import FPRS
from divulge.report import differences, markdown
from divulge.report import exposed as exposing
from divulge.report import summary as summaries
from divulge.report.evidence import limits_by_metric
from divulge.report.federation.story import FederationReport, ImageSheet, PageContent
from divulge.report.federation.verdicts.case import Judgement
from divulge.report.federation.verdicts.judge import is_uninformed
from divulge.report.markdown import make_inert
from divulge.report.parts import Brief
from divulge.report.schema import ClaimRow, Conclusion, Limits
from divulge.report.units import Unit, unit_of
from divulge.secrets.base import FederatedSecret, Secret, decode_all
from divulge.secrets.registry import secret_of

if TYPE_CHECKING:
    import pandas as pd

    from divulge.metrics.questions import QuestionsRow


@dataclass(frozen=True)
class SecretAudit(GatedAudit):
    """What an audit found, whatever the secret."""

    contents: Contents
    path: Path | None = None
    """The run folder, if it has one."""

    @classmethod
    def load(cls, path: Path) -> "SecretAudit":
        """The audit of one secret in a run folder.

        Raises:
            StoreError: it is no such run folder, damaged, or made by a newer divulge; or, of a
                federation, an attack is missing.
        """
        contents = Run.open(path).contents()
        if contents.missing and contents.candidates is None:
            raise StoreError(
                f"expected every attack in {path}, some are missing: finish with --resume"
            )
        audit = audit_of(contents, path)
        for _ in decode_all(contents.entries, audit._held.decode):
            pass  # those that are damaged are refused
        return audit

    @property
    def head(self) -> Head[Facts]:
        """What was asked for, and what it is about."""
        return self.contents.head

    @property
    def about(self) -> str:  # type: ignore[override]
        """What was asked: membership, assignment, composition or interactions."""
        return self.contents.facts.kind

    @property
    def missing(self) -> tuple[str, ...]:
        """Attacks asked for that have no finding yet, because the run was interrupted."""
        return self.contents.missing

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding per attack, in the order asked for."""
        return tuple(entry.finding for entry in self.contents.entries)

    @property
    def guesses(self) -> tuple[Any, ...]:
        """By attack, what it guessed; None where it is not done.

        Raises:
            StoreError: a stored guess is not what such an audit has.
        """
        return tuple(decode_all(self.contents.entries, self._held.decode))

    @property
    def verdict(self) -> Conclusion | Judgement:
        """Whether there is a leak, with the evidence."""
        raise NotImplementedError

    @property
    def limits(self) -> Mapping[str, Limits]:
        """By metric, intervals that hold for all attacks at once: what a gate compares."""
        raise NotImplementedError

    @property
    def untested(self) -> Mapping[str, str]:
        """By label of an attack that is done, why its controls could not be run."""
        entries = self.contents.entries
        return {entry.finding.label: entry.untested for entry in entries if entry.untested}

    def figures(self, best_of: int = 1) -> Mapping[str, Mapping[str, Estimate]]:
        """By label of each attack that passed its controls, its metrics.

        Args:
            best_of: the number of figures for which intervals hold at once, at 95 % (Bonferroni).
        """
        confidence = 1 - (1 - CONFIDENCE) / best_of
        return {
            entry.finding.label: entry.finding.metrics
            if best_of == 1  # as they are stored
            else self._held.measure(guess, confidence).metrics
            for entry, guess in zip(self.contents.entries, self.guesses, strict=True)
            if guess is not None and not entry.failed_control and not is_uninformed(entry.finding)
        }

    @property
    def sample(self) -> Sample:
        """The number of candidates: records, people or clients."""
        return Sample(*self._held.sample)

    @property
    def reach(self) -> float:
        """The bound on ε that an attack which knows every member would have; inf if unknown."""
        done = [finding for finding in self.findings if finding.status is Status.DONE]
        return self._held.reach(len(done))

    @property
    def _held(self) -> Secret:
        return secret_of(self.contents.facts, self.contents.candidates)

    def measure(self) -> "SecretAudit":
        """Compute all metrics again from the stored guesses; a run folder is brought up to date.

        Raises:
            StoreError: the run folder cannot be written.
        """
        with hold_run(self.path):
            return self._measure()

    def _measure(self) -> "SecretAudit":
        secret, entries = self._held, []
        for entry, guess in zip(self.contents.entries, self.guesses, strict=True):
            if guess is None:
                entries.append(entry)
                continue
            metrics, unmeasured = secret.measure(guess)
            again = replace(entry.finding, metrics=metrics, unmeasured=unmeasured)
            entries.append(replace(entry, finding=again))
        audit = audit_of(replace(self.contents, entries=tuple(entries)), self.path)
        if self.path is not None:
            audit._put(Run.open(self.path))
            audit.report()
        return audit

    def store(self, folder: Path) -> None:
        """Write findings and guesses; answers and shadow models are not kept.

        Raises:
            StoreError: it cannot be written.
        """
        run = Run.create(folder)
        run.begin(self.contents.head, self.contents.candidates)
        self._put(run)

    def _put(self, run: Run) -> None:
        head = self.contents.head
        keys = dict(zip(head.attacks, head.findings, strict=True))
        for entry in self.contents.entries:
            run.put(keys[entry.finding.label], entry)

    def __repr__(self) -> str:
        verdict = self.verdict
        title = f"<divulge.{type(self).__name__}: {verdict.headline}>"
        return "\n".join([title, *verdict.sentences])


@dataclass(frozen=True, repr=False)
class Audit(SecretAudit):
    """What an audit of a model found. Shows itself in a notebook."""

    @property
    def facts(self) -> MembershipFacts:
        """The sizes, the checks, the claim and the settings that figures depend on."""
        return self.contents.model()[0]

    @property
    def candidates(self) -> Candidates:
        """The truth and the labels, in the order of scores."""
        return self.contents.model()[1]

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the audit itself."""
        return self.facts.checks

    @property
    def sizes(self) -> Mapping[str, JSON]:
        """The number of members, non-members, reference records and classes."""
        facts = self.facts
        sizes = {"members": facts.members, "nonmembers": facts.nonmembers}
        return sizes | {"reference": facts.reference, "classes": facts.classes}

    def table(self) -> str:
        """The report as a comment for a pull request."""
        return markdown.render(self.summary)

    @cached_property
    def summary(self) -> summaries.Summary:
        """All that the report shows."""
        return summaries.summarise(self.contents)

    @property
    def verdict(self) -> Conclusion:
        """Whether there is a leak, with the evidence."""
        return self.summary.verdict

    @property
    def limits(self) -> Mapping[str, Limits]:
        """By metric, intervals that hold for all attacks at once: what a gate compares."""
        return self.verdict.limits

    @property
    def unit(self) -> Unit:
        """What was drawn and counted."""
        return unit_of(self.summary)

    @property
    def claims(self) -> tuple[ClaimRow | None, ...]:
        """What became of the claimed guarantee."""
        return (self.summary.claim,)

    @property
    def scored(self) -> ScoredCandidates:
        """The candidates with the scores of every attack that is done."""
        scores = {e.finding.label: e.score for e in self.contents.entries if e.score is not None}
        return ScoredCandidates(self.candidates, scores)

    @check_arguments
    def exposed(self, q: float = 0.1) -> tuple[exposing.ExposedRecord, ...]:
        """The exposed members, highest scores first; see `divulge.metrics.exposed`.

        The attack is that of ``summary.exposed``, chosen before its scores were compared.

        Args:
            q: the false-discovery rate: at most this share of such lists, on average, are members
                that would have scored as high had the model not been trained on them.

        Raises:
            SpecError: q is no rate above 0 and below 1.
            Unmeasurable: with so few non-members every list is empty, or members and non-members
                cannot be compared; says what would do.
        """
        if not 1e-9 < q < 1:
            raise SpecError(f"expected a false-discovery rate above 1e-9 and below 1, got {q}")
        summary = self.summary
        sizes = summary.sizes
        exposing.refuse_empty_list(summary.exposed, sizes.members, sizes.nonmembers, q)
        members = exposing.exposed_records(self.contents, summary)
        return tuple(member for member in members if member.q is not None and member.q <= q)

    @check_arguments
    def difference(self, attack: str, other: str, pairs: Count = 1) -> Mapping[str, Estimate]:
        """By metric, what an attack finds beyond another one, on the same candidates.

        The AUC, and the TPR at each FPR that has a lower limit here. Candidates are people where
        the audit is by person.

        Args:
            attack: its label, such as ``lira``; or its name, if no other attack has that.
            other: the label, or the name, of what is subtracted.
            pairs: how many pairs of attacks are compared in all, for which 95 % intervals hold at
                once (Bonferroni). One chosen because it found most is compared with all others.

        Raises:
            SpecError: there is no such attack, it is not done, or it failed a control.
        """
        scored = self.scored.scores
        first, second = (scored[self._label_of(name)] for name in (attack, other))
        return differences.subtract_attacks(first, second, self.candidates.member, FPRS, pairs)

    def _label_of(self, name: str) -> str:
        """The label of a sound attack by its label or name; see `difference`."""
        findings = [each for each in self.findings if name in (each.label, each.attack)]
        exact = [each for each in findings if each.label == name] or findings
        if len(exact) != 1:
            labels = [each.label for each in findings or self.findings]
            raise SpecError(
                f"expected the label of an attack, got {name!r}: {did_you_mean(name, labels)}"
            )
        (finding,) = exact
        if finding.status is not Status.DONE or finding.label not in self.figures():
            why = finding.reason or "it failed a control"
            raise SpecError(
                f"expected an attack whose figures count, got {finding.label}: {why}; name another"
            )
        return finding.label

    def questions(self) -> "tuple[QuestionsRow, ...]":
        """What audits of fewer candidates would have shown; see `divulge.metrics.questions`.

        Attacks that passed their controls count, as in the verdict.

        Raises:
            NotApplicable: no attack was done that passed its controls.
        """
        from divulge.metrics.questions import leak_by_questions

        sound = {row.label for row in self.summary.attacks if row.sound}
        scores = [
            entry.score
            for entry in self.contents.entries
            if entry.score is not None and showable.make_showable(entry.finding.label) in sound
        ]
        if not scores:
            raise NotApplicable(
                "expected an attack that was done and passed its controls, got none: see the report"
            )
        return leak_by_questions(np.stack(scores), self.candidates.member)

    def scores(self) -> "pd.DataFrame":
        """One row per candidate: member, position, id, label, and each finished attack's score.

        Raises:
            MissingExtra: pandas is not installed.
        """
        candidates = self.candidates
        ids = candidates.ids
        columns = {
            "member": candidates.member,
            "position": candidates.index,
            "id": np.full(len(candidates.member), "") if ids is None else ids,
            "label": candidates.label,
        }
        done = [entry for entry in self.contents.entries if entry.score is not None]
        return as_frame(columns | {entry.finding.label: entry.score for entry in done})

    def render(self) -> dict[str, bytes]:
        """Every file of the report, by path."""
        from divulge.report import files  # draws, so it loads the chart library

        return files.render_files(self.contents)


@dataclass(frozen=True, repr=False)
class FederationAudit(SecretAudit):
    """What an audit of a federation found: who trained on what, class shares, or interactions."""

    @property
    def facts(self) -> FederatedFacts:
        """The clients, what is asked about them, and the truth where it is known."""
        facts = self.contents.facts
        assert not isinstance(facts, MembershipFacts)
        return facts

    @property
    def controls(self) -> tuple[BlindRun | None, ...]:
        """By attack, how it did on its control, where it has one."""
        return tuple(entry.blind for entry in self.contents.entries)

    @property
    def verdict(self) -> Judgement:
        """Whether the federation leaks, how sure that is, and what to do now."""
        return self._told.story.verdict

    @property
    def brief(self) -> Brief:
        """What a person who decides has to know, in counts."""
        return self._told.story.brief

    @property
    def limits(self) -> Mapping[str, Limits]:
        """By metric, intervals that hold for all attacks at once: what a gate compares.

        Attacks that failed a control, and those that look at nothing, do not count.
        """
        guesses = {
            finding.label: guess
            for place, (finding, guess) in enumerate(zip(self.findings, self.guesses, strict=True))
            if guess is not None and place not in self._unsound() and not is_uninformed(finding)
        }
        confidence = 1 - (1 - CONFIDENCE) / max(1, len(guesses))
        return limits_by_metric({k: self._held.measure(g, confidence) for k, g in guesses.items()})

    def table(self) -> str:
        """The same as `lines`, as a list."""
        return "\n".join(f"- {make_inert(line)}" for line in self.lines())

    def lines(self) -> tuple[str, ...]:
        """The verdict, what was found in plain sentences, and how each attack ended."""
        from divulge.report.federation import page

        return page.lines(self._told)

    def files(self, *, show_records: bool = False) -> dict[str, bytes]:
        """Every file of the report, by path.

        Args:
            show_records: the page also shows images that clients were shown, if the audit was
                carried out with the same word.

        Raises:
            SpecError: the run folder has no images to show.
        """
        from divulge.report.federation import page

        sheets = self._sheets() if show_records else ()
        return page.render_files(replace(self._told, sheets=sheets))

    def _unsound(self) -> tuple[int, ...]:
        failed = (run is not None and run.outcome is ControlOutcome.FAILED for run in self.controls)
        return tuple(place for place, yes in enumerate(failed) if yes)

    def _sheets(self) -> tuple[ImageSheet, ...]:
        assert isinstance(self._held, FederatedSecret)
        if not self._held.items or self.path is None:
            refuse_images()
        from divulge.audits.challenges import images  # reads transcripts

        return images.read_sheets(self.path, self.facts.clients, self._held.items)

    @cached_property
    def _told(self) -> FederationReport:
        """All that the report says, but for images; the test behind its verdict takes a moment."""
        head, facts = self.contents.head, self.facts
        assert isinstance(self._held, FederatedSecret)
        story: PageContent = self._held.page_content(
            self.contents.entries, self.guesses, self._unsound()
        )
        story = replace(story, sentences=(*facts.notes, *story.sentences))
        return FederationReport(
            name=head.name,
            created=head.created,
            findings=self.findings,
            controls=self.controls,
            story=story,
            reproduction={
                "divulge": head.divulge,
                "seed": head.seed,
                "challenge": head.challenge,
                "settings": head.settings,
                "environment": head.environment,
            },
        )


def audit_of(contents: Contents, path: Path | None = None) -> SecretAudit:
    """The audit that a run's contents make.

    Args:
        contents: of a run.
        path: its folder, if it has one.
    """
    kind = FederationAudit if contents.candidates is None else Audit
    return kind(contents, path)
