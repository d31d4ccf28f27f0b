"""Whole audits of synthetic people: false leaks and false confounding, and leaks that are found.

A forest is trained on the members' records, or on those of strangers, from which nothing can leak.
Members and non-members are drawn by person. ``people-audits`` audits with ``groups=`` and without;
``people-size`` counts how often an audit with ``groups=`` is wrong where nothing leaks.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Int64
from sklearn.ensemble import RandomForestClassifier

import divulge
from benchmarks.people import Crowd
from divulge.metrics.intervals import clopper_pearson

SUMMARY = "verdicts of audits of synthetic people with several records, with groups and without"

SIZE = "how often an audit by person says leak or confounded where nothing leaks"

SEEDS = 30

SIZE_SEEDS = 200
"""A rate of .05 has a standard error of .015."""

FEATURES = 8


class Case(NamedTuple):
    """Audits of one size."""

    crowd: Crowd
    leaks: bool
    """Whether the model was trained on the members."""


CASES = (
    Case(Crowd(600, 1, 0.9), leaks=False),
    Case(Crowd(60, 10, 0.9), leaks=False),
    Case(Crowd(30, 20, 0.9), leaks=False),
    Case(Crowd(600, 1, 0.9), leaks=True),
    Case(Crowd(60, 10, 0.9), leaks=True),
)

SIZES = (
    Crowd(60, 10, 0.5),
    Crowd(60, None, 0.5),
    Crowd(20, 10, 0.5),
    Crowd(200, 10, 0.5),
    Crowd(60, 1, 0.0),
    Crowd(60, 30, 0.9),
    Crowd(60, 10, 0.0),
    Crowd(60, 10, 0.9),
    Crowd(20, None, 0.9),
    Crowd(200, None, 0.9),
    Crowd(60, 3, 0.5),
    Crowd(20, 30, 0.9),
    Crowd(200, 1, 0.0),
    Crowd(200, 30, 0.9),
)
"""Each number of people, of records and each correlation with the middle of the other two, and the
extremes together."""

ATTACKS = (divulge.attack("threshold"), divulge.attack("threshold", signal="entropy"))


class People(NamedTuple):
    """Records of people, and whose each is."""

    x: Float64[np.ndarray, "records features"]
    y: Int64[np.ndarray, " records"]
    person: Int[np.ndarray, " records"]

    def half(self, crowd: Crowd, *, members: bool) -> "People":
        """The records of members, or of the others."""
        chosen = crowd.member()[self.person] == members
        return People(*(each[chosen] for each in self))


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print how often each verdict comes, with the exact 95 % interval of leaks."""
    seeds = 2 if quick else SEEDS
    print(
        "| people | records each | alike | trained on members | groups | leak (95 % interval) | "
        "verdicts |"
    )
    print("|---:|---:|---:|---|---|---|---|")
    for case in CASES:
        for grouped in (True, False) if case.crowd.each != 1 else (True,):
            levels = Counter(audit(case, seed, grouped=grouped) for seed in range(seeds))
            verdicts = ", ".join(f"{level} {count}" for level, count in levels.most_common())
            print(
                f"{case.crowd} {'yes' if case.leaks else 'no'} | {'yes' if grouped else 'no'} | "
                f"{_rate(levels['leak'], seeds)} | {verdicts} |",
                flush=True,
            )


def run_size(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print a table of comma-separated values: how often each verdict comes where nothing leaks."""
    seeds = 2 if quick else SIZE_SEEDS
    levels = ("leak", "confounded", "undecided", "no leak found")
    heads = ",".join(_head(level) for level in (*levels, "another verdict"))
    print(f"people,records each,alike,audits,{heads}")
    for crowd in SIZES:
        counts = Counter(
            audit(Case(crowd, leaks=False), seed, grouped=True) for seed in range(seeds)
        )
        counts["another"] = seeds - sum(counts[level] for level in levels)
        rates = ",".join(_row(counts[level], seeds) for level in (*levels, "another"))
        print(f"{','.join(crowd.cells())},{seeds},{rates}", flush=True)


def _head(level: str) -> str:
    return f"{level},{level} low,{level} high"


def _row(count: int, seeds: int) -> str:
    low, high = clopper_pearson(count, seeds)
    return f"{count / seeds:.3f},{low:.3f},{high:.3f}"


def _rate(count: int, seeds: int) -> str:
    low, high = clopper_pearson(count, seeds)
    return f"{count} of {seeds} ({low:.2f} to {high:.2f})"


def audit(case: Case, seed: int, *, grouped: bool) -> str:
    """The level of the verdict of one audit."""
    crowd, rng = case.crowd, np.random.default_rng(seed)
    drawn, strangers = (draw(rng, crowd) for _ in range(2))
    members, nonmembers = (drawn.half(crowd, members=side) for side in (True, False))
    model = RandomForestClassifier(30, max_depth=8, random_state=seed)
    taught = members if case.leaks else strangers
    model.fit(taught.x, taught.y)
    result = divulge.audit(
        model,
        members=(members.x, members.y),
        nonmembers=(nonmembers.x, nonmembers.y),
        groups=(members.person, nonmembers.person) if grouped else None,
        attacks=ATTACKS,
        options=divulge.Options(seed=seed),
    )
    return result.verdict.level


def draw(rng: np.random.Generator, crowd: Crowd) -> People:
    """Records of people; features and what labels have besides are as alike as the crowd says."""
    person = crowd.draw(rng)
    x = crowd.scores(rng, person, FEATURES).T
    label = x[:, 0] + 0.8 * crowd.scores(rng, person, 1)[0] > 0
    return People(x, label.astype(np.int64), person)
