"""How many members and non-members an audit by its settings has: records, or people."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from divulge.audits import config
from divulge.audits.table_inputs import inputs_from_predictions
from divulge.core import Records
from divulge.data import groups
from divulge.data import records as data_records
from divulge.errors import DataError
from divulge.metrics import power as powers


@dataclass(frozen=True, slots=True)
class PeopleInPlan:
    """What people with several records change in a plan."""

    records: int
    """Records of all members and non-members."""
    alike: float | None = None
    """Correlation of the scores of two records of one person; None if nobody knows."""
    auc_by_record: float | None = None
    """The AUC by record of the smallest leak that is seen; None if none is, or without `alike`."""
    auc_of_others: float | None = None
    """The smallest AUC that as many records show if each is somebody else's; likewise."""

    def describe(self, people: int) -> str:
        """What the leak is by record, as sentences; empty if nobody knows how alike records are.

        Args:
            people: members and non-members.
        """
        if self.alike is None or self.auc_by_record is None or self.auc_of_others is None:
            return ""
        effect = powers.design_effect(self.records / people, self.alike)
        return (
            f"\nBy record this is an AUC of {self.auc_by_record:.2f}, where the scores of two "
            f"records of one person correlate by {self.alike:.2g}.\n{self.records:,} records of "
            f"as many people would show an AUC of {self.auc_of_others:.2f}: here they count as "
            f"{self.records / effect:,.0f} (design effect {effect:.3g})."
        )


class PlannedSizes(NamedTuple):
    """Members and non-members of an audit that is planned."""

    members: int
    nonmembers: int
    records: int | None = None
    """Records of both where these are people; None where they are records."""


def count_candidates(
    settings: config.ModelAuditSpec | config.PredictionsAuditSpec | config.LeaveOneOutAuditSpec,
    folder: Path,
) -> PlannedSizes:
    """How many members and non-members there will be.

    Args:
        settings: of the audit.
        folder: where relative paths start.

    Raises:
        DivulgeError: records cannot be read, or one is nobody's.
    """
    if isinstance(settings, config.PredictionsAuditSpec):
        subject = inputs_from_predictions(settings.predictions, folder)
        return _count(subject.members, subject.nonmembers)
    try:
        return _count_records(settings, folder, values=False)
    except DataError as classes:
        try:  # counted only: the labels may be true values as well
            return _count_records(settings, folder, values=True)
        except DataError:
            raise classes from None


def _count_records(
    settings: config.ModelAuditSpec | config.LeaveOneOutAuditSpec, folder: Path, *, values: bool
) -> PlannedSizes:
    data = settings.data
    names = [data.records] if data.records else [str(data.members), str(data.nonmembers)]
    sets = data_records.load_record_sets(names, data.label, folder, data.besides(), values=values)
    if data.group is not None:
        sets = [
            replace(records, group=groups.number_groups(
                groups.read_values(name, data.group, folder), len(records), f"group of {name}"
            ))
            for name, records in zip(names, sets, strict=True)
        ]  # fmt: skip
    if isinstance(settings, config.LeaveOneOutAuditSpec):
        return _halve(sets)
    return _count(*sets)


def _count(members: Records, nonmembers: Records) -> PlannedSizes:
    if members.group is None or nonmembers.group is None:
        return PlannedSizes(len(members), len(nonmembers))
    people = [len(np.unique(group)) for group in (members.group, nonmembers.group)]
    return PlannedSizes(people[0], people[1], len(members) + len(nonmembers))


def _halve(pool: Sequence[Records]) -> PlannedSizes:
    """The sizes of a pool, half of which each model of leave-one-out is trained on."""
    records = sum(map(len, pool))
    group = [records.group for records in pool if records.group is not None]
    count = len(np.unique(np.concatenate(group))) if group else records
    return PlannedSizes(count // 2, count - count // 2, records if group else None)
