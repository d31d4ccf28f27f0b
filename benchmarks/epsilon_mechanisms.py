"""SYNTHETIC mechanisms whose ε is known, to hold lower bounds on it against.

Each draws who is a member, and a score for every record. Leaks are as adversarial as the
guarantee permits: discrete, with ties, all records at once, or by how many members there are.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from divulge.core import MembershipDraw, NoiseAssumption
from divulge.metrics.epsilon.curves import gaussian_delta

Audit = tuple[np.ndarray, np.ndarray]
"""Scores, and who is a member."""

Coins = Callable[[np.random.Generator], np.ndarray]
Leak = Callable[[np.random.Generator, np.ndarray], np.ndarray]

DELTA = 1e-5


class Cell(NamedTuple):
    """One mechanism, and how it is audited."""

    name: str
    epsilon: float
    """True ε for adding or removing one record, at ``delta``."""
    delta: float
    coins: Coins
    leak: Leak
    drawn: MembershipDraw = "coins"
    noise: NoiseAssumption = "any"

    def audit(self, rng: np.random.Generator) -> Audit:
        """Scores of one run, and who was a member."""
        member = self.coins(rng)
        return self.leak(rng, member), member


def coins(rng: np.random.Generator, records: int, chance: float = 0.5) -> np.ndarray:
    """Draw members by one coin a record."""
    return np.asarray(rng.random(records) < chance)


def fixed(rng: np.random.Generator, members: int, others: int) -> np.ndarray:
    """Draw so many members at random."""
    return np.asarray(rng.permutation(members + others) < members)


def mu_of(epsilon: float, delta: float = DELTA) -> float:
    """How far apart the means of unit Gaussian noise are for this guarantee."""
    mu: float = optimize.brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-3, 60)
    return mu


def response(rng: np.random.Generator, member: np.ndarray, epsilon: float) -> np.ndarray:
    """Randomised response: the bit of each record is right with odds e^ε; pure ε."""
    right = rng.random(len(member)) < special.expit(epsilon)
    return np.where(right, member, ~member) + 0.0


def gaussian(rng: np.random.Generator, member: np.ndarray, mu: float) -> np.ndarray:
    """Gaussian mechanism: independent noise for each record."""
    return np.asarray(rng.normal(size=len(member)) + mu * member)


def laplace(rng: np.random.Generator, member: np.ndarray, epsilon: float) -> np.ndarray:
    """Laplace noise of scale 1 / ε; pure ε."""
    return np.asarray(rng.laplace(scale=1 / epsilon, size=len(member)) + member)


def geometric(rng: np.random.Generator, member: np.ndarray, epsilon: float) -> np.ndarray:
    """Two-sided geometric noise: whole numbers with many ties; pure ε."""
    chance = 1 - math.exp(-epsilon)
    first, second = (rng.geometric(chance, size=len(member)) for _ in range(2))
    return first - second + 1.0 * member


def subsampled(
    rng: np.random.Generator, member: np.ndarray, epsilon: float, rate: float
) -> np.ndarray:
    """Each member is used with this rate only, and then protected by randomised response."""
    return response(rng, member & (rng.random(len(member)) < rate), epsilon)


def one_by_one(
    rng: np.random.Generator, member: np.ndarray, epsilon: float, delta: float
) -> np.ndarray:
    """Randomised response, and each record is published besides with probability δ."""
    responses = response(rng, member, epsilon)
    exposed = rng.random(len(member)) < delta
    return np.where(exposed, 4.0 * member - 1.5, responses)


def together(
    rng: np.random.Generator, member: np.ndarray, epsilon: float, delta: float, share: float = 1.0
) -> np.ndarray:
    """Randomised response; with probability δ, this share of all records is published at once."""
    responses = response(rng, member, epsilon)
    if rng.random() < delta:
        exposed = rng.random(len(member)) < share
        responses = np.where(exposed, 4.0 * member - 1.5, responses)
    return responses


def rarely(rng: np.random.Generator, member: np.ndarray, leaks: float, odds: float) -> np.ndarray:
    """Publish nothing, but in a share of all runs randomised response on all records at once."""
    if rng.random() < leaks:
        return response(rng, member, odds)
    return rng.normal(size=len(member))


def rare_odds(leaks: float, mu: float) -> float:
    """The ε of the randomised response in `rarely` that keeps it μ-Gaussian private.

    Its trade-off curve has one corner, at (leaks / (1 + e^ε), leaks e^ε / (1 + e^ε)) from below;
    the curve of the noise is concave, so that corner alone has to lie on it.
    """

    def above(epsilon: float) -> float:
        right = float(special.expit(epsilon))
        return float(special.ndtri(leaks * right) - special.ndtri(leaks * (1 - right))) - mu

    epsilon: float = optimize.brentq(above, 1e-6, 50)
    return epsilon


def alike(rng: np.random.Generator, member: np.ndarray, mu: float) -> np.ndarray:
    """Gaussian noise that lies equally far from the middle for all records of a run.

    Each record alone is as private as behind noise of its own: the distance says nothing about it,
    and given the distance a, it is guessed with the odds e^(μ a) of such noise.
    """
    distance = abs(float(rng.normal()) + mu / 2)
    right = rng.random(len(member)) < special.expit(mu * distance)
    return np.where(right == member, distance, -distance)


def in_blocks(rng: np.random.Generator, member: np.ndarray, mu: float, size: int) -> np.ndarray:
    """Records of a block share one sum and one noise: they are given away together."""
    sums = member.reshape(-1, size).sum(axis=1)
    return np.repeat(mu * sums + rng.normal(size=len(sums)), size)


def varied(rng: np.random.Generator, member: np.ndarray, mu: float) -> np.ndarray:
    """Gaussian noise, but records differ: some leak μ, some less, some score high anyway."""
    strength = mu * rng.choice([0.0, 0.5, 1.0], size=len(member))
    return np.asarray(rng.normal(size=len(member)) * 1.0 + strength * (member - 0.5))


def by_number(
    rng: np.random.Generator, member: np.ndarray, epsilon: float, guesses: int
) -> np.ndarray:
    """Where exactly half are members, a few are pointed out with odds e^2ε; with half a chance.

    With j members more or less the chance is e^-εj / 2, so one more or less costs ε (and a
    little, as the weights of all records add up otherwise): the training notices how many it has.
    """
    away = abs(int(member.sum()) - len(member) // 2)
    score = rng.normal(size=len(member))
    if rng.random() < math.exp(-epsilon * away) / 2:
        weight = np.where(member, math.exp(2 * epsilon), 1.0)
        score[rng.choice(len(member), guesses, replace=False, p=weight / weight.sum())] += 100
    return score


def _constant(_: np.random.Generator, member: np.ndarray) -> np.ndarray:
    return np.zeros(len(member))


def _rounded(rng: np.random.Generator, member: np.ndarray, mu: float) -> np.ndarray:
    return np.round(gaussian(rng, member, mu))


def _amplified(epsilon: float, rate: float) -> float:
    """The ε of `subsampled`: Balle, Barthe and Gaboardi (2018), theorem 8, with δ = 0."""
    return math.log1p(rate * math.expm1(epsilon))


def _any() -> list[Cell]:
    def n(records: int) -> Coins:
        return partial(coins, records=records)

    cells = [
        Cell(f"randomised response, N = {size}", epsilon, delta, n(size),
             partial(response, epsilon=epsilon))
        for epsilon, size, delta in (
            (0.0, 1000, 0.0), (0.5, 1000, 0.0), (1.0, 100, 0.0), (2.0, 1000, 0.0),
            (2.0, 1000, DELTA), (4.0, 400, 0.0), (4.0, 1000, 1e-3),
        )
    ]  # fmt: skip
    cells += [
        Cell(f"Gaussian, N = {size}", epsilon, DELTA, n(size),
             partial(gaussian, mu=mu_of(epsilon)))
        for epsilon, size in ((1.0, 200), (1.0, 1000), (4.0, 200), (4.0, 1000))
    ]  # fmt: skip
    return [
        *cells,
        Cell("Gaussian, δ = .01", 1.0, 1e-2, n(1000), partial(gaussian, mu=mu_of(1.0, 1e-2))),
        Cell("Laplace", 1.0, 0.0, n(1000), partial(laplace, epsilon=1.0)),
        Cell("Laplace", 3.0, DELTA, n(300), partial(laplace, epsilon=3.0)),
        Cell("geometric, ties", 1.0, 0.0, n(1000), partial(geometric, epsilon=1.0)),
        Cell("geometric, ties", 2.0, 0.0, n(60), partial(geometric, epsilon=2.0)),
        Cell("subsampled", _amplified(3.0, 0.3), 0.0, n(1000),
             partial(subsampled, epsilon=3.0, rate=0.3)),
        Cell("constant score", 0.0, 0.0, n(200), _constant),
        Cell("each record published with δ", 1.0, 0.01, n(1000),
             partial(one_by_one, epsilon=1.0, delta=0.01)),
        Cell("each record published with δ", 0.0, 1e-3, n(1000),
             partial(one_by_one, epsilon=0.0, delta=1e-3)),
        *(
            Cell(f"with δ, {100 * share:g} % published at once", epsilon, delta, n(1000),
                 partial(together, epsilon=epsilon, delta=delta, share=share))
            for epsilon, delta, share in ((0.0, 0.04, 1.0), (0.0, 0.04, 0.1), (1.0, 0.03, 0.05),
                                          (2.0, 0.02, 0.3))
        ),
    ]  # fmt: skip


def _fixed() -> list[Cell]:
    halves = partial(fixed, members=500, others=500)
    return [
        Cell("fixed halves, randomised response", 1.0, 0.0, halves,
             partial(response, epsilon=1.0), "fixed"),
        Cell("fixed halves, nothing leaks", 0.0, 0.0, halves, partial(response, epsilon=0.0),
             "fixed"),
        Cell("fixed 100 + 100, Gaussian", 4.0, DELTA, partial(fixed, members=100, others=100),
             partial(gaussian, mu=mu_of(4.0)), "fixed"),
        *(
            # 3 e^2ε picks among 1,000: one member more changes the sum of weights by 1 / 500
            Cell(f"fixed halves, {k} pointed out by number", 1.0 + k / 500, 0.0, halves,
                 partial(by_number, epsilon=1.0, guesses=k), "fixed")
            for k in (5, 20)
        ),
        Cell("fixed 300 + 900, randomised response", 1.0, 0.0,
             partial(fixed, members=300, others=900), partial(response, epsilon=1.0), "fixed"),
        Cell("fixed 900 + 100, Gaussian", 4.0, DELTA, partial(fixed, members=900, others=100),
             partial(gaussian, mu=mu_of(4.0)), "fixed"),
        Cell("coins of one fifth", 1.0, 0.0, partial(coins, records=1000, chance=0.2),
             partial(response, epsilon=1.0)),
    ]  # fmt: skip


def _gaussian() -> list[Cell]:
    n = partial(coins, records=1000)
    mu = mu_of(4.0)
    return [
        Cell("Gaussian", 4.0, DELTA, n, partial(gaussian, mu=mu), noise="gaussian"),
        Cell("Gaussian", 1.0, DELTA, n, partial(gaussian, mu=mu_of(1.0)), noise="gaussian"),
        Cell("in blocks of two", 4.0, DELTA, n, partial(in_blocks, mu=mu, size=2),
             noise="gaussian"),
        Cell("in blocks of ten", 4.0, DELTA, n, partial(in_blocks, mu=mu, size=10),
             noise="gaussian"),
        *(
            Cell(f"all at once in {100 * leaks:g} % of runs", 4.0, DELTA, n,
                 partial(rarely, leaks=leaks, odds=rare_odds(leaks, mu)), noise="gaussian")
            for leaks in (0.06, 0.2)
        ),
        Cell("fixed halves, Gaussian", 4.0, DELTA, partial(fixed, members=500, others=500),
             partial(gaussian, mu=mu), "fixed", "gaussian"),
    ]  # fmt: skip


def _independent() -> list[Cell]:
    def n(records: int) -> Coins:
        return partial(coins, records=records)

    mu = mu_of(4.0)
    noise: NoiseAssumption = "independent-gaussian"
    return [
        *(
            Cell(f"independent Gaussian, N = {size}", epsilon, DELTA, n(size),
                 partial(gaussian, mu=mu_of(epsilon)), noise=noise)
            for epsilon, size in ((4.0, 60), (4.0, 200), (4.0, 1000), (1.0, 1000), (10.0, 200))
        ),
        Cell("independent, records differ", 4.0, DELTA, n(1000), partial(varied, mu=mu),
             noise=noise),
        Cell("independent, rounded", 4.0, DELTA, n(1000), partial(_rounded, mu=mu), noise=noise),
        Cell("independent, randomised response", 4.0, DELTA, n(400),
             partial(response, epsilon=rare_odds(1.0, mu)), noise=noise),
        Cell("independent, fixed halves", 4.0, DELTA, partial(fixed, members=500, others=500),
             partial(gaussian, mu=mu), "fixed", noise),
        Cell("independent, fixed 900 + 100", 4.0, DELTA, partial(fixed, members=900, others=100),
             partial(gaussian, mu=mu), "fixed", noise),
    ]  # fmt: skip


def cells() -> tuple[Cell, ...]:
    """All mechanisms and audits."""
    return (*_any(), *_fixed(), *_gaussian(), *_independent())
