"""The randomisation test that attacks on a federation share, whatever the secret is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Shaped
from scipy import special

ERROR = 0.05
"""Level of the test: the share of audits without a leak in which one is declared, at most."""

POWER = 0.8
"""Probability with which a leak is found, where the test speaks of detectable leaks."""

_MOST, _FEWEST, _CELLS = 999, 199, 20_000_000
"""Most draws, fewest draws, and the most numbers (draws times units) that are drawn."""

_ROUNDING = 1e-9


def max_t_p_value(statistics: Float64[np.ndarray, "draws statistics"]) -> float:
    """The share of draws whose highest standardised statistic is as high as the observed one.

    Each statistic is standardised by its mean and deviation over all draws, the observed one
    included: so what was observed is treated like every other draw, and where all draws are
    exchangeable p is 0.05 or less in 5 % of cases at most. Statistics that are strongly correlated
    cost nothing, because all are taken from the same draws. A statistic that is the same in all
    draws says nothing and is left out; where none is left, p is 1.

    Args:
        statistics: one row a draw and one column a statistic. The first row is what was observed,
            the others were drawn where there is nothing to find. A high value speaks for a leak.

    References:
        Westfall and Young (1993), Resampling-based multiple testing, section 2.6 (max T); Phipson
        and Smyth (2010), Permutation p-values should never be zero, section 4.

    Examples:
        >>> max_t_p_value(np.array([[3.0, 1.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]))
        0.25
    """
    centred = statistics - statistics.mean(axis=0)
    spread = centred.std(axis=0)
    varies = spread > _ROUNDING * np.abs(statistics).max(axis=0, initial=0)
    if not varies.any():
        return 1.0
    # max T: the largest deviation of any statistic, in the truth as in each draw
    highest = (centred[:, varies] / spread[varies]).max(axis=1)
    # what was observed is one of the draws (Phipson and Smyth, section 4)
    return float((highest >= highest[0] - _ROUNDING).mean())


@dataclass(frozen=True, slots=True)
class RandomisationTest:
    """Statistics of attacks as observed, and as drawn where guesses mean nothing.

    Where several ways of drawing are combined, each rests on an assumption of its own,
    and a leak must show in all of them: the error is kept if one of the assumptions holds.
    """

    columns: tuple[tuple[int, str], ...]
    """Position of the attack, and name, of each statistic. A high value speaks for a leak."""
    draws: tuple[Float64[np.ndarray, "_ columns"], ...]
    """One matrix for each way of drawing; the first row of each is what was observed."""
    smallest: float
    """The smallest p-value that so few units allow, however much an attack knows."""

    @property
    def p(self) -> float:
        """P-value of all statistics in one test: how often guesses that know nothing do as well."""
        # intersection-union: a leak has to show in each way, so no correction is due
        return max(max_t_p_value(table) for table in self.draws)

    @property
    def strongest(self) -> tuple[int, str] | None:
        """The attack and the statistic furthest above chance; None if there are none."""
        if not self.columns:
            return None
        return self.columns[int(self._z_scores()[0].argmax())]

    def of(self, attacks: Sequence[int]) -> "RandomisationTest":
        """The same test, of some of the attacks alone."""
        places = [k for k, (attack, _) in enumerate(self.columns) if attack in attacks]
        columns = tuple(self.columns[k] for k in places)
        return RandomisationTest(
            columns, tuple(table[:, places] for table in self.draws), self.smallest
        )

    def reverse(self) -> "RandomisationTest":
        """The same test where low statistics count: is the truth, or what was seen, reversed?

        Guesses that know nothing are no worse than chance either, so that what is further below
        than chance explains knows the truth, and shows it the wrong way round.
        """
        return RandomisationTest(self.columns, tuple(-table for table in self.draws), self.smallest)

    def observed_value(self, attack: int, name: str) -> float:
        """The observed value of a statistic of an attack."""
        return float(self.draws[0][0, self.columns.index((attack, name))])

    def null_mean(self, attack: int, name: str) -> float:
        """The mean of a statistic of an attack over all draws, where the guess knows nothing."""
        return float(self.draws[0][:, self.columns.index((attack, name))].mean())

    def detectable_value(self, name: str) -> float | None:
        """The true value of this statistic that four of five audits like this one would find.

        The mean of the draws, and as many of their deviations as bring the statistic over the
        limit of the test in `POWER` of cases if it is about normal and spreads as it does by
        chance. Of several attacks, the one that needs most; None where none of them varies.
        """
        standard = self._z_scores()
        varies = set(np.flatnonzero(standard.any(axis=0)).tolist())
        own = [k for k, (_, other) in enumerate(self.columns) if other == name and k in varies]
        if not own:
            return None
        limit = np.quantile(standard.max(axis=1), 1 - ERROR, method="higher")
        drawn = self.draws[0][:, own]
        away = limit + special.ndtri(POWER)
        return float((drawn.mean(axis=0) + away * drawn.std(axis=0)).max())

    def _z_scores(self) -> Float64[np.ndarray, "draws columns"]:
        """The first way's statistics in deviations above their mean; 0 where nothing varies."""
        centred = self.draws[0] - self.draws[0].mean(axis=0)
        spread = centred.std(axis=0)
        tiny = _ROUNDING * np.abs(self.draws[0]).max(axis=0, initial=0)
        scores: Float64[np.ndarray, "draws columns"] = np.where(
            spread > tiny, centred / np.where(spread > tiny, spread, 1.0), 0.0
        )
        return scores


def number_of_draws(units: int) -> int:
    """How many draws are made of so many units: 999, or fewer where that takes long.

    Examples:
        >>> number_of_draws(100), number_of_draws(50_000), number_of_draws(1_000_000)
        (999, 400, 199)
    """
    return int(np.clip(_CELLS // max(1, units), _FEWEST, _MOST))


def permute_within_groups(
    values: Shaped[np.ndarray, " units"],
    group: Shaped[np.ndarray, " units"],
    rng: np.random.Generator,
    draws: int,
) -> Shaped[np.ndarray, "draws units"]:
    """Values as they are in the first row, and permuted within groups in all others.

    Args:
        values: the value of each unit.
        group: the group of each unit; values change places within groups alone.
        rng: draws the permutations.
        draws: the number of rows, including the first.
    """
    drawn = np.tile(values, (draws, 1))
    for each in np.unique(group):
        rows = np.flatnonzero(group == each)
        drawn[1:, rows] = rng.permuted(drawn[1:, rows], axis=1)
    return drawn


def log_arrangements(counts: Sequence[int]) -> float:
    """The logarithm of the number of different orders of things of which some are alike.

    Args:
        counts: the number of things of each kind.

    Examples:
        >>> round(np.exp(log_arrangements([3, 3])))
        20
    """
    alike = sum(float(special.gammaln(count + 1)) for count in counts)
    return float(special.gammaln(sum(counts) + 1)) - alike
