"""Whole audits of synthetic people: false leaks and false confounding, and leaks that are found.

A forest is trained on the members' records, or on those of strangers, from which nothing can leak.
Members and non-members are drawn by person. Each audit runs with ``groups=`` and without.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.ensemble import RandomForestClassifier

import divulge
from divulge.metrics.intervals import clopper_pearson

SUMMARY = "verdicts of audits of synthetic people with several records, with groups and without"

SEEDS = 30
SPREAD = 0.3
"""Standard deviation of the records of a person, where that of people is 1."""

FEATURES = 8


class Case(NamedTuple):
    """Audits of one size."""

    people: int
    """Half of them are members."""
    each: int
    """Records of each."""
    leaks: bool
    """Whether the model was trained on the members."""


CASES = (
    Case(600, 1, leaks=False),
    Case(60, 10, leaks=False),
    Case(30, 20, leaks=False),
    Case(600, 1, leaks=True),
    Case(60, 10, leaks=True),
)
ATTACKS = (divulge.attack("threshold"), divulge.attack("threshold", signal="entropy"))

Pair = tuple[Float64[np.ndarray, "records features"], Int64[np.ndarray, " records"]]


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print how often each verdict comes, with the exact 95 % interval of leaks."""
    seeds = 2 if quick else SEEDS
    print(
        "| people | records each | trained on members | groups | leak (95 % interval) | verdicts |"
    )
    print("|---:|---:|---|---|---|---|")
    for case in CASES:
        for grouped in (True, False) if case.each > 1 else (True,):
            levels = Counter(audit(case, seed, grouped) for seed in range(seeds))
            low, high = clopper_pearson(levels["leak"], seeds)
            said = ", ".join(f"{level} {count}" for level, count in levels.most_common())
            print(
                f"| {case.people} | {case.each} | {'yes' if case.leaks else 'no'} | "
                f"{'yes' if grouped else 'no'} | {levels['leak']} of {seeds} "
                f"({low:.2f} to {high:.2f}) | {said} |",
                flush=True,
            )


def audit(case: Case, seed: int, grouped: bool) -> str:  # noqa: FBT001 (no public function)
    """The level of the verdict of one audit."""
    rng = np.random.default_rng(seed)
    members, nonmembers, strangers = (
        draw(rng, count, case.each) for count in (case.people // 2,) * 2 + (case.people,)
    )
    model = RandomForestClassifier(30, random_state=seed)
    model.fit(*(members if case.leaks else strangers))
    person = np.repeat(np.arange(case.people), case.each)
    groups = tuple(np.split(person, 2)) if grouped else None
    found = divulge.audit(
        model,
        members=members,
        nonmembers=nonmembers,
        groups=groups,
        attacks=ATTACKS,
        options=divulge.Options(seed=seed),
    )
    return found.verdict.level


def draw(rng: np.random.Generator, people: int, each: int) -> Pair:
    """Records of people, and the label that each person has."""
    own = rng.normal(size=(people, FEATURES))
    label = (own[:, 0] + 0.8 * rng.normal(size=people) > 0).astype(np.int64)
    apart = SPREAD * rng.normal(size=(people * each, FEATURES))
    return np.repeat(own, each, axis=0) + apart, np.repeat(label, each)
