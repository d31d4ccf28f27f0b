"""Honesty: how often one population is called two, and a model that leaks nothing a leak.

Records have near copies in their own set (augmented images, several records of a person), or one
set is written with fewer digits, or has larger true values. No model saw any record.
"""

from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy import special

import divulge
from divulge._util.random import stream
from divulge.checks import blind_baseline, near_copies
from divulge.core import Records
from divulge.metrics.intervals import clopper_pearson

SUMMARY = "false alarms where records have near copies, fewer digits or larger true values"

SIDE = 8
"""Pixels of an image, each way."""


class Copies(NamedTuple):
    """One population, whose records come in groups of near copies."""

    columns: int
    """Features of a record; 0 stands for images."""
    size: int
    """Records in each set."""
    each: int
    """Records of a group."""
    noise: float
    """Standard deviation within a group, where that between groups is 1."""
    spread: bool = False
    """Whether each record of a group goes to a set by itself, and not all to one."""


CASES = (
    *(Copies(columns, 200, 1, 0) for columns in (3, 12)),
    *(Copies(3, 200, 2, noise) for noise in (0.01, 0.1, 0.3)),
    *(Copies(12, 200, each, 0.3) for each in (2, 3, 5, 10)),
    *(Copies(12, 200, 3, noise) for noise in (0.05, 0.7)),
    Copies(12, 200, 3, 0.3, spread=True),
    *(Copies(0, 200, each, 0.3) for each in (2, 5)),
    Copies(0, 200, 2, 1),
    Copies(3, 1000, 2, 0.1),
    Copies(12, 1000, 3, 0.5),
)

SHIFTS = ((0.5, 200, 1), (0.5, 200, 12), (0.3, 1000, 1))
"""How far the non-members are shifted, in standard deviations, how many there are, and in how many
of 12 columns."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print all tables, each rate with its exact 95 % interval."""
    audits = 40 if quick else 400
    print("| columns | records | of a group | noise | sets | each for itself | one of each |")
    print("|---:|---:|---:|---:|---|---|---|")
    for case in CASES:
        sets = "by record" if case.spread else "by group"
        print(
            f"| {case.columns or 'image'} | {case.size:,} | {case.each} | {case.noise:g} | {sets} "
            f"| {_compare(lambda rng, case=case: draw(case, rng), audits)} |",  # type: ignore[misc]
            flush=True,
        )
    print("\n| shift | records | columns shifted | each for itself | one of each |")
    print("|---:|---:|---:|---|---|")
    for shift, size, columns in SHIFTS:

        def shifted(
            rng: np.random.Generator, shift: float = shift, size: int = size, columns: int = columns
        ) -> tuple[Records, Bool[np.ndarray, " records"]]:
            records, member = draw(Copies(12, size, 1, 0), rng)
            x = records.x.copy()
            x[~member, :columns] += shift / np.sqrt(columns)
            return Records(x, records.y), member

        print(f"| {shift} | {size:,} | {columns} | {_compare(shifted, audits)} |", flush=True)
    print("\n| records | audits | verdicts |\n|---|---:|---|")
    for name, judge in AUDITS.items():
        levels = [judge(stream(0, "verdict", name, k)) for k in range(audits // 4)]
        rates = ", ".join(
            f"{level} {_rate(levels.count(level), len(levels))}" for level in sorted(set(levels))
        )
        print(f"| {name} | {len(levels)} | {rates} |", flush=True)


def draw(case: Copies, rng: np.random.Generator) -> tuple[Records, Bool[np.ndarray, " records"]]:
    """Records of both sets, and who is in the first."""
    groups = 2 * (case.size // case.each)
    y = rng.integers(0, 2, groups)
    if case.columns:
        centre = rng.normal(size=(groups, case.columns)) + 0.3 * y[:, None]
    else:
        bases = stream(0, "images").normal(size=(6, SIDE * SIDE)) / np.sqrt(6)
        centre = rng.normal(size=(groups, 6)) @ bases + 0.3 * rng.normal(size=(groups, SIDE**2))
    x = np.repeat(centre, case.each, axis=0)
    x += case.noise * rng.normal(size=x.shape)
    member = np.arange(len(x)) < len(x) // 2
    if case.spread:
        member = rng.permutation(member)
    shape = (-1, case.columns) if case.columns else (-1, SIDE, SIDE)
    return Records(x.reshape(shape), np.repeat(y, case.each)), member


def warns(records: Records, member: Bool[np.ndarray, " records"], seed: int) -> bool:
    """Whether the blind baseline calls these two populations."""
    sets = records.take(member), records.take(~member)
    separation = blind_baseline.separate(*sets, np.random.default_rng(seed))
    return separation is not None and separation.p_value <= blind_baseline.FALSE_ALARM


def _compare(
    make: Callable[[np.random.Generator], tuple[Records, Bool[np.ndarray, " records"]]],
    audits: int,
) -> str:
    """Rates of warnings where all records are looked at, and where one of each is."""
    both = np.zeros(2, int)
    for k in range(audits):
        made = make(stream(0, "near copies", k))
        with mock.patch.object(near_copies, "keep_one_of_each", _keep_all):
            both[0] += warns(*made, k)
        both[1] += warns(*made, k)
    return " | ".join(_rate(int(count), audits) for count in both)


def _keep_all(clumps: near_copies.Clumps, _: np.random.Generator) -> Int[np.ndarray, " records"]:
    return np.arange(len(clumps.neighbours))


def _level(
    answers: Float64[np.ndarray, "records columns"],
    label: Int[np.ndarray, " records"] | Float64[np.ndarray, " records"],
    x: Float64[np.ndarray, "records features"],
) -> str:
    """The verdict on a model that answers so; the first half are members."""
    half = len(x) // 2
    rows = {row.tobytes(): number for number, row in enumerate(x)}
    if len(rows) < len(x):
        raise AssertionError("expected records that differ")

    def answer(
        records: Float64[np.ndarray, "records features"],
    ) -> Float64[np.ndarray, "records _"]:
        return np.stack([answers[rows[row.tobytes()]] for row in np.asarray(records)])

    values = label.dtype.kind == "f"
    audit = divulge.audit(
        (lambda records: answer(records)[:, 0]) if values else answer,
        members=(x[:half], label[:half]),
        nonmembers=(x[half:], label[half:]),
        access=divulge.Access("values" if values else "probabilities"),
    )
    return audit.verdict.level


def _judge_answers(
    rng: np.random.Generator, each: int = 1, leak: float = 0.0, decimals: int | None = None
) -> str:
    """Answers to 200 + 200 records: a softmax of normal scores that near copies nearly share."""
    y = np.repeat(rng.integers(0, 3, 400 // each), each)
    z = np.repeat(rng.normal(size=(400 // each, 3)), each, axis=0) + 0.2 * rng.normal(size=(400, 3))
    member = np.arange(400) < 200
    z[np.arange(400), y] += (1.0 if decimals is None else 9.0) + leak * member
    answers = special.softmax(z, axis=1)
    if decimals is not None:
        answers[~member] = answers[~member].round(decimals)
    centre = rng.normal(size=(400 // each, 8))
    x = np.repeat(centre, each, axis=0) + 0.1 * rng.normal(size=(400, 8))
    return _level(answers, y, x)


def _judge_values(rng: np.random.Generator, ratio: float = 1.0, leak: float = 1.0) -> str:
    """Answers whose error grows with true values, which are larger among non-members."""
    member = np.arange(400) < 200
    values = rng.lognormal(np.where(member, 0, np.log(ratio)), 0.5)
    error = 0.2 * np.where(member, 1 / leak, 1) * rng.normal(size=400)
    return _level((values * np.exp(error))[:, None], values, rng.normal(size=(400, 8)))


AUDITS: dict[str, Callable[[np.random.Generator], str]] = {
    "no leak": _judge_answers,
    "no leak, 2 near copies each": lambda rng: _judge_answers(rng, each=2),
    "no leak, 4 near copies each": lambda rng: _judge_answers(rng, each=4),
    "no leak, non-members' answers with 4 digits": lambda rng: _judge_answers(rng, decimals=4),
    "leak": lambda rng: _judge_answers(rng, leak=0.8),
    "no leak, true values": _judge_values,
    "no leak, true values of non-members larger by 10 %": lambda rng: _judge_values(rng, 1.1),
    "no leak, by 35 %": lambda rng: _judge_values(rng, 1.35),
    "leak, true values": lambda rng: _judge_values(rng, leak=2.0),
}
"""Verdicts on models, by what is true of them."""


def _rate(count: int, audits: int) -> str:
    low, high = clopper_pearson(count, audits)
    return f"{count / audits:.3f} ({low:.3f} to {high:.3f})"
