"""What an audit found, as Python users hold it."""

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.audits import gate as rulings
from divulge.audits.run_folder import Contents, Entry, Run
from divulge.core import Check, Finding, Membership, Scores
from divulge.errors import MissingExtra, SpecError
from divulge.metrics.measure import measure
from divulge.report import exposed as exposing
from divulge.report import files as report_files
from divulge.report import summary as summaries
from divulge.report.schema import Conclusion, Limits

if TYPE_CHECKING:
    import pandas as pd

PAGE = "report.html"


@dataclass(frozen=True)
class Audit:
    """What an audit found. Shows itself in a notebook."""

    contents: Contents
    path: Path | None = None
    """The run folder, if it has one."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding per attack, in the order asked for."""
        return tuple(entry.finding for entry in self.contents.entries)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the audit itself."""
        return self.contents.manifest.checks

    @cached_property
    def summary(self) -> summaries.Summary:
        """All that the report shows."""
        return summaries.summarise(self.contents)

    def exposed(self, q: float = 0.1) -> tuple[exposing.ExposedRecord, ...]:
        """The members exposed beyond doubt, highest scores first; see `divulge.metrics.exposed`.

        The attack is that of ``summary.exposed``, chosen before its scores were compared.

        Args:
            q: the false-discovery rate: at most this share of such lists, on average, are members
                that would have scored as high had the model not been trained on them.

        Raises:
            SpecError: q is no rate above 0 and below 1.
            Unmeasurable: with so few non-members every list is empty, or members and non-members
                cannot be compared; says what would do.
        """
        if not 0 < q < 1:
            raise SpecError(f"expected a false-discovery rate above 0 and below 1, got {q}")
        summary = self.summary
        sizes = summary.sizes
        exposing.check(summary.exposed, sizes.members, sizes.nonmembers, q)
        members = exposing.records(self.contents, summary)
        return tuple(member for member in members if member.q is not None and member.q <= q)

    def scores(self) -> "pd.DataFrame":
        """One row per candidate: member, position, id, label, and each finished attack's score.

        Raises:
            MissingExtra: pandas is not installed.
        """
        candidates = self.contents.candidates
        ids = candidates.ids
        columns = {
            "member": candidates.member,
            "position": candidates.index,
            "id": np.full(len(candidates.member), "") if ids is None else ids,
            "label": candidates.label,
        }
        done = [entry for entry in self.contents.entries if entry.score is not None]
        return _frame(columns | {entry.finding.label: entry.score for entry in done})

    @property
    def verdict(self) -> Conclusion:
        """Whether there is a leak, with the evidence."""
        return self.summary.verdict

    @property
    def limits(self) -> Mapping[str, Limits]:
        """By metric, intervals that hold for all attacks at once: what a gate compares."""
        return self.verdict.limits

    def gate(
        self,
        *,
        fail_on: Iterable[str] = (),
        fail_above: Mapping[str, float] | None = None,
        judge: str = "low",
        claim: bool = False,
    ) -> rulings.Ruling:
        """Hold the audit against a gate, as ``divulge audit --fail-on`` does.

        Args:
            fail_on: verdicts that fail: leak, confounded, control-failed, undecided.
            fail_above: by metric, the highest admissible value.
            judge: compare the ``low`` limit with it, or the ``value``.
            claim: also require that the claimed epsilon is consistent with the measurement.

        Raises:
            SpecError: a word or a metric is unknown, or a ceiling is out of the metric's range.
        """
        asked = rulings.Gate(tuple(fail_on), fail_above, judge)
        ruling = rulings.rule(asked, self.verdict, self.limits)
        return ruling + rulings.unproven(self.summary.claim) if claim else ruling

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page, one self-contained HTML file, and return its path.

        Args:
            path: default: the whole report in the run folder, if there is one, again; else
                ``report.html``.

        Raises:
            StoreError: it cannot be written.
        """
        files = report_files.write_all(self.contents)
        if path is None and self.path is not None:
            _write_report(Run.open(self.path), files)
            return self.path / PAGE
        path = Path(path or PAGE)
        return Run(path.parent).write(path.name, files[PAGE])

    def measure(self) -> "Audit":
        """Compute all metrics again from the stored scores; a run folder is brought up to date.

        Raises:
            StoreError: the run folder cannot be written.
        """
        contents = self.contents
        truth = Membership(contents.candidates.member, contents.manifest.drawn)
        delta = contents.manifest.delta
        entries = tuple(_measured(entry, truth, delta) for entry in contents.entries)
        again = replace(self, contents=replace(contents, entries=entries))
        if self.path is not None:
            run = Run.open(self.path)
            keys = {entry.finding.label: key for key, entry in run.entries().items()}
            for entry in entries:
                run.put(keys[entry.finding.label], entry)
            again.report()
        return again

    def save(self, path: str | Path) -> Path:
        """Write a run folder with findings, scores and report, and return its path.

        Raises:
            StoreError: the folder exists, or cannot be written.
        """
        run = Run.create(Path(path))
        run.begin(self.contents.manifest, self.contents.candidates)
        keys = dict(
            zip(self.contents.manifest.attacks, self.contents.manifest.findings, strict=True)
        )
        for entry in self.contents.entries:
            run.put(keys[entry.finding.label], entry)
        _write_report(run, report_files.write_all(self.contents))
        return run.path

    def to_frame(self) -> "pd.DataFrame":
        """One row per attack and metric: attack, status, metric, value, low, high.

        Raises:
            MissingExtra: pandas is not installed.
        """
        rows: list[tuple[str, str, str | None, float | None, float | None, float | None]] = []
        for finding in self.findings:
            start = (finding.label, finding.status.value)
            rows += [
                (*start, name, estimate.value, estimate.low, estimate.high)
                for name, estimate in finding.metrics.items()
            ] or [(*start, None, None, None, None)]
        return _frame(rows, ["attack", "status", "metric", "value", "low", "high"])

    def _repr_html_(self) -> str:
        # a frame of its own: the page's styles cannot reach the notebook, nor the notebook's it
        page = html.escape(report_files.write_all(self.contents)[PAGE].decode(), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="" title="divulge report" '
            'style="width:100%;height:48em;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        verdict = self.summary.verdict
        return "\n".join([f"<divulge.Audit: {verdict.headline}>", *verdict.sentences])


def load(run: str | Path) -> Audit:
    """The audit in a run folder; needs neither the model nor the data.

    Raises:
        StoreError: it is no run folder, damaged, or made by a newer divulge.
    """
    path = Path(run)
    return Audit(Run.open(path).contents(), path)


def _frame(data: Any, columns: list[str] | None = None) -> "pd.DataFrame":
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra("pandas", "pandas") from error
    return pd.DataFrame(data, columns=columns)


def _measured(entry: Entry, truth: Membership, delta: float) -> Entry:
    if entry.score is None:
        return entry
    metrics, unmeasured = measure(Scores(entry.score), truth, delta)
    return replace(entry, finding=replace(entry.finding, metrics=metrics, unmeasured=unmeasured))


def _write_report(run: Run, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        run.write(name, content)
