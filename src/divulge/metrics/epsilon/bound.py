"""A lower bound on the ε of differential privacy, from one training run.

The attack guesses: the highest scores are members, the lowest are not. If training is private,
few guesses can be right, because each record became a member at random. Too many right guesses
refute ε. ε is tested upwards from 0, and the first that is not refuted is the bound. As no ε is
tested before all smaller ones are refuted, a true ε is exceeded only if it is refuted itself, and
that happens with the permitted error. So each ε may have its own number of guesses (`sizes`), fixed
before the scores are seen, without a correction. Where several guessings are tested for one ε, each has
a share of the error (Bonferroni).
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from scipy import special

from divulge.core import Drawn, Estimate, Noise
from divulge.errors import SpecError
from divulge.metrics.epsilon import curves, independent, one_run, sizes
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.membership import Member, Score, split
from divulge.randomness import stream

_GRID = (0.0, *(0.02 * 1.25 ** np.arange(38)).tolist())
"""Where the number of guesses changes: values of ε, or of μ for Gaussian noise. The last is 77."""

_UNFAIR = 5.0
"""Standard deviations from half of the records at which membership was not drawn by fair coins."""

_MOST = 10**8
"""Records: nobody audits more."""


class _Guessing(NamedTuple):
    """How many of the highest scores are called members, and of the lowest non-members."""

    top: int
    bottom: int
    share: float
    """Of the permitted error."""


class _Test(NamedTuple):
    """What is held against the guesses."""

    noise: Noise
    delta: float
    records: int
    error: float

    def guessings(self, at_most: float) -> tuple[_Guessing, ...]:
        """Fixed for all values of the parameter up to this one, from the next lower on the grid."""
        if self.noise == "independent-gaussian":
            each = independent.guesses(self.records)
            return (_Guessing(each, each, 1.0),)
        error = _SHARES[0] * self.error
        if self.noise == "gaussian":
            size = sizes.gaussian(at_most, self.records, error)
        else:
            size = sizes.approximate(at_most, self.delta, self.records, error)
        half, whole = size - size // 2, self.records
        return (
            _Guessing(half, size // 2, _SHARES[0]),
            _Guessing(half, 0, _SHARES[1]),
            _Guessing(0, half, _SHARES[2]),
            _Guessing(whole - whole // 2, whole // 2, _SHARES[3]),
        )

    def refutes(self, parameter: float, guessing: _Guessing, hits: int) -> bool:
        """Whether so many hits are too many for this ε (μ for Gaussian noise)."""
        top, bottom, share = guessing
        error = share * self.error
        if self.noise == "independent-gaussian":
            return independent.tail(parameter, self.records, top, bottom, hits) <= error
        known = (self.records, top + bottom, hits)
        if self.noise == "gaussian":
            return one_run.rarer(curves.gaussian(parameter), *known, error)
        curve = curves.approximate(parameter, self.delta)
        return (
            one_run.rarer(curve, *known, error)
            or one_run.steinke(parameter, self.delta, *known) <= error
        )


_SHARES = (0.6, 0.2, 0.05, 0.15)
"""Of the error: both ends alike; members alone, as where few are exposed; non-members alone;
all records, as where the attack has no more to say than yes or no."""


def epsilon_lower_bound(
    score: Score,
    member: Member,
    delta: float = 0.0,
    *,
    drawn: Drawn = "fixed",
    noise: Noise = "any",
    confidence: float = CONFIDENCE,
    tries: int = 1,
) -> Estimate:
    """The largest ε for adding or removing one record that the scores refute, zero if none.

    **Membership by coins.** All bounds suppose that a fair coin of its own made each record a member.

    **Fixed numbers.** A draw of h members among 2h records, all such draws alike, is a draw by fair
    coins of which we know that h fell on one side. The training is private whatever the coins
    show, so for every event P(event | h members) ≤ P(event) / P(h members): the permitted error is
    multiplied by P(h members), about 1 / sqrt(π h). For 10,000 records that is 1/125, and
    ε need not be halved. Of unequal groups, as many of the larger as the smaller has are drawn;
    they are a draw of fixed numbers again. This holds for coins that are not fair, too.

    **Ties** are ordered at random, by a stream that does not depend on membership.

    Args:
        score: higher means more likely a member.
        member: drawn at random among the records, as in an honest audit.
        delta: the δ of the guarantee to be refuted; 0 bounds pure ε.
        drawn: whether a fair coin of its own decided about each record, or numbers were fixed.
        noise: what is known about the training. ``"any"`` supposes nothing. ``"gaussian"`` supposes
            that its trade-off curve is that of Gaussian noise, as with full batches. With
            ``"independent-gaussian"`` records are besides independent of each other, as canaries
            are that do not interact: else the bound can exceed ε by far.
        confidence: the bound exceeds the true ε with probability ``1 - confidence`` at most.
        tries: of how many attacks this is one, if their highest bound is to keep that promise.

    Returns:
        An estimate whose value is the bound itself and which has no upper end.

    References:
        Those of `one_run` and `independent`.

    Raises:
        SpecError: Gaussian noise and δ = 0: it has no ε there.

    Examples:
        >>> member = np.arange(1000) % 2 == 0
        >>> epsilon_lower_bound(member + 0.0, member, drawn="coins").value > 4
        True
        >>> epsilon_lower_bound(np.zeros(1000), member).value
        0.0
    """
    split(score, member)  # refuses broken scores and empty groups
    if drawn == "coins" and not _fair(member):
        drawn = "fixed"
    rng = stream(0, "order of ties")
    kept = np.arange(len(member)) if drawn == "coins" else _balanced(member, rng)
    ranked = _ranked(score[kept], member[kept], rng)
    test = _test(delta, drawn, noise, len(kept), (1 - confidence) / tries)
    found = _largest(test, lambda guessing: _hits(ranked, guessing))
    return Estimate(found, found, None)


def largest_bound(
    records: int,
    delta: float = 0.0,
    *,
    drawn: Drawn = "fixed",
    noise: Noise = "any",
    confidence: float = CONFIDENCE,
    tries: int = 1,
) -> float:
    """The bound that a model would yield that gives away who is a member, every record.

    Args:
        records: half of them members. Others: see `epsilon_lower_bound`.

    Examples:
        >>> [round(largest_bound(n, 1e-5), 1) for n in (60, 200, 1000)]
        [1.6, 2.7, 4.3]
    """
    test = _test(delta, drawn, noise, records, (1 - confidence) / tries)
    return _largest(test, lambda guessing: _all_right(guessing, records))


def records_needed(
    epsilon: float,
    delta: float = 0.0,
    *,
    drawn: Drawn = "fixed",
    noise: Noise = "any",
    tries: int = 1,
) -> int | None:
    """With how many records `largest_bound` exceeds this ε; None if a hundred million do not.

    Args:
        epsilon: that is to be refuted. Others: see `epsilon_lower_bound`.

    Returns:
        At least as many as needed, and up to a twentieth more: a number of two digits and zeros.

    Examples:
        >>> records_needed(8.0, 1e-5)
        54000
    """

    def enough(records: int) -> bool:
        return largest_bound(records, delta, drawn=drawn, noise=noise, tries=tries) > epsilon

    high = 16
    while not enough(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > max(1, low // 40):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    unit = 10 ** max(0, len(str(high)) - 2)
    return -(-high // unit) * unit


def _test(delta: float, drawn: Drawn, noise: Noise, records: int, error: float) -> _Test:
    if noise != "any" and delta == 0:
        raise SpecError(
            "expected delta above 0 beside Gaussian noise, got 0: Gaussian noise has an epsilon "
            "only for a delta, such as 1e-5"
        )
    if drawn == "fixed":
        error *= _even_chance(records)
    return _Test(noise, delta, records, error)


def _even_chance(records: int) -> float:
    """The probability that fair coins make exactly half of them members."""
    half = records // 2
    log = special.gammaln(2 * half + 1) - 2 * special.gammaln(half + 1) - 2 * half * math.log(2)
    return math.exp(log)


def _fair(member: Member) -> bool:
    return bool(abs(2 * np.sum(member) - len(member)) <= _UNFAIR * math.sqrt(len(member)))


def _balanced(member: Member, rng: np.random.Generator) -> Int[np.ndarray, " kept"]:
    """As many of each group, those of the larger one drawn at random; in their order."""
    groups = np.flatnonzero(member), np.flatnonzero(~member)
    fewest = min(map(len, groups))
    return np.sort(np.concatenate([rng.permutation(group)[:fewest] for group in groups]))


def _ranked(score: Score, member: Member, rng: np.random.Generator) -> Bool[np.ndarray, " records"]:
    """Who is a member, by falling score; ties in random order."""
    return member[np.lexsort((rng.permutation(len(score)), -score))]


def _hits(ranked: Bool[np.ndarray, " records"], guessing: _Guessing) -> int:
    top, bottom, _ = guessing
    right = np.sum(ranked[:top]) + np.sum(~ranked[len(ranked) - bottom :])
    return int(right)


def _all_right(guessing: _Guessing, records: int) -> int:
    half = records // 2
    return min(guessing.top, half) + min(guessing.bottom, half)


def _largest(test: _Test, hits: Callable[[_Guessing], int]) -> float:
    """The largest ε below which all are refuted."""
    parameter = 0.0
    for low, high in pairwise(_GRID):
        parameter = _within(test, hits, low, high)
        if parameter < high:
            break
    return parameter if test.noise == "any" else curves.gaussian_epsilon(parameter, test.delta)


def _within(test: _Test, hits: Callable[[_Guessing], int], low: float, high: float) -> float:
    """The largest value from low to high that is refuted; low if none is.

    The guessings stay the same, so what refutes one value refutes all smaller ones.
    """
    counted = [(guessing, hits(guessing)) for guessing in test.guessings(high)]

    def refuted(parameter: float) -> bool:
        return any(test.refutes(parameter, *one) for one in counted)

    if refuted(high):
        return high
    for _ in range(16):  # a cell is a fifth of its upper end wide, so to 3e-6 of it
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
