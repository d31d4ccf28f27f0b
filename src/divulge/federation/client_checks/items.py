"""A client's look at the items that it was handed: do they seem shaped by the server?"""

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
"""Of a list of items; lists are of any length."""


class Look(NamedTuple):
    """What one way to look at lists finds in honest ones."""

    mean: float
    spread: float
    """Standard deviation over honest lists; that of constant features is one feature or more."""

    def oddness(self, value: float) -> float:
        """How far from the mean, in deviations; any distance is infinite where there are none."""
        apart = abs(value - self.mean)
        return apart / self.spread if self.spread > 0 else np.inf if apart > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """What honest items look like, and how unlike them others may be before they are refused.

    Three things are looked at. The share of features that are the same for all items, 0 or
    another number, as fingerprints are. How far features are from honest means, in honest
    deviations: injected noise lies nearer or farther than they do. And how alike features are
    among themselves: those of real things rise and fall together, noise does not.

    Args:
        constant: of features, in honest lists.
        drift: mean distance from the honest means, in deviations.
        correlation: mean absolute correlation of two features.
        mean: of each feature, over honest items.
        spread: its standard deviation.
        limit: the largest `oddness` that passes.
    """

    constant: Look
    drift: Look
    correlation: Look
    mean: Float[np.ndarray, " features"]
    spread: Float[np.ndarray, " features"]
    limit: float = np.inf

    def __call__(self, items: Features) -> tuple[str, ...]:
        """What is odd about a list of items, in words; nothing where it passes.

        Raises:
            DataError: the number of features is another.
        """
        constant, drift, correlation = self._seen(items)
        said = (
            (self.constant, constant, "{:.0%} of features are constant, in honest lists {:.0%}"),
            (self.drift, drift, "features are {:.3g} deviations off, in honest lists {:.3g}"),
            (self.correlation, correlation, "features correlate by {:.2g}, in honest lists {:.2g}"),
        )
        return tuple(
            words.format(value, look.mean)
            for look, value, words in said
            if look.oddness(value) > self.limit
        )

    def oddness(self, items: Features) -> float:
        """How unlike honest lists it is: the largest distance of all looks, in deviations.

        Raises:
            DataError: the number of features is another.
        """
        looks = (self.constant, self.drift, self.correlation)
        found = [look.oddness(v) for look, v in zip(looks, self._seen(items), strict=True)]
        return max(found)

    def _seen(self, items: Features) -> tuple[float, float, float]:
        if items.shape[1] != len(self.mean):
            raise DataError(
                f"expected items of {len(self.mean)} features, got {items.shape[1]}: learn the "
                "check anew"
            )
        return _constant(items), _drift(items, self.mean, self.spread), _correlation(items)


class Detection(NamedTuple):
    """How well a check tells shaped lists from honest ones."""

    auc: Estimate
    """Of `ItemCheck.oddness`."""
    caught: Estimate
    """The share of shaped lists that are called odd."""
    alarms: Estimate
    """The share of honest lists that are called odd."""
    roc: membership.Roc


def learn(lists: list[Features], alarm: float = 0.05) -> ItemCheck:
    """What passes, from honest lists of items, as long as those to be looked at.

    The first half of the lists says what features are like, and the second half how odd honest
    lists then seem: the limit is passed by a further honest list with a chance of at least
    1 - ``alarm``, whatever features look like, if it is exchangeable with those of the second half.
    Where lists share items, let no item be in both halves: a list whose items were learnt from
    seems less odd than others.

    Args:
        lists: items as they were handed out, each list at once.
        alarm: share of honest lists that may be called odd.

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
        _look([_constant(one) for one in first], 1 / len(mean)),  # one feature more is little
        _look([_drift(one, mean, spread) for one in first]),
        _look([_correlation(one) for one in first]),
        mean,
        spread,
    )
    odd = sorted(check.oddness(one) for one in second)
    beyond = max(1, math.floor(alarm * (len(odd) + 1)))
    return replace(check, limit=odd[-beyond])


def detection(check: ItemCheck, honest: list[Features], shaped: list[Features]) -> Detection:
    """The detector measured, on lists of which none was learnt from.

    Raises:
        DataError: there are no lists of one kind.
    """
    if not honest or not shaped:
        raise DataError(
            f"expected honest and shaped lists, got {len(honest)} and {len(shaped)}: keep some back"
        )
    score = np.array([check.oddness(one) for one in (*shaped, *honest)])
    # deviations beyond all others count alike: an infinite one is just the largest
    finite = score[np.isfinite(score)]
    score = np.minimum(score, 2 * finite.max(initial=1.0))
    is_shaped = np.arange(len(score)) < len(shaped)
    return Detection(
        membership.auc(score, is_shaped),
        called_odd(check, shaped),
        called_odd(check, honest),
        membership.roc(score, is_shaped),
    )


def called_odd(check: ItemCheck, lists: list[Features]) -> Estimate:
    """The share of lists that are called odd: false alarms, if honest; give ones not learnt from.

    Raises:
        DataError: there is no list.
    """
    if not lists:
        raise DataError("expected lists, got none: keep some back")
    alarms = sum(bool(check(one)) for one in lists)
    low, high = clopper_pearson(alarms, len(lists))
    return Estimate(alarms / len(lists), low, high)


def _look(values: list[float], least: float = 0.0) -> Look:
    return Look(float(np.mean(values)), max(float(np.std(values)), least))


def _constant(items: Features) -> float:
    return float((items == items[:1]).all(axis=0).mean())


def _drift(
    items: Features,
    mean: Float[np.ndarray, " features"],
    spread: Float[np.ndarray, " features"],
) -> float:
    """Mean distance from the mean, in deviations; features that never vary are left out."""
    varies = spread > 0
    return float(np.abs((items - mean)[:, varies] / spread[varies]).mean())


def _correlation(items: Features) -> float:
    """Over all pairs of features that vary in this list; 0 where there is no pair."""
    varying = items[:, (items != items[:1]).any(axis=0)]
    count = varying.shape[1]
    if count < 2:
        return 0.0
    found = np.abs(np.corrcoef(varying, rowvar=False))
    return float((found.sum() - count) / (count * (count - 1)))
