"""Federations whose shape tells formulas apart that agree on many clients of one size.

One table of records, clients by classes, is three questions: which client a record belongs to,
which share of a client's records each class has, and, where class 0 is what a client clicked, which
of its items those are. Whatever decides about a federation is tested on each of them.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from divulge.core import NOBODY, Assignment, Collusion, Interactions, Proportions, Reconstruction
from divulge.metrics import conditional
from divulge.metrics.uninformed import assignment, composition, interactions
from divulge.report.federation.verdicts.assignment import AssignmentWords
from divulge.report.federation.verdicts.case import VerdictWords
from divulge.report.federation.verdicts.composition import CompositionWords
from divulge.report.federation.verdicts.interactions import InteractionWords


@dataclass(frozen=True)
class Shape:
    """How many records of each class (column) each client (row) has."""

    counts: tuple[tuple[int, ...], ...]
    outside: tuple[int, ...]
    """Of each class, how many belong to no client."""
    attacks: int = 1
    decimals: int = 17
    """Of the scores of attacks; 0 makes them tie."""


_SIX = ((5, 9), (9, 5), (3, 4), (8, 2), (2, 7), (6, 5))
SHAPES = {
    "unequal clients": Shape(((1, 30), (25, 3), (2, 2), (9, 0), (40, 1), (3, 17)), (20, 50)),
    "40 attacks": Shape(_SIX, (30, 9), attacks=40),
    "ties": Shape(_SIX, (9, 30), attacks=3, decimals=0),
    "three classes": Shape(((4, 1, 9), (2, 8, 3), (7, 7, 1), (1, 2, 3), (5, 0, 6)), (4, 9, 20), 2),
    "one class": Shape(((5,), (9,), (3,), (8,), (2,)), (30,), attacks=3),
    "clients alike": Shape(((3, 4), (3, 4), (6, 8), (3, 4), (9, 12)), (10, 10)),
    "no outsider": Shape(_SIX, (0, 0)),
    "one client": Shape(((6, 5),), (9, 4), attacks=2),
    "one record of each": Shape(((1, 0), (0, 1), (1, 0), (0, 1), (1, 0)), (1, 1)),
    "one record": Shape(((1, 0),), (0, 1)),
}

Knowledge = Literal["all", "opposite", "nothing", "noise"]
"""What an attack knows; with noise it guesses at random, and with nothing always the same."""
Question = Callable[[Shape, Knowledge], VerdictWords]


def _attacks(shape: Shape, last: Knowledge) -> list[Knowledge]:
    """What each attack knows: the last one is the one in question."""
    others: list[Knowledge] = ["noise"] * (shape.attacks - 1)
    return [*others, last]


def owners(shape: Shape, last: Knowledge) -> AssignmentWords:
    """Which client each record belongs to; another client attacks, and holds nothing."""
    rng, clients = np.random.default_rng(0), len(shape.counts)
    rows = [(k, y, n) for k, each in enumerate(shape.counts) for y, n in enumerate(each)]
    rows += [(NOBODY, y, n) for y, n in enumerate(shape.outside)]
    sizes = [n for *_, n in rows]
    client, label = (np.repeat([row[at] for row in rows], sizes) for at in (0, 1))
    order = rng.permutation(len(client))
    truth, label = Assignment(client[order]), label[order]
    known = Collusion(clients, np.zeros(0, bool), np.zeros(len(order), bool))
    hits = (truth.client[:, None] == np.arange(clients + 1)).astype(float)
    guesses = []
    for kind in _attacks(shape, last):
        score = rng.normal(size=hits.shape).round(shape.decimals)
        said = rng.permutation(truth.client)
        if kind != "noise":
            score = hits * {"all": 1.0, "opposite": -1.0, "nothing": 0.0}[kind]
            wrong = np.where(truth.client == NOBODY, 0, NOBODY)
            nobody = np.full(len(order), NOBODY)
            said = {"all": truth.client, "opposite": wrong, "nothing": nobody}[kind]
        guesses.append(Assignment(said, score))
    return AssignmentWords(
        guesses, truth, known, assignment.randomise(guesses, truth, known, label, rng)
    )


def shares(shape: Shape, last: Knowledge) -> CompositionWords:
    """Which share of a client's records each class has; the opposite is another client's."""
    rng = np.random.default_rng(0)
    truth = [Proportions.of(np.array(each)) for each in shape.counts]
    even = Proportions.of(np.ones(len(shape.outside), int))
    guesses = []
    for kind in _attacks(shape, last):
        if kind == "noise":
            drawn = rng.dirichlet(np.ones(len(shape.outside)), len(truth)).round(shape.decimals)
            guesses.append([Proportions.of(1 + (99 * one).astype(int)) for one in drawn])
        else:
            turned = [*truth[1:], truth[0]]
            guesses.append({"all": truth, "opposite": turned, "nothing": [even] * len(truth)}[kind])
    return CompositionWords(guesses, truth, composition.randomise(guesses, truth, rng))


def clicks(shape: Shape, last: Knowledge) -> InteractionWords:
    """Which of its items a client clicked: as many as it has records of class 0."""
    rng = np.random.default_rng(0)
    truth = [Interactions(rng.permutation(np.arange(sum(n)) < n[0])) for n in shape.counts]
    guesses, beyond = [], []
    for kind in _attacks(shape, last):
        guess = []
        for one in truth:
            score = rng.random(len(one.acted)).round(min(shape.decimals, 1))
            if kind != "noise":
                level = {"all": (0.0, 1.0), "opposite": (1.0, 0.0), "nothing": (0.5, 0.5)}[kind]
                score = np.where(one.acted, level[1], level[0])
            guess.append(Reconstruction(score, score > 0.5))
        labels = [one.acted for one in truth]
        none = [np.zeros((len(one), 1)) for one in labels]
        left = conditional.partial_correlations([one.score for one in guess], labels, none)
        guesses.append(guess)
        beyond.append(interactions.BeyondPublic(left))
    return InteractionWords(
        guesses, truth, interactions.randomise(guesses, truth, rng, beyond), beyond
    )


def _ways(counts: Sequence[int]) -> int:
    """In how many orders groups of such sizes can stand."""
    return math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))


SMALLEST: dict[Question, Callable[[Shape], float]] = {
    owners: lambda shape: 1 / math.prod(
        _ways([*(each[y] for each in shape.counts), shape.outside[y]])
        for y in range(len(shape.outside))
    ),
    shares: lambda shape: 1 / _ways(
        [*Counter(tuple(np.array(n) / sum(n)) for n in shape.counts).values()]
    ),
    clicks: lambda shape: 0.5 ** sum(0 < n[0] < sum(n) for n in shape.counts),
}  # fmt: skip
"""By question, the p-value that chance gives a perfect guess, by counting."""
