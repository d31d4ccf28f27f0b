"""Test whether the items that a server shows a client look manipulated."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from divulge.core import Estimate
from divulge.errors import DataError
from divulge.metrics import membership
from divulge.metrics.intervals import clopper_pearson

Features = Float[np.ndarray, "_ features"]
"""Features of a list of items, one row an item; lists may have any length."""


class FeatureStatistic(NamedTuple):
    """Distribution of one summary statistic over honest lists of items."""

    mean: float
    spread: float
    """Standard deviation over honest lists; for constant features at least one feature's share."""

    def oddness(self, value: float) -> float:
        """Distance from the mean in standard deviations; infinite if honest lists never vary."""
        apart = abs(value - self.mean)
        return apart / self.spread if self.spread > 0 else np.inf if apart > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """Statistics of honest items, and the largest deviation from them that a client accepts.

    The check uses three statistics of a list. The share of features that are the same for all
    items, 0 or another number: fingerprints are. The distance of features from honest means, in
    honest standard deviations: injected noise lies nearer or farther than honest features. And the
    correlation between features: real features rise and fall together, noise does not.

    Args:
        constant: share of constant features in honest lists.
        drift: mean distance of features from the honest means, in standard deviations.
        correlation: mean absolute correlation between pairs of features.
        mean: mean of each feature over honest items.
        spread: standard deviation of each feature over honest items.
        limit: largest `oddness` that passes, in standard deviations.
    """

    constant: FeatureStatistic
    drift: FeatureStatistic
    correlation: FeatureStatistic
    mean: Float[np.ndarray, " features"]
    spread: Float[np.ndarray, " features"]
    limit: float = np.inf

    def __call__(self, items: Features) -> tuple[str, ...]:
        """Describe what is odd about a list of items; an empty tuple where the list passes.

        Raises:
            DataError: the list has another number of features.
        """
        constant, drift, correlation = self._statistics(items)
        reasons = (
            (self.constant, constant, "{:.0%} of features are constant, in honest lists {:.0%}"),
            (self.drift, drift, "features are {:.3g} deviations off, in honest lists {:.3g}"),
            (self.correlation, correlation, "features correlate by {:.2g}, in honest lists {:.2g}"),
        )
        return tuple(
            words.format(value, look.mean)
            for look, value, words in reasons
            if look.oddness(value) > self.limit
        )

    def oddness(self, items: Features) -> float:
        """Largest distance of the three statistics from honest ones, in standard deviations.

        Raises:
            DataError: the list has another number of features.
        """
        looks = (self.constant, self.drift, self.correlation)
        scores = [look.oddness(v) for look, v in zip(looks, self._statistics(items), strict=True)]
        return max(scores)

    def _statistics(self, items: Features) -> tuple[float, float, float]:
        if items.shape[1] != len(self.mean):
            raise DataError(
                f"expected items of {len(self.mean)} features, got {items.shape[1]}: learn the "
                "check anew"
            )
        return _constant(items), _drift(items, self.mean, self.spread), _correlation(items)


class Detection(NamedTuple):
    """How well a check tells manipulated lists from honest ones."""

    auc: Estimate
    """AUC of `ItemCheck.oddness`."""
    caught: Estimate
    """True-positive rate: share of manipulated lists that are called odd."""
    alarms: Estimate
    """False-positive rate: share of honest lists that are called odd."""
    roc: membership.Roc


def learn_check(lists: list[Features], alarm: float = 0.05) -> ItemCheck:
    """Learn a check from honest lists of items, which are as long as those to be checked.

    The first half of the lists says what features are like, and the second half how odd honest
    lists then seem: the limit is passed by a further honest list with a chance of at least
    1 - ``alarm``, whatever features look like, if it is exchangeable with those of the second half.
    Where lists share items, let no item be in both halves: a list whose items were learnt from
    seems less odd than others.

    Args:
        lists: honest lists of items as they were shown, one array a list.
        alarm: share of honest lists that may be called odd, between 0 and 1.

    Raises:
        DataError: there are too few lists for so few alarms.

    References:
        Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world (the limit of
        inductive conformal prediction).
    """
    fewest = 2 * (math.ceil(1 / alarm) - 1)
    if len(lists) < fewest:
        raise DataError(
            f"expected {fewest} honest lists or more for a false alarm of {alarm:g}, got "
            f"{len(lists)}: collect more, or allow for more alarms"
        )
    first, second = lists[: len(lists) // 2], lists[len(lists) // 2 :]
    every = np.concatenate(first)
    mean, spread = every.mean(axis=0), every.std(axis=0)
    check = ItemCheck(
        _summarise(
            [_constant(given) for given in first], 1 / len(mean)
        ),  # one feature more is little
        _summarise([_drift(given, mean, spread) for given in first]),
        _summarise([_correlation(given) for given in first]),
        mean,
        spread,
    )
    odd = sorted(check.oddness(given) for given in second)
    beyond = max(1, math.floor(alarm * (len(odd) + 1)))
    return replace(check, limit=odd[-beyond])


def measure_detection(
    check: ItemCheck, honest: list[Features], shaped: list[Features]
) -> Detection:
    """Measure the detector on lists that it did not learn from.

    Raises:
        DataError: there are no lists of one kind.
    """
    if not honest or not shaped:
        raise DataError(
            f"expected honest and shaped lists, got {len(honest)} and {len(shaped)}: keep some back"
        )
    score = np.array([check.oddness(items) for items in (*shaped, *honest)])
    # deviations beyond all others count alike: an infinite one is just the largest
    finite = score[np.isfinite(score)]
    score = np.minimum(score, 2 * finite.max(initial=1.0))
    is_shaped = np.arange(len(score)) < len(shaped)
    return Detection(
        membership.auc(score, is_shaped),
        flag_rate(check, shaped),
        flag_rate(check, honest),
        membership.roc(score, is_shaped),
    )


def flag_rate(check: ItemCheck, lists: list[Features]) -> Estimate:
    """Share of lists that are called odd; pass lists that the check did not learn from.

    Raises:
        DataError: there is no list.
    """
    if not lists:
        raise DataError("expected lists, got none: keep some back")
    alarms = sum(bool(check(items)) for items in lists)
    low, high = clopper_pearson(alarms, len(lists))
    return Estimate(alarms / len(lists), low, high)


def _summarise(values: list[float], least: float = 0.0) -> FeatureStatistic:
    return FeatureStatistic(float(np.mean(values)), max(float(np.std(values)), least))


def _constant(items: Features) -> float:
    return float((items == items[:1]).all(axis=0).mean())


def _drift(
    items: Features,
    mean: Float[np.ndarray, " features"],
    spread: Float[np.ndarray, " features"],
) -> float:
    """Mean distance from the mean, in standard deviations, over features that vary."""
    varies = spread > 0
    return float(np.abs((items - mean)[:, varies] / spread[varies]).mean())


def _correlation(items: Features) -> float:
    """Mean absolute correlation over pairs of features that vary; 0 where there is no pair."""
    varying = items[:, (items != items[:1]).any(axis=0)]
    count = varying.shape[1]
    if count < 2:
        return 0.0
    correlations = np.abs(np.corrcoef(varying, rowvar=False))
    return float((correlations.sum() - count) / (count * (count - 1)))
