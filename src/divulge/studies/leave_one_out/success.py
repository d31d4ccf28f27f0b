"""What audits in turn say of each person: how well it is told apart over the targets.

`divulge.metrics.success` has the statistics. **The attack is chosen before its scores are held
against the truth**: ``threshold`` if it passed its controls on every target, else the first one
asked for that did. It must read no other model, as targets are each other's shadows.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from divulge._util import showable
from divulge._util.json import JSON
from divulge.audits.result import Audit
from divulge.core import Candidates, Estimate
from divulge.metrics import success as metrics
from divulge.metrics.membership import Score, Unmeasurable
from divulge.metrics.success import NEAR_CERTAIN, PersonSuccess
from divulge.report import words
from divulge.report.exposed import escape_cell
from divulge.report.units import Unit

RATE = 0.1
"""The false-discovery rate of the lists in the report."""

SHOWN = 10
"""The most rows of the table in the report."""

COLUMNS = (
    *("position", "id", "class", "inside", "outside", "success", "low", "high"),
    *("p", "q", "q_certain"),
)

PREFERRED = "threshold"


class SuccessRow(NamedTuple):
    """One person, or one record, and how well it is told apart; nothing of its contents."""

    position: int
    """Position of its first record among the records as they were given, from 0."""
    id: str
    """The user's own id; empty if no column of ids was named."""
    class_name: str
    inside: int
    """The number of targets that were trained on it."""
    outside: int
    success: Estimate | None
    """Probability that a model trained on it scores it higher than one that was not, with its own
    95 % interval; None if it was used in all targets, or in none."""
    p: float
    """p-value of the null hypothesis that its scores do not depend on whether it was used."""
    q: float
    """Lowest false-discovery rate at which it is listed as told apart."""
    q_certain: float
    """Lowest false-discovery rate at which its success is listed as above 90 %."""


@dataclass(frozen=True, slots=True)
class SuccessTable:
    """How well each person, or each record, is told apart over the targets."""

    attack: str
    """The attack that scores them."""
    mean: Estimate
    """The mean success, with its 95 % interval over targets."""
    rows: tuple[SuccessRow, ...]
    """Everybody, lowest p-values first, then highest success."""
    rate: float
    """The false-discovery rate of the two lists."""

    @property
    def listed(self) -> tuple[SuccessRow, ...]:
        """Those who are told apart beyond chance."""
        return tuple(row for row in self.rows if row.q <= self.rate)

    @property
    def certain(self) -> tuple[SuccessRow, ...]:
        """Those whose success is shown to exceed 90 %."""
        return tuple(row for row in self.rows if row.q_certain <= self.rate)


@dataclass(frozen=True, slots=True)
class SuccessReport:
    """The table with all statistics, and whether lists can hold anybody."""

    table: SuccessTable
    statistics: PersonSuccess
    unit: Unit
    models: int

    def refuse_empty_list(self) -> None:
        """Refuse a list that would be empty whatever the scores are: it would look like good news.

        Raises:
            Unmeasurable: there are too few targets; says how many would do.
        """
        rate = self.table.rate
        if metrics.fewest_listed(self.statistics, rate) is None:
            raise Unmeasurable(self._too_few(rate))

    def _too_few(self, rate: float) -> str:
        people = len(self.table.rows)
        return (
            f"With {words.format_count(self.models, 'target')} every list at a false-discovery "
            f"rate of {words.format_percent(rate)} is empty, whatever the scores. Audit at least "
            f"{metrics.models_needed(people, people, rate):,} for a list that can hold all "
            f"{self.unit.many}, {metrics.models_needed(people, 1, rate):,} for one that can hold "
            f"a single {self.unit.noun}."
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The mean, and how many are told apart beyond chance, and almost always."""
        unit, table, people = self.unit, self.table, len(self.table.rows)
        rate = words.format_percent(table.rate)
        sentences = [
            f"Of a model trained on a {unit.noun} and one that was not, the attack picks the first "
            f"one {words.format_rate(table.mean)} of the time, averaged over all {unit.many} "
            "(guessing: 50 %)."
        ]
        if metrics.fewest_listed(self.statistics, table.rate) is None:
            return (*sentences, f"Which {unit.many}: not measured. {self._too_few(table.rate)}")
        listed = len(table.listed)
        sentences.append(
            f"At a false-discovery rate of {rate}, {_share(listed, people)} {unit.many} are told "
            "apart beyond chance."
        )
        highest, enough = words.format_percent(NEAR_CERTAIN), metrics.models_needed_for_certainty
        if metrics.fewest_certain(self.statistics, table.rate) is None:
            sentences.append(
                f"Who is told apart more than {highest} of the time: not measured. To list "
                f"all {unit.many}, audit at least {enough(people, people, table.rate):,} targets; "
                f"to list a single {unit.noun}, {enough(people, 1, table.rate):,}."
            )
        else:
            sentences.append(
                f"For {_share(len(table.certain), people)} {unit.many} that is shown to be more "
                f"than {highest} of the time, at the same rate."
            )
        return tuple(sentences)

    @property
    def shown(self) -> Sequence[SuccessRow]:
        """Rows of the table in the report: the first of those who are told apart beyond chance."""
        return self.table.listed[:SHOWN]

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        table, mean = self.table, self.table.mean
        return {
            "attack": table.attack,
            "mean": {"value": mean.value, "low": mean.low, "high": mean.high},
            "rate": table.rate,
            "counted": len(table.rows),
            "listed": None
            if metrics.fewest_listed(self.statistics, table.rate) is None
            else len(table.listed),
            "certain": None
            if metrics.fewest_certain(self.statistics, table.rate) is None
            else len(table.certain),
            "sentences": list(self.sentences),
        }

    def as_csv(self) -> bytes:
        """``success.csv``: everybody, with texts that no spreadsheet takes for a formula."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        # numbers whole: a rounded q could cross the rate that a reader filters by
        for row in self.table.rows:
            of = row.success
            writer.writerow([
                row.position, escape_cell(row.id), escape_cell(row.class_name),
                row.inside, row.outside,
                *([None] * 3 if of is None else (of.value, of.low, of.high)),
                row.p, row.q, row.q_certain,
            ])  # fmt: skip
        return file.getvalue().encode()


def _share(number: int, of: int) -> str:
    return f"{number:,} of {of:,} ({words.format_percent(number / of)})"


@runtime_checkable
class AuditsInTurn(Protocol):
    """Audits of several targets; see `divulge.studies.leave_one_out.result.LeaveOneOut`."""

    @property
    def targets(self) -> tuple[Audit, ...]:
        """One audit a target, with the same candidates in the same order."""
        ...

    @property
    def unit(self) -> Unit:
        """What candidates are."""
        ...

    def figures(self) -> Mapping[str, Mapping[str, Estimate]]:
        """By label of each attack that passed its controls on every target, the means."""
        ...

    def reads_shadows(self, label: str) -> bool:
        """Whether the scores of one target may depend on what the others were trained on."""
        ...

    def scores(self, label: str) -> list[Score] | None:
        """Of an attack those on every target; None if it did not end well on each."""
        ...


def find_success(audits: AuditsInTurn, rate: float = RATE) -> SuccessReport:
    """How well each candidate is told apart over the targets.

    Args:
        audits: of all targets.
        rate: the false-discovery rate of lists.

    Raises:
        Unmeasurable: no attack can be used; says which would do.
    """
    scores = {
        label: own
        for label in audits.figures()
        if not audits.reads_shadows(label) and (own := audits.scores(label)) is not None
    }
    if not scores:
        raise Unmeasurable(
            "Success over models needs an attack that passed its controls on every target and "
            f"reads no other model, as targets are each other's shadows: add {PREFERRED}."
        )
    label = min(scores, key=lambda label: not label.startswith(PREFERRED))
    targets = audits.targets
    member = np.stack([audit.candidates.member for audit in targets])
    statistics = metrics.success_per_person(np.stack(scores[label]), member)
    rows = tuple(_rows(statistics, targets[0].candidates, targets[0].facts.class_names))
    table = SuccessTable(showable.make_showable(label), statistics.mean, rows, rate)
    return SuccessReport(table, statistics, audits.unit, len(targets))


def _rows(
    statistics: PersonSuccess, candidates: Candidates, class_names: tuple[str, ...]
) -> Iterator[SuccessRow]:
    success = np.nan_to_num(statistics.success, nan=0.0)
    for k in np.lexsort((candidates.index, -success, statistics.p)).tolist():
        known = not np.isnan(statistics.success[k])
        yield SuccessRow(
            position=int(candidates.index[k]),
            id="" if candidates.ids is None else str(candidates.ids[k]),
            class_name=words.class_name(int(candidates.label[k]), class_names),
            inside=int(statistics.inside[k]),
            outside=int(statistics.outside[k]),
            success=Estimate(float(success[k]), float(statistics.low[k]), float(statistics.high[k]))
            if known
            else None,
            p=float(statistics.p[k]),
            q=float(statistics.q[k]),
            q_certain=float(statistics.q_certain[k]),
        )
