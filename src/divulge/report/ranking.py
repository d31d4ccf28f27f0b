"""Attacks in the order in which people read them: the strongest first, each family once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from divulge.core import ControlOutcome, Estimate, Finding, Status
from divulge.report import words
from divulge.report.schema import AttackRow

_ROUNDING = 1e-9
"""By how much AUCs of one ranking differ, in floats: that of two rankings differs by a pair."""


class Ranking(NamedTuple):
    """Attacks by strength; an attack with several settings is a family."""

    heads: tuple[AttackRow, ...]
    """The strongest of each family that was carried out, the deciding attack first."""
    others: tuple[AttackRow, ...]
    """The other settings of these attacks, the strongest first."""
    twins: Mapping[str, tuple[str, ...]]
    """By the label of an attack above, those with the same figures, which stand in its row."""
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
    done, twins = _join_twins(done)
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
    return Ranking(tuple(heads.values()), others, twins, lost)


def _join_twins(
    rows: Sequence[AttackRow],
) -> tuple[list[AttackRow], Mapping[str, tuple[str, ...]]]:
    """The rows without those that repeat an earlier one, whose labels stand by that one's.

    Scores that rank all candidates alike have the same AUC, and figures that read alike.
    """
    distinct: list[AttackRow] = []
    twins: dict[str, tuple[str, ...]] = {}
    for row in rows:
        first = next((earlier for earlier in distinct if _repeats(row, earlier)), None)
        if first is None:
            distinct.append(row)
        else:
            twins[first.label] = (*twins.get(first.label, ()), row.label)
    return distinct, twins


def _repeats(row: AttackRow, other: AttackRow) -> bool:
    auc, same = row.metrics.get("auc"), other.metrics.get("auc")
    if auc is None or same is None or abs(auc.value - same.value) > _ROUNDING:
        return False
    return _shown(row) == _shown(other)


def _shown(row: AttackRow) -> tuple[ControlOutcome | None, dict[str, str]]:
    figures = {name: words.format_metric(name, it) for name, it in row.metrics.items()}
    return None if row.control is None else row.control.outcome, figures


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
