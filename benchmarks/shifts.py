"""Honesty under shift: how often the verdict is a leak where members and non-members differ.

Records of 12 features have one of three classes by a linear rule. Members are drawn as they were
for training; non-members are shifted. Without a leak, the model learned from other records of the
members' population, so that no candidate is one. Verdicts are those of whole audits, with the
attacks threshold and gap, given difficulty and, on the same scores, without.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import divulge
from divulge._util.random import stream
from divulge.core.check_names import DIFFICULTY
from divulge.metrics.intervals import clopper_pearson
from divulge.report.summary import summarise

SUMMARY = "how often the verdict is a leak where members and non-members differ, with and without"

FEATURES, CLASSES = 12, 3
RULE, DRIFTED = (
    0.8 * np.random.default_rng(seed).normal(size=(FEATURES, CLASSES)) for seed in (5, 9)
)
LEARNED = 1000
"""Fewest records that a model without a leak learned from."""


class Shift(NamedTuple):
    """How non-members differ from members."""

    name: str
    covariate: float = 0.0
    """Deviations by which one feature differs."""
    drift: float = 0.0
    """Part of a new rule in the old one; their coefficients' squares sum to 1."""
    noisy: float = 0.0
    """Share of labels that are drawn anew."""
    blur: float = 0.0
    """Deviation of noise on all features after the labels were given, as from another source."""
    mix: float = 0.0
    """Share of the records of the first class that are left out."""


SHIFTS = (
    Shift("none"),
    Shift("covariate, 0.5", covariate=0.5),
    Shift("drift of labels, 0.3", drift=0.3),
    Shift("drift of labels, 0.5", drift=0.5),
    Shift("15 % noisier labels", noisy=0.15),
    Shift("30 % noisier labels", noisy=0.3),
    Shift("mix of classes", mix=0.5),
    Shift("source, noise of 0.5", blur=0.5),
    Shift("time: covariate 0.3, drift 0.3", covariate=0.3, drift=0.3),
)
TARGETS = ("linear", "forest")
AUDITS = {200: 40, 1000: 12}
"""How many of each, by the number of members, and of non-members."""

Sets = tuple[Float64[np.ndarray, "records features"], Int[np.ndarray, " records"]]


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the share of audits whose verdict is a leak, each with its exact 95 % interval."""
    print(
        "| non-members | size | target | AUC | blind | no leak: before | now | leak: before | now |"
    )
    print("|---|---:|---|---:|---:|---|---|---|---|")
    for shift in SHIFTS:
        for size in [*AUDITS][: 1 if quick else None]:
            for target in TARGETS:
                print(_row(shift, size, target, 5 if quick else AUDITS[size]), flush=True)


def _row(shift: Shift, size: int, target: str, audits: int) -> str:
    cells, aucs = [], []
    for leak in (False, True):
        outcomes = [audit(shift, size, target, number, leak=leak) for number in range(audits)]
        cells += [
            _rate([getattr(outcome, name) for outcome in outcomes]) for name in ("before", "now")
        ]
        aucs.append(
            (
                np.mean([outcome.auc for outcome in outcomes]),
                np.mean([outcome.blind for outcome in outcomes]),
            )
        )
    (auc, blind), (leaking, _) = aucs
    head = f"{shift.name} | {size:,} | {target} | {auc:.3f}, leak {leaking:.3f} | {blind:.3f}"
    return f"| {head} | {' | '.join(cells)} |"


class Outcome(NamedTuple):
    """Of one audit."""

    before: bool
    """Whether the verdict is a leak where difficulty is not looked at."""
    now: bool
    auc: float
    """Of the attack threshold."""
    blind: float
    """Of the difficulty baseline."""


def audit(shift: Shift, size: int, target: str, number: int, *, leak: bool) -> Outcome:
    """Audit one model of fresh records."""
    rng = stream(0, "shifts", str(shift), size, target, number, int(leak))
    members, nonmembers = draw(rng, size, SHIFTS[0]), draw(rng, size, shift)
    learned = members if leak else draw(rng, max(size, LEARNED), SHIFTS[0])
    result = divulge.audit(
        train(target, learned, number),
        members=members,
        nonmembers=nonmembers,
        attacks=[divulge.attack("threshold"), divulge.attack("gap")],
        options=divulge.Options(seed=number),
    )
    contents = result.contents
    checks = {check.name: check for check in result.checks}
    facts: Any = contents.head.facts
    blind_facts = replace(facts, checks=tuple(c for c in result.checks if c.name != DIFFICULTY))
    blindly = replace(
        contents,
        head=replace(contents.head, facts=blind_facts),
        candidates=replace(contents.model()[1], ease=None),
    )
    return Outcome(
        summarise(blindly).verdict.level == "leak",
        result.verdict.level == "leak",
        result.findings[0].metrics["auc"].value,
        checks[DIFFICULTY].estimates["auc"].value,
    )


def draw(rng: np.random.Generator, count: int, shift: Shift) -> Sets:
    """Records of one set."""
    x = rng.normal(size=(3 * count, FEATURES))
    x[:, 0] += shift.covariate
    rule = math.sqrt(1 - shift.drift**2) * RULE + shift.drift * DRIFTED
    y = (x @ rule + rng.gumbel(size=(3 * count, CLASSES))).argmax(1)
    y = np.where(rng.random(3 * count) < shift.noisy, rng.integers(0, CLASSES, 3 * count), y)
    rows = np.flatnonzero((y > 0) | (rng.random(3 * count) >= shift.mix))[:count]
    return x[rows] + shift.blur * rng.normal(size=(count, FEATURES)), y[rows]


def train(target: str, learned: Sets, seed: int) -> Any:
    """A model of one kind."""
    model = {
        "linear": LogisticRegression(max_iter=200),
        "forest": RandomForestClassifier(60, min_samples_leaf=20, random_state=seed),
    }[target]
    return model.fit(*learned)


def _rate(leaks: list[bool]) -> str:
    low, high = clopper_pearson(sum(leaks), len(leaks))
    return f"{np.mean(leaks):.2f} ({low:.2f} to {high:.2f})"
