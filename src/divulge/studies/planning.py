"""How many records and shadow models an audit needs, and what an audit of a given size can see."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from divulge._util.arguments import Count, FilePath, check_arguments
from divulge.audits import config
from divulge.audits.requested_attacks import requested_attacks
from divulge.audits.result import Audit, SecretAudit
from divulge.errors import SpecError
from divulge.metrics import power as powers
from divulge.metrics.people import intraclass_correlation
from divulge.report import sentences, words
from divulge.report.units import PERSON
from divulge.studies.planned_sizes import PeopleInPlan, count_candidates

SHADOWS = {0: (0.29, 0.04), 4: (0.91, 0.68), 16: (0.97, 0.92), 64: (1.0, 1.0)}
"""What is left, with fewer shadow models, of the leak that the best attack shows with 64: of the
AUC's distance from one half, and of the TPR at 1 % FPR. The lowest of the four data sets of
docs/results/shadow-quality.md, rounded down."""

ENOUGH = 1_000
"""Members, and non-members, beyond which the critical deviation hardly changes."""


@dataclass(frozen=True, slots=True)
class RecordsNeeded:
    """The records that an audit with so many shadow models needs."""

    shadows: int
    kept: float
    """The share of the leak that is left with so many shadow models."""
    records: int | None
    """Members, and as many non-members; None if more than 100,000 of each."""


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What an audit sees, or what it takes to see a leak."""

    power: float
    attacks: int
    """Tested together."""
    members: int | None
    """None where records are what was asked for."""
    nonmembers: int | None
    auc: float | None
    """The smallest AUC of a single attack that is seen, or the one that was asked about; None if
    none is."""
    exposed: float | None
    """The smallest share of fully exposed members that is seen, or the one asked about."""
    needed: tuple[RecordsNeeded, ...] = ()
    """By number of shadow models, where a leak was given."""
    people: PeopleInPlan | None = None
    """Where members and non-members are people with several records; all other figures are then
    by person."""

    def __str__(self) -> str:
        if not self.needed:
            return self._describe_sizes()
        leak = (
            f"an AUC of {self.auc:g}"
            if self.auc is not None
            else f"{100 * (self.exposed or 0):g} % of the members fully exposed"
        )
        lines = [
            f"To see a leak ({leak}, as the best attack shows it with 64 shadow models) with "
            f"{100 * self.power:g} % power, testing {words.format_count(self.attacks, 'attack')}:",
            "",
            "shadow models  leak shown  members  non-members",
        ]
        for row in self.needed:
            size = "over 100,000" if row.records is None else f"{row.records:,}"
            lines.append(f"{row.shadows:>13}  {row.kept:>10.0%}  {size:>7}  {size:>11}")
        return "\n".join(lines)

    def _describe_sizes(self) -> str:
        """What an audit of these sizes sees."""
        members, nonmembers = self.members or 0, self.nonmembers or 0
        visible = powers.VisibleLeaks(self.auc, self.exposed)
        sizes = f"{words.format_count(members, 'member')}, {nonmembers:,} non-members"
        attacks = words.format_count(self.attacks, "attack")
        if self.people is None:
            return (
                f"{sizes}, {attacks}.\n{sentences.sensitivity(visible, self.attacks, self.power)}"
            )
        return (
            f"{sizes}, each a person, with {self.people.records:,} records, {attacks}.\n"
            f"{sentences.sensitivity(visible, self.attacks, self.power, PERSON)}"
            f"{self.people.describe(members + nonmembers)}"
        )


@check_arguments
def plan(
    *,
    members: Count | None = None,
    nonmembers: Count | None = None,
    auc: float | None = None,
    exposed: float | None = None,
    people: Count | None = None,
    records_each: Count | None = None,
    alike: float | None = None,
    power: float = powers.POWER,
    attacks: Count = powers.ATTACKS,
) -> AuditPlan:
    """Say what an audit sees, from its size; or what it takes to see a leak of a given size.

    Args:
        members: how many there are; give them and ``nonmembers``, or one of the leaks, or people.
        nonmembers: how many there are.
        auc: of the leak that is to be seen.
        exposed: share of the members that the leak exposes fully.
        people: how many people with several records there are, half of them members; give
            ``records_each`` and ``alike`` as well.
        records_each: how many records each of them has.
        alike: how alike the scores of one person's records are: the correlation of two of them, 0
            as of different people, 1 equal. `plan_file` measures it on a run by person.
        power: the chance of seeing it, above 0.05 and below 1.
        attacks: how many are tested together.

    Raises:
        SpecError: neither sizes nor one leak nor people are given, or a number is out of its range.

    Examples:
        >>> plan(members=200, nonmembers=200).exposed < 0.1
        True
        >>> [row.records for row in plan(exposed=0.5).needed][-1] < 20
        True
        >>> found = plan(people=60, records_each=10, alike=0.5)
        >>> found.auc > found.people.auc_by_record > found.people.auc_of_others
        True
    """
    _check_power(power)
    beside = [value is not None for value in (members, nonmembers, auc, exposed)]
    if any(value is not None for value in (people, records_each, alike)):
        if people is None or records_each is None or alike is None or any(beside):
            raise SpecError(
                "expected people, records_each and alike together, and no other sizes or leaks, "
                "got something else: give the three to learn which leak they show"
            )
        return _plan_people(people, records_each, alike, power, attacks)
    if beside == [True, True, False, False]:
        assert members is not None
        assert nonmembers is not None
        return _plan_sizes(members, nonmembers, power, attacks)
    if any(beside[:2]):
        raise SpecError(
            "expected members and nonmembers, or one of auc and exposed, got something else: "
            "give two sizes to learn what they show, or a leak to learn which sizes it takes"
        )
    powers.check_leak(auc, exposed)
    needed = tuple(
        RecordsNeeded(shadows, shares[auc is None], _records(auc, exposed, shares, power, attacks))
        for shadows, shares in SHADOWS.items()
    )
    return AuditPlan(power, attacks, None, None, auc, exposed, needed)


def _plan_people(
    people: int, records_each: int, alike: float, power: float, attacks: int
) -> AuditPlan:
    if people < 2 or not 0 <= alike <= 1:
        raise SpecError(
            f"expected 2 people or more and alike from 0 to 1, got {people} and {alike}: 0 is as "
            "records of different people, 1 as copies"
        )
    members = people // 2
    by_records = _plan_sizes(members, people - members, power, attacks)
    return _compare_with_others(by_records, people * records_each, alike)


def _check_power(power: float) -> None:
    if not 0.05 < power < 1:
        raise SpecError(f"expected a power above 0.05 and below 1, got {power}: 0.8 is usual")


def _plan_sizes(
    members: int, nonmembers: int, power: float, attacks: int, critical: float | None = None
) -> AuditPlan:
    """What an audit sees, by the critical deviation of its test, or of one that is planned."""
    if critical is None:
        critical = powers.critical_deviation(members, nonmembers, attacks)
    visible = powers.visible_leaks(members, nonmembers, critical, power)
    return AuditPlan(power, attacks, members, nonmembers, *visible)


def _compare_with_others(by_records: AuditPlan, records: int, alike: float | None) -> AuditPlan:
    """A plan of people, beside one of as many records of different people."""
    members, nonmembers = by_records.members or 0, by_records.nonmembers or 0
    each = records / (members + nonmembers)
    if alike is None or by_records.auc is None:
        return replace(by_records, people=PeopleInPlan(records, alike))
    sizes = max(1, round(members * each)), max(1, round(nonmembers * each))
    # the critical deviation hardly depends on the size, and takes long for a large one
    inside, outside = (min(size, ENOUGH) for size in sizes)
    critical = powers.critical_deviation(inside, outside, by_records.attacks)
    others = powers.visible_leaks(*sizes, critical, by_records.power)
    by_record = powers.auc_by_record(by_records.auc, each, alike)
    return replace(by_records, people=PeopleInPlan(records, alike, by_record, others.auc))


@check_arguments
def plan_file(path: FilePath, *, power: float = powers.POWER) -> AuditPlan:
    """Say what the audit at hand sees: that of an ``audit.toml``, or one in a run folder.

    Args:
        path: the settings, or the folder.
        power: as for `plan`.

    Raises:
        DivulgeError: there is no such audit, or its records cannot be read.
    """
    _check_power(power)
    path = Path(path)
    if path.is_dir():
        audit = SecretAudit.load(path)
        if not isinstance(audit, Audit):
            raise SpecError(
                f"expected an audit of a model in {path}, got one of {audit.about}: a federation's "
                "page says itself what it could have seen"
            )
        facts, verdict = audit.facts, audit.verdict
        sizes = facts.members, facts.nonmembers
        # of the run's own test: its report says the same
        by_records = _plan_sizes(*sizes, power, max(1, verdict.tested), verdict.critical)
        if facts.people is None:
            return by_records
        records = facts.people.members + facts.people.nonmembers
        return _compare_with_others(by_records, records, _measure_alike(audit))
    settings = config.read_config(path)
    if isinstance(settings, config.FederationAuditSpec):
        raise SpecError(
            f"expected an audit of a model in {path}, got [{settings.section}]: "
            "a federation's page says itself what it could have seen"
        )
    planned = count_candidates(settings, path.parent)
    attacks = len(requested_attacks(settings, path.parent))
    by_records = _plan_sizes(planned.members, planned.nonmembers, power, attacks)
    return (
        by_records
        if planned.records is None
        else _compare_with_others(by_records, planned.records, None)
    )


def _measure_alike(audit: Audit) -> float | None:
    """The correlation of the scores of one person's records, of those the model never saw.

    The mean over attacks; None where none was done.
    """
    candidates = audit.candidates
    assert candidates.person is not None
    others = ~candidates.member[candidates.person]
    coefficients = [
        intraclass_correlation(entry.arrays["by_record"][others], candidates.person[others])
        for entry in audit.contents.entries
        if "by_record" in entry.arrays
    ]
    return float(np.mean(coefficients)) if coefficients else None


def _records(
    auc: float | None,
    exposed: float | None,
    shares: tuple[float, float],
    power: float,
    attacks: int,
) -> int | None:
    return powers.members_needed(
        auc=None if auc is None else 0.5 + shares[0] * (auc - 0.5),
        exposed=None if exposed is None else shares[1] * exposed,
        power=power,
        attacks=attacks,
    )
