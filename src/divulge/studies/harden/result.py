"""What a search for a model under a ceiling came to, and its run folder."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from divulge._util import atomic
from divulge._util.json import JSON
from divulge.audits.result import Audit, SecretAudit
from divulge.core import Estimate, Finding
from divulge.errors import StoreError
from divulge.finished_runs.finished_run import GatedAudit
from divulge.finished_runs.gate import Gate
from divulge.finished_runs.judged import Ruling
from divulge.finished_runs.run_folder import hold_run
from divulge.finished_runs.run_json import HEAD, load_head
from divulge.metrics.measure import GUESSING
from divulge.studies.harden import page as harden_page
from divulge.studies.harden.hardened import SearchFacts, SearchRun
from divulge.studies.harden.leaks import Leak
from divulge.studies.harden.log import FOLDER
from divulge.studies.harden.page import HardenStory, MeasuredCeiling, Outcome, TrialRow
from divulge.studies.harden.search_page import SearchPage
from divulge.studies.harden.trials import ModelLog, SearchTrial, find_chosen

TRIALS = "trials.json"
MODEL, AUDIT = "model", "audit"
"""Folders of the model's files and of its audit."""
FILE = "model.pt2"
"""The file that is audited: the network with its weights, for whoever has PyTorch."""
FILES = (FILE, "model.skops")
"""Files that the final model may be in."""
_CLEARLY = 0.9
"""A leak beyond guessing of at most this share of another is clearly less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardeningFacts(SearchFacts):
    """What a search for a model is about."""

    ceilings: dict[str, float]


@dataclass(frozen=True, repr=False)
class HardenedModel(SearchRun[HardeningFacts, SearchTrial]):
    """The model that was found, its audit on fresh records, and all that was tried."""

    audit: Audit
    """Of the final model, on records that the search never touched."""
    noun = "a search for a model"

    @classmethod
    def load(cls, path: Path) -> "HardenedModel":
        """What is in the run folder of a search.

        Raises:
            StoreError: it is none, or not finished, or damaged.
        """
        head = load_head(path, "hardening", HardeningFacts)
        log = read_trials(path)
        if log is None or not (path / AUDIT / HEAD).exists():
            raise StoreError(
                f"expected a finished search in {path}, got one that was interrupted: continue it "
                "with --resume"
            )
        ceilings = head.facts.ceilings.keys()
        if not log.trials or any(trial.leaks.keys() != ceilings for trial in log.trials):
            raise atomic.damaged_file_error(path / TRIALS, ValueError("trials without their leaks"))
        audit = SecretAudit.load(path / AUDIT)
        if not isinstance(audit, Audit):
            raise atomic.damaged_file_error(path / AUDIT, ValueError("no audit of membership"))
        return cls(head, log, path, audit)

    def parts_of_folder(self) -> list[str]:
        """The trials, and the head of the final audit."""
        return [TRIALS, f"{AUDIT}/{HEAD}"]

    @property
    def parts(self) -> Mapping[str, GatedAudit]:
        """The final audit: a gate is about the model that was found."""
        return {"": self.audit}

    @property
    def model(self) -> Path:
        """The final model's file, which its library opens without divulge.

        The folder with its model card where nothing can write such a file.
        """
        folder = self.path / MODEL
        return next((folder / name for name in FILES if (folder / name).exists()), folder)

    @property
    def chosen(self) -> SearchTrial:
        """The setting of the final model."""
        return find_chosen(self.log, self.facts.ceilings)

    @property
    def undefended(self) -> SearchTrial:
        """The undefended model as the search saw it after all epochs."""
        return self.log.undefended or self.trials[0]

    @property
    def measured(self) -> Mapping[str, Leak]:
        """By metric with a ceiling, what the strongest attack reached on fresh records."""
        leaks = {}
        for name in self.facts.ceilings:
            limit = self.audit.limits.get(name)
            if limit is not None:
                high = 1.0 if limit.highest is None else limit.highest
                leaks[name] = Leak(limit.most, limit.estimate.low, high, limit.attack)
        return leaks

    @property
    def outcome(self) -> Outcome:
        """Whether the final model is under all ceilings.

        The ruling is that of a gate with these ceilings, see `Audit.gate`: ``under`` where all
        upper limits are, ``over`` where some lower limit is not, else ``undecided``.
        """
        ruling = self.ruling
        return "over" if ruling.failed else "under" if ruling.passes else "undecided"

    @cached_property
    def ruling(self) -> Ruling:
        """What a gate with the ceilings of the search says of the final audit."""
        return self.audit.rule(Gate(ceiling=self.facts.ceilings))

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
        ceilings, chosen, down = self.facts.ceilings, self.chosen, self.next_step_down
        measured = self.measured
        return HardenStory(
            name=self.head.name,
            created=self.head.created,
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
            file="" if self.model.is_dir() else f"{MODEL}/{self.model.name}",
            needed=self.log.needed,
            answers="" if chosen.proposal.answers == "none" else chosen.proposal.answers,
            searched=self.facts.searched,
            fresh=self.facts.fresh,
            spent=sum(trial.trainings for trial in self.trials),
            final=self.log.final,
            budget=self.facts.budget,
            settings=self.head.settings,
            environment=self.head.environment,
            undecided=self.ruling.undecided,
            ended=self.log.ended,
        )

    @property
    def contents(self) -> SearchPage:
        """What the report shows."""
        return self.story.as_page()

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        return harden_page.as_json(self.story)

    def draw(self) -> Mapping[str, str]:
        """By metric, accuracy over leakage of each trial, as SVG."""
        from divulge.studies.harden import charts as harden_charts

        return harden_charts.draw_trials(self.story)

    def measure(self) -> "HardenedModel":
        """Compute all metrics of the final audit again from the stored scores.

        Raises:
            StoreError: the run folder cannot be written.
        """
        with hold_run(self.path):
            audit = self.audit.measure()
            assert isinstance(audit, Audit)
            again = replace(self, audit=audit)
            again.report()
        return again


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
        useful=trial.useful,
    )


def _interval(leak: Leak) -> Estimate:
    return Estimate(leak.value, leak.low, leak.limit)


def _as_estimate(leak: Leak | None) -> Estimate | None:
    return None if leak is None else _interval(leak)


def store_trials(path: Path, log: ModelLog) -> None:
    """Write ``trials.json``, and let go of what the models of the search answered.

    Raises:
        StoreError: it cannot be written.
    """
    atomic.write(path / TRIALS, atomic.to_json(log, ModelLog).encode())
    shutil.rmtree(path / FOLDER, ignore_errors=True)


def read_trials(path: Path) -> ModelLog | None:
    """What a search came to, if it has ended.

    Raises:
        StoreError: the file is damaged.
    """
    place = path / TRIALS
    if not place.exists():
        return None
    return atomic.from_json(atomic.read(place), ModelLog, place)
