"""Attacks with 16 shadow models by each tool, on one target: its own shadows, or the same."""

import tempfile
from pathlib import Path

from benchmarks.peers import report, side, targets
from benchmarks.peers.peers import ART, LEAKPRO, PRIVACY_METER, PRIVACYGUARD
from benchmarks.peers.side import Side

OWN = "whole audits with 16 shadows: divulge, a bare loop, and peers; CPU seconds"

SAME = "attacks with the same 16 shadows of the same target: divulge, a bare loop, and peers"

SIDES = (
    Side("divulge, all attacks", "divulge_shadows"),
    Side("bare PyTorch loop", "bare_shadows"),
    Side("PrivacyGuard", "privacyguard_shadows", PRIVACYGUARD),
    Side("ART", "art_shadows", ART),
    Side("LeakPro", "leakpro_shadows", LEAKPRO),
)

WITH_OWN_SHADOWS = (
    Side("divulge, LiRA alone", "divulge_shadows", more=("lira",)),
    *SIDES,
    Side("Privacy Meter", "privacy_meter_shadows", PRIVACY_METER),
)
"""Privacy Meter takes no others: each record must be in one model of each of its pairs."""


def run(quick: bool, name: str, *, same: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print what each tool took to attack one target, and what its attacks found.

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
        if same:
            targets.write_shadows(task.settings, folder)
        print(report.heading(name, written, task.settings))
        sides = SIDES if same else WITH_OWN_SHADOWS
        results = ((tool.name, side.run(tool, folder, Path(scratch))) for tool in sides)
        for line in report.lines(results, written.member):
            print(line, flush=True)
