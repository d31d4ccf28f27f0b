"""What an audit found, as Python users hold it."""

import html
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from divulge import auditing
from divulge.core import Check, Finding, Membership, Scores
from divulge.errors import MissingExtra
from divulge.report import files as report_files
from divulge.report import summary as summaries
from divulge.store import Contents, Entry, Run

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

    @property
    def sound(self) -> bool:
        """Whether the attack that decides passed its controls."""
        return self.summary.verdict.level != "instrument failed"

    @property
    def summary(self) -> summaries.Summary:
        """All that the report shows."""
        return summaries.summarise(self.contents)

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
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("pandas", "pandas") from error
        rows: list[tuple[str, str, str | None, float | None, float | None, float | None]] = []
        for finding in self.findings:
            start = (finding.label, finding.status.value)
            rows += [
                (*start, name, estimate.value, estimate.low, estimate.high)
                for name, estimate in finding.metrics.items()
            ] or [(*start, None, None, None, None)]
        return pd.DataFrame(rows, columns=["attack", "status", "metric", "value", "low", "high"])

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


def _measured(entry: Entry, truth: Membership, delta: float) -> Entry:
    if entry.score is None:
        return entry
    metrics, unmeasured = auditing.measure(Scores(entry.score), truth, delta)
    return replace(entry, finding=replace(entry.finding, metrics=metrics, unmeasured=unmeasured))


def _write_report(run: Run, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        run.write(name, content)
