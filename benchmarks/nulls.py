"""Honesty where premises are false: how often the verdict is a leak of a model that leaks nothing.

No candidate is among the records that the model learned from, and members differ from non-members
by one thing that is no leak. The same candidates are audited in three ways: by a table of what the
model answers, by that table with a column from elsewhere (the loss of a model that learned from
other records), and by the model with all features. At most 5 % of the verdicts may be a leak.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int, Shaped

import divulge
from benchmarks.shifts import RULE, SHIFTS, Shift, draw, train
from divulge._util.random import stream
from divulge.metrics.intervals import clopper_pearson

SUMMARY = "how often the verdict is a leak where nothing leaks and the two sets differ, by entry"

SIZE = 200
"""Members, and non-members, where they are as many."""

LEARNED = 1000
"""Records that the model, and the one from elsewhere, learned from."""

ATTACKS = (divulge.attack("threshold"), divulge.attack("gap"))
"""On classes; on true values there is one."""


class Candidates(NamedTuple):
    """What is audited. None of it was learned from."""

    x: Float64[np.ndarray, "records features"]
    y: Shaped[np.ndarray, " records"]
    """The class, or the true value."""
    answers: Float64[np.ndarray, "records columns"]
    """What the audited model says: probabilities, or one value."""
    elsewhere: Float64[np.ndarray, " records"]
    """The loss of another model."""
    member: Bool[np.ndarray, " records"]


Labels = Int[np.ndarray, " records"]
Features = Float64[np.ndarray, "records features"]


def _ask(x: Features, y: Labels, member: Bool[np.ndarray, " records"], number: int) -> Candidates:
    """What two models say that learned from other records."""
    rng = stream(0, "nulls", "models", number)
    models = [train("linear", draw(rng, LEARNED, SHIFTS[0]), number) for _ in range(2)]
    answers, others = (np.asarray(model.predict_proba(x)) for model in models)
    return Candidates(x, y, answers, -np.log(others[np.arange(len(y)), y]), member)


def _halves(
    number: int, shift: Shift = SHIFTS[0], sizes: tuple[int, int] = (SIZE, SIZE), each: int = 1
) -> tuple[Features, Labels, Bool[np.ndarray, " records"]]:
    """Members as they always are, and shifted non-members; each record so many times."""
    rng = stream(0, "nulls", "candidates", number)
    sets = [draw(rng, size // each, s) for size, s in zip(sizes, (SHIFTS[0], shift), strict=True)]
    x, y = (np.repeat(np.concatenate(part), each, axis=0) for part in zip(*sets, strict=True))
    return x, y, np.arange(len(y)) < sizes[0]


def _copies(number: int, noise: float) -> Candidates:
    """Four of each record, in one set, that differ by so many deviations."""
    x, y, member = _halves(number, each=4)
    x = x + noise * stream(0, "nulls", "noise", number).normal(size=x.shape)
    return _ask(x, y, member, number)


def _people(number: int) -> Candidates:
    """Five records of a person, in one set; the labels of some people are noise."""
    x, y, member = _halves(number)
    rng = stream(0, "nulls", "people", number)
    people = np.arange(len(y)) // 5
    x = math.sqrt(0.5) * (x + rng.normal(size=x.shape)[people])
    noisy = rng.random(len(y)) < (rng.random(len(y))[people] < 0.3)
    y = (x @ RULE + rng.gumbel(size=(len(y), 3))).argmax(axis=1)
    return _ask(x, np.where(noisy, rng.integers(0, 3, len(y)), y), member, number)


def _rewritten(number: int, write: Callable[[Features], Features]) -> Candidates:
    """Another program wrote the non-members, and what the model answers about them."""
    candidates = _ask(*_halves(number), number)
    mine = candidates.member[:, None]
    return candidates._replace(
        x=np.where(mine, candidates.x, write(candidates.x)),
        answers=np.where(mine, candidates.answers, write(candidates.answers)),
    )


def _warmer(number: int) -> Candidates:
    """The server changed its temperature between members and non-members: these look less sure."""
    candidates = _ask(*_halves(number), number)
    flat = candidates.answers**0.7
    flat /= flat.sum(axis=1, keepdims=True)
    return candidates._replace(
        answers=np.where(candidates.member[:, None], candidates.answers, flat)
    )


def _filtered(number: int) -> Candidates:
    """Easy records are missing among the non-members."""
    x, y, _ = _halves(number, sizes=(SIZE, 2 * SIZE))
    candidates = _ask(x, y, np.arange(3 * SIZE) < SIZE, number)
    sure = candidates.answers[np.arange(len(y)), y]
    hard = sure + stream(0, "nulls", "filter", number).random(len(y))
    rows = np.r_[np.arange(SIZE), SIZE + np.argsort(hard[SIZE:])[:SIZE]]
    return Candidates(*(part[rows] for part in candidates))


def _larger(number: int) -> Candidates:
    """True values of non-members are a third larger, and so are the errors of any model."""
    rng = stream(0, "nulls", "values", number)
    member = np.arange(2 * SIZE) < SIZE
    x = rng.normal(size=(2 * SIZE, 4))
    x[~member, 0] += 0.6
    values = np.exp(0.5 * x[:, 0] + 0.2 * rng.normal(size=2 * SIZE))
    rule, other = np.exp(0.5 * x[:, 0]), np.exp(0.45 * x[:, 0])
    return Candidates(x, values, rule[:, None], abs(values - other), member)


SCENARIOS: Mapping[str, Callable[[int], Candidates]] = {
    "no difference": lambda number: _ask(*_halves(number), number),
    "9 members to 1 non-member": lambda number: _ask(*_halves(number, sizes=(360, 40)), number),
    "4 copies of each record": lambda number: _copies(number, 0.0),
    "4 near copies of each record": lambda number: _copies(number, 0.1),
    "5 records of a person": _people,
    "another mix of classes": lambda number: _ask(*_halves(number, Shift("", mix=0.5)), number),
    "10 % noisier labels": lambda number: _ask(*_halves(number, Shift("", noisy=0.1)), number),
    "easy records left out": _filtered,
    "fewer digits": lambda number: _rewritten(number, lambda values: values.round(4)),
    "half precision": lambda number: _rewritten(
        number, lambda values: values.astype(np.float16).astype(np.float64)
    ),
    "another temperature": _warmer,
    "larger true values": _larger,
}
"""By what is different between members and non-members."""


Levels = dict[str, Counter[str]]


def judge_table(candidates: Candidates, folder: Path, blind: str | None = None) -> str:
    """The verdict on a table of answers."""
    columns = {f"p_{k}": column for k, column in enumerate(candidates.answers.T)}
    facts = {
        "label": candidates.y,
        "elsewhere": candidates.elsewhere,
        "member": candidates.member.astype(int),
    }
    path = folder / "table.csv"
    pd.DataFrame(columns | facts).to_csv(path, index=False)
    if candidates.y.dtype.kind == "f":
        return divulge.audit_predictions(
            path, blind=blind, output="values", probabilities="p_0"
        ).verdict.level
    return divulge.audit_predictions(path, blind=blind, attacks=ATTACKS).verdict.level


def judge_column(candidates: Candidates, folder: Path) -> str:
    """The verdict on a table of answers with a column from elsewhere."""
    return judge_table(candidates, folder, "elsewhere")


def judge_model(candidates: Candidates, folder: Path) -> str:
    """The verdict on a model that answers so."""
    del folder
    answers = {
        row.tobytes(): answer for row, answer in zip(candidates.x, candidates.answers, strict=True)
    }

    def answer(x: Features) -> Float64[np.ndarray, "records columns"]:
        return np.stack([answers[row.tobytes()] for row in np.asarray(x)])

    values = candidates.y.dtype.kind == "f"
    sets = [
        (candidates.x[chosen], candidates.y[chosen])
        for chosen in (candidates.member, ~candidates.member)
    ]
    return divulge.audit(
        (lambda x: answer(x)[:, 0]) if values else answer,
        members=sets[0],
        nonmembers=sets[1],
        attacks=None if values else ATTACKS,
        access=divulge.Access("values" if values else "probabilities"),
    ).verdict.level


ENTRIES: Mapping[str, Callable[[Candidates, Path], str]] = {
    "table": judge_table,
    "table with a column from elsewhere": judge_column,
    "model": judge_model,
}


def verdicts(scenario: str, audits: int, entries: Sequence[str] = tuple(ENTRIES)) -> Levels:
    """How often each level was said, by entry.

    Args:
        scenario: one of `SCENARIOS`.
        audits: how many candidates are drawn anew.
        entries: some of `ENTRIES`.
    """
    counts: Levels = {entry: Counter() for entry in entries}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(audits):
            candidates = SCENARIOS[scenario](number)
            for entry in entries:
                counts[entry][ENTRIES[entry](candidates, Path(folder))] += 1
    return counts


KINDS: Mapping[str, Sequence[str]] = {
    "leak": ["leak"],
    "leak or shift": ["leak or shift"],
    "confounded or doubtful": ["confounded", "inputs doubtful"],
    "no leak found": ["no leak found"],
}


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the share of each kind of verdict, with its exact 95 % interval."""
    audits = 5 if quick else 40
    print(f"{audits} audits in each row")
    print(f"| the sets differ by | way | {' | '.join(KINDS)} |")
    print("|---|---|" + "---|" * len(KINDS))
    for scenario in SCENARIOS:
        for entry, counts in verdicts(scenario, audits).items():
            cells = [
                _share(sum(counts[level] for level in kind), audits) for kind in KINDS.values()
            ]
            print(f"| {scenario} | {entry} | {' | '.join(cells)} |", flush=True)


def _share(count: int, audits: int) -> str:
    low, high = clopper_pearson(count, audits)
    return f"{count / audits:.2f} ({low:.2f} to {high:.2f})"
