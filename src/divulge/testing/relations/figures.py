"""What two audits are compared by, and what may differ."""

from collections.abc import Callable

from divulge.audits.result import SecretAudit
from divulge.core import Estimate

Difference = Callable[[SecretAudit, SecretAudit], list[str]]
"""What two audits say differently."""

ROUNDING = 1e-9
"""Sums in another order differ by some thousand units of float64's last place at most."""

DRAWN = ("advantage", "balanced_accuracy")
"""Metrics whose threshold is chosen on a half of the records that is drawn by position."""

TIED = ("shadow-gap",)
"""Attacks with many equal scores, which the bound on ε orders by lots that it draws by position."""


def figures(audit: SecretAudit) -> dict[tuple[str, str], Estimate]:
    """By attack and metric, those that do not depend on the order of records."""
    return {
        (finding.label, name): estimate
        for finding in audit.findings
        for name, estimate in finding.metrics.items()
        if name not in DRAWN and not (name == "epsilon" and finding.attack in TIED)
    }


def differences(first: SecretAudit, second: SecretAudit) -> list[str]:
    """What two audits say differently; empty if they agree."""
    levels = first.verdict.level, second.verdict.level
    verdicts = [] if levels[0] == levels[1] else [f"verdicts {levels}"]
    return verdicts + changed(first, second)


def changed(first: SecretAudit, second: SecretAudit) -> list[str]:
    """Which figures of two audits differ."""
    before, after = figures(first), figures(second)
    assert before, "nothing was measured"
    missing = [f"{key} in one alone" for key in sorted(before.keys() ^ after.keys())]
    return missing + [
        f"{key} {before[key]}, {after[key]}"
        for key in before.keys() & after.keys()
        if not _agree(before[key], after[key])
    ]


def changed_ranks(first: SecretAudit, second: SecretAudit) -> list[str]:
    """Which figures differ that follow from the order of the scores, ties included, alone."""
    return [line for line in changed(first, second) if "'epsilon'" not in line]


def _agree(first: Estimate, second: Estimate) -> bool:
    pairs = [(first.value, second.value), (first.low, second.low), (first.high, second.high)]
    return all(
        a is b or (a is not None and b is not None and abs(a - b) <= ROUNDING) for a, b in pairs
    )
