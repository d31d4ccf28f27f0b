"""Attacks without shadow models on one target's answers, by each tool."""

import tempfile
from pathlib import Path

from benchmarks.peers import report, side, targets
from benchmarks.peers.peers import ART
from benchmarks.peers.side import Side

SUMMARY = "attacks on answers alone: divulge and peers; CPU seconds"

SIDES = (
    Side("divulge, answers", "divulge_answers"),
    Side("ART, answers", "art_answers", ART),
)


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print what each attack took, and what it found among the records nobody told it about.

    Raises:
        MissingData: the records are not at hand.
    """
    task = targets.TASKS[name]
    if quick:
        task = task._replace(settings={**task.settings, "epochs": 5})
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "task")
        folder.mkdir()
        written = targets.write(task, folder)
        print(report.heading(name, written, task.settings))
        results = ((tool.name, side.run(tool, folder, Path(scratch))) for tool in SIDES)
        for line in report.lines(results, written.judged):
            print(line, flush=True)
