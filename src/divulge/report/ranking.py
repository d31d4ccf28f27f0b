"""Attacks in the order in which people read them: the strongest first, each family once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from divulge.core import Estimate, Finding, Status
from divulge.report.schema import AttackRow


class Ranking(NamedTuple):
    """Attacks by strength; an attack with several settings is a family."""

    heads: tuple[AttackRow, ...]
    """The strongest of each family that was carried out, the deciding attack first."""
    others: tuple[AttackRow, ...]
    """The other settings of these attacks, the strongest first."""
    lost: Mapping[tuple[str, str], tuple[str, ...]]
    """Labels of attacks that came to nothing, by how they ended and why."""


def rank(rows: Sequence[AttackRow], deciding: str | None = None) -> Ranking:
    """Sort attacks by strength, and tell the strongest of each family from the rest.

    Args:
        rows: every attack that was asked for.
        deciding: the label of the attack that decides the verdict; it comes first.
    """
    done = sorted(
        (row for row in rows if row.status == "done"),
        key=lambda row: (row.label != deciding, strength(row.metrics, sound=row.sound)),
    )
    heads: dict[str, AttackRow] = {}
    for row in done:
        heads.setdefault(row.attack, row)
    chosen = {row.label for row in heads.values()}
    lost: dict[tuple[str, str], tuple[str, ...]] = {}
    for row in rows:
        if row.status != "done":
            place = (row.status, "" if row.status == "not applicable" else row.reason)
            lost[place] = (*lost.get(place, ()), row.label)
    others = tuple(row for row in done if row.label not in chosen)
    return Ranking(tuple(heads.values()), others, lost)


def group_lost(findings: Iterable[Finding]) -> dict[tuple[Status, str], list[Finding]]:
    """Attacks that came to nothing, by how they ended and why."""
    lost: dict[tuple[Status, str], list[Finding]] = {}
    for finding in findings:
        if finding.status is not Status.DONE:
            lost.setdefault((finding.status, finding.reason), []).append(finding)
    return lost


def strength(metrics: Mapping[str, Estimate], *, sound: bool) -> tuple[bool, float]:
    """A key to sort by: attacks that failed a control last, then by falling AUC."""
    return not sound, -metrics["auc"].value if "auc" in metrics else 0.0
