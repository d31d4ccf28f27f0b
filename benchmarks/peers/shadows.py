"""Whole audits with 16 shadow models, by each tool, of one target on the same records."""

import tempfile
from pathlib import Path

from benchmarks.peers import report, side, targets
from benchmarks.peers.peers import ART, LEAKPRO, PRIVACY_METER, PRIVACYGUARD
from benchmarks.peers.side import Side

SUMMARY = "whole audits with 16 shadows: divulge, a bare loop, and peers; CPU seconds"

SIDES = (
    Side("divulge, LiRA alone", "divulge_shadows", more=("lira",)),
    Side("divulge, all attacks", "divulge_shadows"),
    Side("bare PyTorch loop", "bare_shadows"),
    Side("PrivacyGuard", "privacyguard_shadows", PRIVACYGUARD),
    Side("ART", "art_shadows", ART),
    Side("Privacy Meter", None, PRIVACY_METER),
    Side("LeakPro", None, LEAKPRO),
)


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print what each tool took for an audit of one target, and what its attacks found.

    Raises:
        MissingData: the records are not at hand.
    """
    task = targets.TASKS[name]
    if quick:
        task = task._replace(settings={**task.settings, "epochs": 5, "shadows": 4})
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "task")
        folder.mkdir()
        written = targets.write(task, folder)
        print(report.heading(name, written, task.settings))
        results = ((one.name, side.run(one, folder, Path(scratch))) for one in SIDES)
        for line in report.lines(results, written.member):
            print(line, flush=True)
