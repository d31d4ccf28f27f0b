"""The table of a part: one line a tool with what it took, one line an attack with what it found."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool

from benchmarks.peers.drivers.desk import METRICS
from benchmarks.peers.process import Resources
from benchmarks.peers.side import Missing, Result
from benchmarks.peers.targets import TaskTruth
from benchmarks.timing import environment
from divulge.core import Estimate
from divulge.metrics import membership

HEAD = (
    f"| tool, attack | CPU s | wall, s | peak, MiB | {' | '.join(METRICS)} |",
    "|---|---:|---:|---:|---|---|---|",
)


def lines(
    results: Iterable[tuple[str, Result | Missing]], member: Bool[np.ndarray, " records"]
) -> Iterator[str]:
    """The table in Markdown, as results come; each tool has a line, whatever became of it."""
    yield from HEAD
    for name, result in results:
        if isinstance(result, Missing):
            yield f"| **{name}** | | | | {result.reason} | | |"
            continue
        yield f"| **{name}** | {format_costs(result.spent)} | | | |"
        for what in dict.fromkeys((*result.seconds, *result.scores)):
            cpu, score = result.seconds.get(what), result.scores.get(what)
            printed = result.printed.get(what, {})
            cells = " | | " if score is None else " | ".join(rates(score, member, printed))
            yield f"| - {what} | {'' if cpu is None else f'{cpu:.2f}'} | | | {cells} |"


def format_costs(spent: Resources) -> str:
    """CPU seconds, seconds on the clock, memory."""
    return f"{spent.cpu:.1f} | {spent.wall:.1f} | {spent.peak / 2**20:.0f}"


def rates(
    score: np.ndarray,
    member: Bool[np.ndarray, " records"],
    printed: Mapping[str, float] = MappingProxyType({}),
) -> tuple[str, str, str]:
    """AUC and the rates at low false-positive rates, each with its interval.

    Where the tool itself prints another figure of the same scores, that is said too.
    """
    auc = membership.auc(score, member)
    shown = format_estimate(auc)
    if auc.high is not None and auc.high < 0.5:
        shown += f"; below guessing, its opposite has {1 - auc.value:.3f}"
    shown += _note_printed(auc, printed.get(METRICS[0]))
    try:
        tprs = [membership.tpr_at_fpr(score, member, fpr) for fpr in (0.01, 0.001)]
    except membership.Unmeasurable as error:
        return shown, "", str(error)
    hundredth, thousandth = (
        format_estimate(rate) + _note_printed(rate, printed.get(metric))
        for rate, metric in zip(tprs, METRICS[1:], strict=True)
    )
    return shown, hundredth, thousandth


def _note_printed(measured: Estimate, printed: float | None) -> str:
    if printed is None or f"{printed:.3f}" == f"{measured.value:.3f}":
        return ""
    return f"; it prints {printed:.3f}"


def format_estimate(estimate: Estimate) -> str:
    """A value with its interval."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def heading(name: str, written: TaskTruth, settings: Mapping[str, Any]) -> str:
    """What the target is, and on what machine its auditors were measured."""
    inside, outside = written.accuracy
    description = ", ".join(f"{what} {value}" for what, value in settings.items())
    return (
        f"{name}: {len(written.member)} records, accuracy {inside:.3f} on members and "
        f"{outside:.3f} on others; {description}\n"
        f"{environment(('divulge', 'torch'))}; one thread a process"
    )
