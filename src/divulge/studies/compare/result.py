"""What a comparison found, and its run folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from divulge._util import atomic
from divulge._util.arguments import check_arguments
from divulge._util.json import JSON
from divulge.core import Finding, Head
from divulge.errors import SpecError, did_you_mean
from divulge.finished_runs.finished_run import FinishedRun, GatedAudit
from divulge.finished_runs.judged import JudgedVerdict
from divulge.finished_runs.run_folder import hold_run
from divulge.finished_runs.run_json import HEAD, load_head, store_head
from divulge.studies.compare import table as compare_table
from divulge.studies.compare.variant import (
    COST,
    VariantAudits,
    VariantRecord,
    judge_variant,
    load_variant,
    store_training_cost,
)


@dataclass(frozen=True, slots=True)
class ComparisonFacts:
    """What a comparison is about."""

    lambdas: tuple[float, ...]
    """Weights of privacy for which AOP is given."""
    defences: tuple[VariantRecord, ...]


@dataclass(frozen=True, repr=False)
class Comparison(FinishedRun):
    """What each defence costs, and what it keeps."""

    head: Head[ComparisonFacts]
    defences: tuple[VariantAudits, ...]
    """The first is what the others are compared with."""
    path: Path | None = field(default=None)
    """The run folder, if it has one."""
    noun = "a comparison"

    @classmethod
    def load(cls, path: Path) -> "Comparison":
        """What is in the run folder of a comparison.

        Raises:
            StoreError: it is none, or not finished, or damaged.
        """
        head = load_head(path, "comparison", ComparisonFacts)
        return cls(head, tuple(load_variant(path, entry) for entry in head.facts.defences), path)

    @property
    def instead(self) -> str:
        """The folders of its defences, which have a verdict each."""
        folders = ", ".join(variant.entered.run for variant in self.defences)
        return f"name the folder of one of its defences in it ({folders})"

    @property
    def headline(self) -> str:
        """How many of the ways to train leak."""
        return compare_table.judge_comparison(self.summary).headline

    @property
    def parts(self) -> Mapping[str, GatedAudit]:
        """The audits of each defence."""
        return {variant.entered.name: variant.audits for variant in self.defences}

    @property
    def verdicts(self) -> Mapping[str, JudgedVerdict]:
        """The verdict on each way to train, which counts the ways that were looked at."""
        pairs = zip(self.defences, self.rows, strict=True)
        return {
            variant.entered.name: judge_variant(variant, row, len(self.rows))
            for variant, row in pairs
        }

    @cached_property
    def rows(self) -> tuple[compare_table.DefenceRow, ...]:
        """One a defence."""
        first, *others = self.defences
        plain = first.row(self.head.facts.lambdas)
        return (
            plain,
            *(
                replace(variant.row(self.head.facts.lambdas), less=variant.less(first))
                for variant in others
            ),
        )

    @property
    def front(self) -> tuple[str, ...]:
        """The defences that none dominates by accuracy and AUC."""
        return compare_table.pareto_front(self.rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of all defences."""
        return tuple(
            replace(finding, label=f"{variant.entered.name}: {finding.label}")
            for variant in self.defences
            for finding in variant.audits.findings
        )

    def table(self) -> str:
        """The rows as a Markdown table, with what they mean."""
        return compare_table.as_markdown(self.summary)

    def render(self) -> dict[str, bytes]:
        """The page, the tables and the figures."""
        # draws, so it loads the chart library
        from divulge.studies.compare import page as compare_page

        return compare_page.render_files(self.summary)

    def store(self, folder: Path) -> None:
        """Write the audits of all defences with their reports, and what training costs.

        Raises:
            StoreError: it cannot be written.
        """
        for variant in self.defences:
            place = folder / variant.entered.run
            with atomic.translate_os_errors(place):
                place.mkdir(mode=0o700, parents=True)
            variant.audits.store(place)
            store_training_cost(place, variant.cost)
            replace(variant.audits, path=place).report()
        store_head(folder, self.head, self.parts_of_folder())

    def parts_of_folder(self) -> list[str]:
        """Paths in the run folder of the files on which figures depend besides its head."""
        runs = [variant.entered.run for variant in self.defences]
        return [f"{run}/{name}" for run in runs for name in (HEAD, COST)]

    def measure(self) -> "Comparison":
        """Compute all metrics of all defences again from the stored scores.

        Raises:
            StoreError: a run folder cannot be written.
        """
        with hold_run(self.path):
            defences = tuple(
                replace(variant, audits=variant.audits.measure()) for variant in self.defences
            )
            again = replace(self, defences=defences)
            if self.path is not None:
                again.report()
        return again

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        return compare_table.as_json(self.summary)

    @check_arguments
    def find(self, name: str) -> VariantAudits:
        """The defence of this name.

        Raises:
            SpecError: there is none.
        """
        for variant in self.defences:
            if variant.entered.name == name:
                return variant
        hint = did_you_mean(name, [variant.entered.name for variant in self.defences])
        raise SpecError(f"expected the name of a defence that was compared, got {name!r}: {hint}")

    @cached_property
    def summary(self) -> compare_table.ComparisonSummary:
        """All that the report says."""
        first = self.defences[0].audits.facts
        return compare_table.ComparisonSummary(
            name=self.head.name,
            created=self.head.created,
            records=first.records,
            models=first.models,
            targets=first.targets,
            shadows=first.shadows,
            rows=self.rows,
            sensitivity=self.defences[0].audits.verdict.sensitivity,
            not_measured=tuple(
                gap
                for gap in self.defences[0].audits.targets[0].summary.not_measured
                if gap.kind == "scope"
            ),
            reproduction={
                "divulge": self.head.divulge,
                "seed": self.head.seed,
                "settings": self.head.settings,
                "environment": self.head.environment,
            },
            set_aside=first.set_aside,
            people=first.people,
        )
