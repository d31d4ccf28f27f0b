"""What a search for a model under a ceiling came to, and its run folder."""

import html
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from divulge._util import atomic
from divulge._util.json import JSON
from divulge.audits.result import Audit, load_audit
from divulge.audits.run_folder import HEAD, has_head, hold_run, read_head, write_head
from divulge.core import Estimate, Finding
from divulge.core.runs import BEFORE_NAMING, SCHEMA
from divulge.errors import StoreError
from divulge.metrics.measure import GUESSING
from divulge.studies.harden import page as harden_page
from divulge.studies.harden.final import AUDIT, FILE, MODEL
from divulge.studies.harden.looks import FOLDER, Leak
from divulge.studies.harden.page import HardenStory, MeasuredCeiling, Outcome, TrialRow
from divulge.studies.harden.trials import SearchLog, SearchTrial

PAGE = "report.html"
TRIALS = "trials.json"
_CLEARLY = 0.9
"""A leak beyond guessing of at most this share of another is clearly less."""
_UNSOUND = (
    "inputs doubtful",
    "instrument failed",
    "nothing measured",
    "confounded",
    "leak or shift",
)
"""Verdicts whose figures say nothing of this model's leak."""


@dataclass(frozen=True, slots=True)
class HardeningManifest:
    """What was asked for: ``run.json``."""

    name: str
    created: str
    """UTC, ISO 8601."""
    challenge: str
    """Digest of records, ways to train, ceilings, search and seed."""
    seed: int
    ceilings: dict[str, float]
    budget: int
    searched: int
    """The number of records of the search."""
    fresh: int
    """The number of records that it never touches."""
    settings: dict[str, JSON]
    environment: dict[str, str]
    divulge: str = BEFORE_NAMING
    schema: int = SCHEMA
    kind: Literal["hardening"] = "hardening"


@dataclass(frozen=True)
class HardenedModel:
    """The model that was found, its audit on fresh records, and all that was tried."""

    plan: HardeningManifest
    log: SearchLog
    audit: Audit
    """Of the final model, on records that the search never touched."""
    path: Path
    """The run folder."""
    page: ClassVar[str] = PAGE

    @property
    def trials(self) -> tuple[SearchTrial, ...]:
        """All settings that were tried, in order."""
        return self.log.trials

    @property
    def model(self) -> Path:
        """The final model's file, which PyTorch opens without divulge."""
        return self.path / MODEL / FILE

    @property
    def chosen(self) -> SearchTrial:
        """The setting of the final model."""
        return self.log.find_chosen(self.plan.ceilings)

    @property
    def undefended(self) -> SearchTrial:
        """The undefended model as the search saw it after all epochs."""
        return self.log.undefended or self.trials[0]

    @property
    def measured(self) -> Mapping[str, Leak]:
        """By metric with a ceiling, what the strongest attack reached on fresh records."""
        found = {}
        for name in self.plan.ceilings:
            one = self.audit.limits.get(name)
            if one is not None:
                high = 1.0 if one.highest is None else one.highest
                found[name] = Leak(one.most, one.estimate.low, high, one.attack)
        return found

    @property
    def outcome(self) -> Outcome:
        """Whether the final model is under all ceilings.

        ``under``: all upper limits are. ``over``: some value is not. ``undecided``: neither, or the
        audit's figures say nothing of this model.
        """
        found = self.measured
        if self.audit.verdict.level in _UNSOUND or len(found) < len(self.plan.ceilings):
            return "undecided"
        if all(found[name].high <= ceiling for name, ceiling in self.plan.ceilings.items()):
            return "under"
        over = any(found[name].value > ceiling for name, ceiling in self.plan.ceilings.items())
        return "over" if over else "undecided"

    @property
    def accuracy(self) -> Estimate | None:
        """Of the final model, on fresh records that it was not trained on."""
        checks = {check.name: check.estimates for check in self.audit.checks}
        return checks.get("model accuracy", {}).get("non-members")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the final audit."""
        return self.audit.findings

    @property
    def next_step_down(self) -> SearchTrial | None:
        """The most accurate setting that leaks clearly less than the chosen one; None without one.

        Clearly less is at most nine tenths of what the chosen one leaks beyond guessing, by the
        metric of every ceiling.
        """
        mine = self.chosen
        less = [
            look
            for trial in self.trials
            for look in trial.at_each_look()
            if look.useful
            and all(
                look.leaks[name].value - GUESSING[name]
                < _CLEARLY * (mine.leaks[name].value - GUESSING[name])
                for name in mine.leaks
            )
        ]
        return max(less, key=lambda trial: trial.accuracy.value, default=None)

    @cached_property
    def story(self) -> HardenStory:
        """All that the report says."""
        ceilings, chosen, down = self.plan.ceilings, self.chosen, self.next_step_down
        measured = self.measured
        return HardenStory(
            name=self.plan.name,
            created=self.plan.created,
            outcome=self.outcome,
            level=self.audit.verdict.level,
            ceilings=tuple(
                MeasuredCeiling(
                    name,
                    ceiling,
                    _as_estimate(measured.get(name)),
                    _as_estimate(chosen.leaks[name]),
                    measured[name].attack if name in measured else "",
                )
                for name, ceiling in ceilings.items()
            ),
            accuracy=self.accuracy,
            trials=tuple(_row(trial, ceilings) for trial in self.trials),
            looks=tuple(
                _row(look, ceilings) for trial in self.trials for look in trial.at_each_look()
            ),
            undefended=_row(self.undefended, ceilings),
            chosen=chosen.number,
            refused=dict(self.log.refused),
            down=None if down is None else _row(down, ceilings),
            answers="" if chosen.proposal.answers == "none" else chosen.proposal.answers,
            searched=self.plan.searched,
            fresh=self.plan.fresh,
            spent=sum(trial.trainings for trial in self.trials),
            final=self.log.final,
            budget=self.plan.budget,
            settings=self.plan.settings,
            environment=self.plan.environment,
        )

    def table(self) -> str:
        """The trials as a Markdown table, with the outcome above it."""
        return harden_page.as_markdown(self.story)

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        return harden_page.as_json(self.story)

    def report(self) -> Path:
        """Write the page, the tables and the figures into the run folder; the page's path.

        Raises:
            StoreError: they cannot be written.
        """
        # draws, so it loads the chart library
        from divulge.studies.harden import charts as harden_charts

        files = harden_charts.render_files(self.story)
        with hold_run(self.path):
            for name, content in files.items():
                atomic.write_within(self.path, name, content)
        return self.path / PAGE

    def measure(self) -> "HardenedModel":
        """Compute all metrics of the final audit again from the stored scores.

        Raises:
            StoreError: the run folder cannot be written.
        """
        with hold_run(self.path):
            audit = self.audit.measure()
            assert isinstance(audit, Audit)
            again = HardenedModel(self.plan, self.log, audit, self.path)
            again.report()
        return again

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"

    def __repr__(self) -> str:
        return f"<divulge.HardenedModel>\n{self.table()}"


def _row(trial: SearchTrial, ceilings: Mapping[str, float]) -> TrialRow:
    return TrialRow(
        number=trial.number,
        label=trial.label,
        accuracy=trial.accuracy,
        leaks={name: _interval(leak) for name, leak in trial.leaks.items()},
        models=trial.models,
        trainings=trial.trainings,
        given_up=trial.given_up,
        under=trial.excess(ceilings) <= 0,
    )


def _interval(leak: Leak) -> Estimate:
    return Estimate(leak.value, leak.low, leak.limit)


def _as_estimate(leak: Leak | None) -> Estimate | None:
    return None if leak is None else _interval(leak)


def begin(path: Path, plan: HardeningManifest) -> HardeningManifest:
    """Write the plan; of a run that is continued it keeps the date.

    Raises:
        StoreError: the folder belongs to another search, or cannot be written.
    """
    if has_head(path):
        before = read_head(path, HardeningManifest)
        if before.challenge != plan.challenge:
            raise StoreError(
                f"expected the records, ceilings, search and seed that {path} was begun with, got "
                "different ones: start a new run"
            )
        return before
    write_head(path, plan)
    return plan


def store_trials(path: Path, log: SearchLog) -> None:
    """Write ``trials.json``, and let go of what the models of the search answered.

    Raises:
        StoreError: it cannot be written.
    """
    atomic.write(path / TRIALS, atomic.to_json(log, SearchLog).encode())
    shutil.rmtree(path / FOLDER, ignore_errors=True)


def read_trials(path: Path) -> SearchLog | None:
    """What a search came to, if it has ended.

    Raises:
        StoreError: the file is damaged.
    """
    place = path / TRIALS
    return atomic.from_json(atomic.read(place), SearchLog, place) if place.exists() else None


def load_hardened(path: Path) -> HardenedModel:
    """What is in the run folder of a search.

    Raises:
        StoreError: it is none, or not finished, or damaged.
    """
    plan = read_head(path, HardeningManifest)
    log = read_trials(path)
    if log is None or not (path / AUDIT / HEAD).exists():
        raise StoreError(
            f"expected a finished search in {path}, got one that was interrupted: continue it with "
            "--resume"
        )
    if not log.trials or any(one.leaks.keys() != plan.ceilings.keys() for one in log.trials):
        raise atomic.damaged_file_error(path / TRIALS, ValueError("trials without their leaks"))
    audit = load_audit(path / AUDIT)
    if not isinstance(audit, Audit):
        raise atomic.damaged_file_error(path / AUDIT, ValueError("no audit of membership"))
    return HardenedModel(plan, log, audit, path)
