"""Attacks that read labels alone behind answer defences: divulge, and peers on the same target."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from benchmarks.peers import report, side, targets
from benchmarks.peers.peers import ART, LEAKPRO
from benchmarks.peers.side import Missing, Result, Side
from divulge.metrics import membership

SUMMARY = "labels alone: TPR at 1 % FPR behind answer defences, questions a record, and peers"

SIDES = (
    Side("divulge", "divulge_labels"),
    Side("ART", "art_labels", ART),
    Side("LeakPro", "leakpro_labels", LEAKPRO),
)

SEARCHED = 400
"""Records that slow peers search the boundary of, half of them members."""

DEFENCES = ("none", "rounding", "top-1")

HEAD = (
    "| tool, attack | records | questions | CPU s | AUC behind top-1 | "
    + " | ".join(f"TPR at 1 % FPR, {name}" for name in DEFENCES)
    + " |",
    "|---|---:|---:|---:|---|" + "---|" * len(DEFENCES),
)


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print one table a data set.

    Raises:
        MissingData: the records are not at hand.
    """
    for name, task in targets.TASKS.items():
        if quick:
            task = task._replace(settings={**task.settings, "epochs": 5, "shadows": 4})
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "task")
            folder.mkdir()
            written = targets.write(task, folder)
            rows = np.concatenate(
                [np.flatnonzero(written.member == side)[: SEARCHED // 2] for side in (True, False)]
            )
            np.savez(folder / "searched.npz", rows=rows[:20] if quick else rows)
            print(report.heading(name, written, task.settings), *HEAD, sep="\n")
            for tool in SIDES:
                for line in _lines(
                    tool.name, side.run(tool, folder, Path(scratch)), written.member
                ):
                    print(line, flush=True)


def _lines(
    tool: str, result: Result | Missing, member: Bool[np.ndarray, " records"]
) -> Iterator[str]:
    if isinstance(result, Missing):
        yield f"| {tool} | | | | {result.reason} |" + " |" * len(DEFENCES)
        return
    for name, questions in result.scores.items():
        if name.startswith("questions of "):
            attack = name.removeprefix("questions of ")
            yield f"| {tool}, {attack} | {_row(attack, result, float(questions[0]), member)} |"


def _row(
    attack: str, result: Result, questions: float, member: Bool[np.ndarray, " records"]
) -> str:
    behind = {name: result.scores.get(f"{attack} behind {name}") for name in DEFENCES}
    seconds = [result.seconds.get(f"{attack} behind {name}", 0.0) for name in DEFENCES]
    first_score = next(score for score in behind.values() if score is not None)
    last = behind["top-1"]
    cells = [
        f"{np.isfinite(first_score).sum():,}",
        f"{questions:,.1f}" if np.isfinite(questions) else "not counted",
        f"{max(seconds):.1f}",
        "not applicable"
        if last is None
        else report.format_estimate(membership.auc(*_scored_members(last, member))),
        *(_rate(score, member) for score in behind.values()),
    ]
    return " | ".join(cells)


def _scored_members(
    score: np.ndarray, member: Bool[np.ndarray, " records"]
) -> tuple[np.ndarray, np.ndarray]:
    """The scores that there are, and who of these is a member."""
    there = np.isfinite(score)
    return score[there], member[there]


def _rate(score: np.ndarray | None, member: Bool[np.ndarray, " records"]) -> str:
    if score is None:
        return ""
    try:
        return report.format_estimate(membership.tpr_at_fpr(*_scored_members(score, member), 0.01))
    except membership.Unmeasurable as error:
        return str(error)
