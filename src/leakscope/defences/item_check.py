"""A client's look at the items that it was handed: do they seem shaped by the server?"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leakscope.core import Estimate
from leakscope.errors import DataError
from leakscope.metrics.intervals import clopper_pearson

Features = Float[np.ndarray, "_ features"]
"""Of a list of items; lists are of any length."""


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """What honest items look like, and how unlike them others may be before they are refused.

    Two things are looked at: the share of features that are 0 for all items or the same for
    all, as fingerprints are; and how far features are from honest means, in honest deviations:
    injected noise lies nearer or farther than they do. Each is compared with honest lists.

    Args:
        constant: highest share of constant features in honest lists that passes.
        drift: highest mean distance from the honest means that passes, in deviations.
        low: the lowest one.
        mean: of each feature, over honest items.
        spread: its standard deviation.
    """

    constant: float
    drift: float
    low: float
    mean: Float[np.ndarray, " features"]
    spread: Float[np.ndarray, " features"]

    def __call__(self, items: Features) -> tuple[str, ...]:
        """What is odd about a list of items, in words; nothing where it passes.

        Raises:
            DataError: the number of features is another.
        """
        if items.shape[1] != len(self.mean):
            raise DataError(
                f"expected items of {len(self.mean)} features, got {items.shape[1]}: learn the "
                "check anew"
            )
        constant, drift = _constant(items), _drift(items, self.mean, self.spread)
        odd = []
        if constant > self.constant:
            odd.append(f"{constant:.0%} of features are constant, honest lists have less")
        if not self.low <= drift <= self.drift:
            odd.append(f"features are {drift:.3g} deviations off, honest lists are not")
        return tuple(odd)


def learn(lists: list[Features], alarm: float = 0.05) -> ItemCheck:
    """What passes, from honest lists of items.

    Args:
        lists: items as they were handed out, each list at once.
        alarm: share of honest lists that may be called odd, over all looks together.

    Raises:
        DataError: there are fewer than 20 lists.
    """
    if len(lists) < 20:
        raise DataError(f"expected 20 honest lists or more, got {len(lists)}: collect more")
    every = np.concatenate(lists)
    mean, spread = every.mean(axis=0), every.std(axis=0)
    constant = [_constant(one) for one in lists]
    drift = [_drift(one, mean, spread) for one in lists]
    tail = alarm / 3  # one limit of constant features, two of drift
    low, high = np.quantile(drift, [tail, 1 - tail])
    return ItemCheck(float(np.quantile(constant, 1 - tail)), float(high), float(low), mean, spread)


def false_alarms(check: ItemCheck, lists: list[Features]) -> Estimate:
    """The share of honest lists that are called odd; give others than it was learnt from.

    Raises:
        DataError: there is no list.
    """
    if not lists:
        raise DataError("expected honest lists, got none: keep some back")
    alarms = sum(bool(check(one)) for one in lists)
    low, high = clopper_pearson(alarms, len(lists))
    return Estimate(alarms / len(lists), low, high)


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
