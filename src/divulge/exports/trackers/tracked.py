"""What every tracker is told of a run: names with figures, tags, and the files of the report."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from divulge._util import untrusted
from divulge._util.showable import make_showable
from divulge.core import Estimate
from divulge.errors import StoreError
from divulge.exports.ci.cases import VerdictCase
from divulge.finished_runs.finished_run import FinishedRun, GatedAudit
from divulge.secrets.registry import lead_metric

SUMMARIES = ("summary.json", "summary.md")
"""Files of a run folder that go with the page, where they are there."""

_MOST = 120
"""Longest name of an attack: MLflow takes 250 characters for a whole name."""
_LONGEST_TEXT = 2000
"""Longest text of a tag; MLflow takes 8,000 bytes, in any alphabet."""


@dataclass(frozen=True, slots=True)
class TrackedFigure:
    """A metric of an attack that passed its controls."""

    about: str
    """Name of the defence in a comparison, else empty."""
    attack: str
    metric: str
    estimate: Estimate
    unmeasured: bool
    """Whether its lower limit means nothing."""
    leads: bool
    """Whether it is the metric that stands for the attack: the AUC, for membership."""


def gather_figures(finished: FinishedRun) -> tuple[TrackedFigure, ...]:
    """Metrics of all attacks of a run that passed their controls."""
    return tuple(
        figure for name, audit in finished.parts.items() for figure in _figures(name, audit)
    )


def _figures(about: str, audit: GatedAudit) -> Iterator[TrackedFigure]:
    unmeasured = {finding.label: finding.unmeasured for finding in audit.findings}
    for label, metrics in audit.figures().items():
        for name, estimate in metrics.items():
            yield TrackedFigure(
                make_showable(about),
                make_showable(label),
                make_showable(name),
                estimate,
                name in unmeasured.get(label, {}),
                name == lead_metric(audit.about),
            )


def name_figures(figures: tuple[TrackedFigure, ...]) -> dict[str, float]:
    """Figures by names that trackers take: ``ATTACK/METRIC`` with ``.low`` and ``.high``.

    Examples:
        >>> loss = TrackedFigure("", "threshold(signal=loss)", "tpr@0.01",
        ...                      Estimate(0.2, 0.1, 0.3), True, False)
        >>> name_figures((loss,))
        {'threshold_signal_loss/tpr_at_0.01': 0.2, 'threshold_signal_loss/tpr_at_0.01.high': 0.3}
    """
    named: dict[str, float] = {}
    for figure in figures:
        parts = (*filter(None, [figure.about]), figure.attack, figure.metric.replace("@", "_at_"))
        name = start = "/".join(map(_plain_name, parts))
        number = 2
        while name in named:  # two names that differ in other characters alone
            name, number = f"{start}_{number}", number + 1
        named[name] = figure.estimate.value
        if not figure.unmeasured:
            named[f"{name}.low"] = figure.estimate.low
        if figure.estimate.high is not None:
            named[f"{name}.high"] = figure.estimate.high
    return named


def name_tags(verdicts: tuple[VerdictCase, ...], divulge: str) -> dict[str, str]:
    """The version and the verdicts, as tags."""
    tags = {"divulge.version": divulge}
    for case in verdicts:
        start = f"divulge.{_plain_name(case.about)}" if case.about else "divulge"
        tags[f"{start}.verdict"] = case.level
        tags[f"{start}.headline"] = case.headline[:_LONGEST_TEXT]
    return tags


def read_report(path: Path, page: str) -> dict[str, bytes]:
    """The page of a run folder and its summaries, by name.

    Scores, answers, ids and the list of exposed records are not among them.

    Raises:
        StoreError: there is no page, or one of them is no ordinary file.
    """
    if not (path / page).exists():
        raise StoreError(
            f"expected a report at {path / page}, there is none: write it with `divulge report`"
        )
    names = [page, *(name for name in SUMMARIES if (path / name).exists())]
    return {
        name: untrusted.read_file(path / name, untrusted.MAX_TEXT_BYTES, StoreError, links=False)
        for name in names
    }


def _plain_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_.")[:_MOST] or "unnamed"
