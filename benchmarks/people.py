"""Honesty by person: size of the tests and coverage of the AUC intervals, with known correlation.

Scores and features are normal and no model is trained. People are drawn, half of them members, each
with several records that share a part of their variance. What is true is known in closed form.

``python -m benchmarks.people --draws 400`` simulates another number of audits a row.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy import special

from divulge._util.random import stream
from divulge.checks.blind_baseline import separate
from divulge.core import Estimate, Records
from divulge.metrics import membership, people
from divulge.metrics.max_test import LEVEL, max_test

SUMMARY = "size of tests and coverage of AUC intervals where people have several records"

DRAWS = 400
"""Simulated audits a row, from which the Monte Carlo error follows."""

COST = 4
"""The blind baseline takes longer: it has one audit where others have so many."""

PEOPLE = (20, 60, 200, 500)
EACH = (1, 3, 10, 30)
ALIKE = (0.0, 0.5, 0.9)
AUCS = (0.5, 0.7)
"""True AUCs by record."""

UNEQUAL = 10
"""People with unequal numbers have 1 to so many records; each number is as likely."""

BLIND = ((60, 3, 0.5), (60, 10, 0.5), (60, 10, 0.9), (60, None, 0.5), (200, 3, 0.5))
"""Crowds that the blind baseline looks at."""


class Crowd(NamedTuple):
    """People of one simulated audit."""

    people: int
    """Half of them are members."""
    each: int | None
    """Number of records of each; None for 1 to `UNEQUAL`."""
    alike: float
    """Correlation between two records of one person."""

    def __str__(self) -> str:
        return f"| {' | '.join(self.cells())} |"

    def cells(self) -> tuple[str, str, str]:
        """The first three cells of a row."""
        each = f"1 to {UNEQUAL}" if self.each is None else f"{self.each}"
        alike = "-" if self.each == 1 else f"{self.alike:g}"
        return f"{self.people}", each, alike

    def sizes(self) -> range:
        """The numbers of records that a person may have, equally likely."""
        return range(1, UNEQUAL + 1) if self.each is None else range(self.each, self.each + 1)

    def draw(self, rng: np.random.Generator) -> Int[np.ndarray, " records"]:
        """Whose each record is; members come first."""
        sizes = rng.choice(np.array(self.sizes()), self.people)
        return np.repeat(np.arange(self.people), sizes)

    def member(self) -> Bool[np.ndarray, " people"]:
        """Who is a member."""
        return np.arange(self.people) < self.people // 2

    def scores(
        self, rng: np.random.Generator, person: Int[np.ndarray, " records"], rows: int
    ) -> Float64[np.ndarray, "rows records"]:
        """Draw standard normal values that know nothing of membership."""
        own = rng.standard_normal((rows, self.people))[:, person]
        apart = rng.standard_normal((rows, len(person)))
        return math.sqrt(self.alike) * own + math.sqrt(1 - self.alike) * apart

    def auc_of_means(self, shift: float) -> float:
        """The true AUC by person, of the means of records that members have higher by a shift."""
        spread = [self.alike + (1 - self.alike) / size for size in self.sizes()]
        return float(
            np.mean([special.ndtr(shift / math.sqrt(a + b)) for a in spread for b in spread])
        )


def crowds() -> Iterator[Crowd]:
    """All cells; alone records have no correlation."""
    for count in PEOPLE:
        for each in (*EACH, None):
            for alike in ALIKE if each != 1 else ALIKE[:1]:
                yield Crowd(count, each, alike)


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print all tables, in per cent."""
    _print_tables(20 if quick else DRAWS)


def _print_tables(draws: int) -> None:
    print(
        f"Intervals that cover the true AUC, in per cent (Monte Carlo error {_error(95, draws)})\n"
    )
    kinds = ("by record, people drawn", "by record, records drawn", "by person")
    columns = " | ".join(f"{kind}, AUC {auc:g}" for kind in kinds for auc in AUCS)
    print(f"| people | records each | alike | {columns} |\n{'|---:' * (3 + len(kinds) * 2)}|")
    for crowd in crowds():
        covered = [np.mean([cover(crowd, auc, k) for k in range(draws)], 0) for auc in AUCS]
        print(_row(crowd, np.transpose(covered).ravel()), flush=True)
    print(
        f"\nVerdict's p at most 5 %, no leak, in per cent (Monte Carlo error {_error(5, draws)})\n"
    )
    print("| people | records each | alike | by person |\n|---:|---:|---:|---:|")
    for crowd in crowds():
        print(_row(crowd, [float(np.mean([is_leak(crowd, k) for k in range(draws)]))]), flush=True)
    draws //= COST
    error = _error(5, draws)
    print(f"\nBlind baseline's p at most 5 %, in per cent (Monte Carlo error {error})\n")
    print("| people | records each | alike | by person | by record |\n|---:|---:|---:|---:|---:|")
    for cell in BLIND:
        crowd = Crowd(*cell)
        print(_row(crowd, np.mean([differs(crowd, k) for k in range(draws)], 0)), flush=True)


def _row(crowd: Crowd, rates: Sequence[float] | Float64[np.ndarray, " rates"]) -> str:
    return f"{crowd} {' | '.join(f'{100 * rate:.1f}' for rate in rates)} |"


def _error(per_cent: float, draws: int) -> str:
    return f"{math.sqrt(per_cent * (100 - per_cent) / draws):.1f}"


def cover(crowd: Crowd, auc: float, number: int) -> tuple[bool, bool, bool]:
    """Whether intervals of one audit cover the truth.

    Returns:
        Of the AUC by record with people as draws, by record with records as draws, and by person.
    """
    rng = stream(0, "people", "coverage", str(crowd), f"{auc}", number)
    person, shift = crowd.draw(rng), math.sqrt(2) * float(special.ndtri(auc))
    member = crowd.member()
    score = crowd.scores(rng, person, 1)[0] + shift * member[person]
    by_record = people.record_auc(score, person, member[person])
    naive = membership.auc(score, member[person])
    by_person = membership.auc(people.combine(score, person, "mean"), member)
    return (
        _within(by_record, auc),
        _within(naive, auc),
        _within(by_person, crowd.auc_of_means(shift)),
    )


def _within(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= (1.0 if estimate.high is None else estimate.high)


def is_leak(crowd: Crowd, number: int) -> bool:
    """Whether the test of the verdict sees a leak where there is none; people have two scores."""
    rng = stream(0, "people", "size", str(crowd), number)
    person = crowd.draw(rng)
    score = crowd.scores(rng, person, 1)[0]
    combined = [people.combine(score, person, rule) for rule in ("mean", "max")]
    return max_test(np.stack(combined), crowd.member()).p_value <= LEVEL


def differs(crowd: Crowd, number: int) -> tuple[bool, bool]:
    """Whether the blind baseline, by person and by record, tells sets of one population apart."""
    rng = stream(0, "people", "blind", str(crowd), number)
    person, member = crowd.draw(rng), crowd.member()
    x = crowd.scores(rng, person, 6).T
    label = (x[:, 0] > 0).astype(np.int64)
    alarms = []
    for group in (person, None):
        records = Records(x, label, group=group)
        inside = member[person]
        separation = separate(records.take(inside), records.take(~inside), rng)
        assert separation is not None
        alarms.append(separation.p_value <= LEVEL)
    return alarms[0], alarms[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.people", description=SUMMARY)
    parser.add_argument("--draws", type=int, default=DRAWS, help="simulated audits a row")
    _print_tables(parser.parse_args().draws)
