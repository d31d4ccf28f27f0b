"""How many records and shadow models an audit needs, and what an audit of a given size can see."""

from dataclasses import dataclass
from pathlib import Path

from divulge._util.arguments import Count, FilePath, check_arguments
from divulge.audits import config
from divulge.audits.result import Audit, SecretAudit
from divulge.audits.table_inputs import inputs_from_predictions
from divulge.data import records as data_records
from divulge.errors import DataError, SpecError
from divulge.metrics import power as powers
from divulge.report import sentences, words
from divulge.studies.leave_one_out import design

SHADOWS = {0: (0.29, 0.04), 4: (0.91, 0.68), 16: (0.97, 0.92), 64: (1.0, 1.0)}
"""What is left, with fewer shadow models, of the leak that the best attack shows with 64: of the
AUC's distance from one half, and of the TPR at 1 % FPR. The lowest of the four data sets of
docs/results/shadow-quality.md, rounded down."""


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

    def __str__(self) -> str:
        if not self.needed:
            seen = powers.VisibleLeaks(self.auc, self.exposed)
            return (
                f"{words.format_count(self.members or 0, 'member')}, {self.nonmembers:,} "
                f"non-members, {words.format_count(self.attacks, 'attack')}.\n"
                f"{sentences.sensitivity(seen, self.attacks, self.power)}"
            )
        leak = (
            f"an AUC of {self.auc:g}"
            if self.auc is not None
            else f"{100 * (self.exposed or 0):g} % of the members fully exposed"
        )
        lines = [
            f"To see a leak ({leak}, as the best attack shows it with 64 shadow models) with "
            f"{100 * self.power:g} % power, testing {words.format_count(self.attacks, 'attack')}:",
            "",
            "shadow models  leak left  members  non-members",
        ]
        for row in self.needed:
            size = "over 100,000" if row.records is None else f"{row.records:,}"
            lines.append(f"{row.shadows:>13}  {row.kept:>9.0%}  {size:>7}  {size:>11}")
        return "\n".join(lines)


@check_arguments
def plan(
    *,
    members: Count | None = None,
    nonmembers: Count | None = None,
    auc: float | None = None,
    exposed: float | None = None,
    power: float = powers.POWER,
    attacks: Count = powers.ATTACKS,
) -> AuditPlan:
    """Say what an audit sees, from its size; or what it takes to see a leak of a given size.

    Args:
        members: how many there are; give them and ``nonmembers``, or one of the leaks.
        nonmembers: how many there are.
        auc: of the leak that is to be seen.
        exposed: share of the members that the leak exposes fully.
        power: the chance of seeing it, above 0.05 and below 1.
        attacks: how many are tested together.

    Raises:
        SpecError: neither sizes nor one leak are given, or a number is out of its range.

    Examples:
        >>> plan(members=200, nonmembers=200).exposed < 0.1
        True
        >>> [row.records for row in plan(exposed=0.5).needed][-1] < 20
        True
    """
    if not 0.05 < power < 1:
        raise SpecError(f"expected a power above 0.05 and below 1, got {power}: 0.8 is usual")
    if members is not None and nonmembers is not None and auc is exposed is None:
        critical = powers.critical_deviation(members, nonmembers, attacks)
        return AuditPlan(
            power, attacks, members, nonmembers,
            *powers.visible_leaks(members, nonmembers, critical, power),
        )  # fmt: skip
    if members is not None or nonmembers is not None:
        raise SpecError(
            "expected members and nonmembers, or one of auc and exposed, got something else: "
            "give two sizes to learn what they show, or a leak to learn which sizes it takes"
        )
    powers.check_leak(auc, exposed)
    needed = tuple(
        RecordsNeeded(shadows, kept[auc is None], _records(auc, exposed, kept, power, attacks))
        for shadows, kept in SHADOWS.items()
    )
    return AuditPlan(power, attacks, None, None, auc, exposed, needed)


@check_arguments
def plan_file(path: FilePath, *, power: float = powers.POWER) -> AuditPlan:
    """Say what the audit at hand sees: that of an ``audit.toml``, or one in a run folder.

    Args:
        path: the settings, or the folder.
        power: as for `plan`.

    Raises:
        DivulgeError: there is no such audit, or its records cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        found = SecretAudit.load(path)
        if not isinstance(found, Audit):
            raise SpecError(
                f"expected an audit of a model in {path}, got one of {found.about}: a federation's "
                "page says itself what it could have seen"
            )
        facts = found.facts
        return plan(
            members=facts.members,
            nonmembers=facts.nonmembers,
            power=power,
            attacks=max(1, found.verdict.tested),
        )
    settings = config.read_config(path)
    if isinstance(settings, config.FederationAuditSpec):
        raise SpecError(
            f"expected an audit of a model in {path}, got [{settings.section}]: "
            "a federation's page says itself what it could have seen"
        )
    members, nonmembers = _sizes(settings, path.parent)
    attacks = len(config.requested_attacks(settings, path.parent))
    return plan(members=members, nonmembers=nonmembers, power=power, attacks=attacks)


def _sizes(
    settings: config.ModelAuditSpec | config.PredictionsAuditSpec | config.LeaveOneOutAuditSpec,
    folder: Path,
) -> tuple[int, int]:
    """How many members and non-members there will be."""
    if isinstance(settings, config.PredictionsAuditSpec):
        subject = inputs_from_predictions(settings.predictions, folder)
        return len(subject.members), len(subject.nonmembers)
    try:
        return _count_records(settings, folder, values=False)
    except DataError as classes:
        try:  # counted only: the labels may be true values as well
            return _count_records(settings, folder, values=True)
        except DataError:
            raise classes from None


def _count_records(
    settings: config.ModelAuditSpec | config.LeaveOneOutAuditSpec, folder: Path, *, values: bool
) -> tuple[int, int]:
    data = settings.data
    if isinstance(settings, config.LeaveOneOutAuditSpec):
        records = len(design.read_pool(data, folder, values=values)[0])
        return records // 2, records - records // 2
    names = [str(data.members), str(data.nonmembers)]
    members, nonmembers = data_records.load_record_sets(
        names, data.label, folder, data.besides(), values=values
    )
    return len(members), len(nonmembers)


def _records(
    auc: float | None,
    exposed: float | None,
    kept: tuple[float, float],
    power: float,
    attacks: int,
) -> int | None:
    return powers.members_needed(
        auc=None if auc is None else 0.5 + kept[0] * (auc - 0.5),
        exposed=None if exposed is None else kept[1] * exposed,
        power=power,
        attacks=attacks,
    )
