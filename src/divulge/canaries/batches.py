"""Were batches drawn as the accountant was told, and divided by a number that was chosen?"""

from dataclasses import dataclass

import numpy as np

from divulge._util.extras import stats
from divulge.data.sampling import SeenBatches

LEVEL = 0.0005
"""The probability of each of two tests to accuse a training whose batches are drawn as stated."""


@dataclass(frozen=True, slots=True)
class BatchCheck:
    """What sizes and divisors of batches say."""

    steps: int
    stated_steps: int
    mean: float
    """The mean size of a batch."""
    stated_mean: float
    deviation: float
    """The standard deviation of the size of one batch that is drawn as stated."""
    p_mean: float
    """How probable a mean so far from the stated one is, if batches are drawn as stated."""
    pairs: int
    """Number of pairs of neighbouring batches, each batch in one of them."""
    alike: int
    """Number of these pairs whose batches have one size."""
    p_alike: float
    """How probable so many are, if batches are drawn as stated."""
    divisors: tuple[float, float] | None = None
    """The smallest and the largest number that sums of gradients were divided by; None where the
    optimiser does not say it."""
    stated_divisor: float | None = None
    """The number that was chosen for that; None where the number of records is public."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What was not done as stated; empty where nothing shows it."""
        faults = []
        if self.steps > self.stated_steps:
            faults.append(f"{self.steps:,} steps, where {self.stated_steps:,} are stated")
        if self.p_mean < LEVEL:
            faults.append(
                f"{self.mean:.1f} records a batch, where {self.stated_mean:.1f} ± "
                f"{self.deviation / self.steps**0.5:.1f} are expected of {self.steps:,}"
            )
        if self.p_alike < LEVEL:
            faults.append(
                f"{self.alike} of {self.pairs} pairs of batches have one size, where sizes drawn "
                f"record by record have a standard deviation of {self.deviation:.1f}"
            )
        if self.divisors is not None:
            faults += self._divisor_faults(*self.divisors)
        return tuple(faults)

    def _divisor_faults(self, low: float, high: float) -> list[str]:
        if low != high:
            return [
                f"gradients are divided by {low:g} to {high:g}, where one number is expected for "
                "all steps: it must not depend on the records"
            ]
        if self.stated_divisor in (None, low):
            return []
        why = (
            "; that is the number of records times the rate, rounded down, so one record more or "
            "less can change it, and the noise with it: set the optimiser's expected_batch_size"
            if self._follows
            else ""
        )
        return [f"gradients are divided by {low:g}, where {self.stated_divisor:g} is stated{why}"]

    @property
    def _follows(self) -> bool:
        """Whether the divisor is what Opacus makes of the number of records."""
        return self.divisors is not None and self.divisors[0] == int(self.stated_mean + 1e-6)

    @property
    def note(self) -> str:
        """What has to be public for the statement to be true; empty where that is not known."""
        if self.divisors is None or self.stated_divisor is not None or not self._follows:
            return ""
        return (
            f"Gradients are divided by {self.divisors[0]:g}, the number of records times the rate, "
            "rounded down: that number has to be public. Where it is secret, choose a divisor "
            "without it, and state it"
        )


def check_batches(batches: SeenBatches) -> BatchCheck:
    """Compare batches with Poisson sampling as the accountant was told.

    If each of n records is in a batch by a coin of its own with probability q, sizes are
    independent and binomial. Then the sum of T sizes is binomial with n T trials. And two batches
    have one size with a probability c that n and q give, so the number of such pairs among T / 2
    disjoint ones is binomial with c. Shuffled batches are all of one size.

    Args:
        batches: the sizes, and what the accountant was told.
    """
    stated, sizes = batches.stated, batches.sizes
    steps, total = len(sizes), int(sizes.sum())
    summed = stats.binom(stated.records * steps, stated.rate)
    p_mean = 2 * min(float(summed.cdf(total)), float(summed.sf(total - 1)), 0.5)
    pairs = steps // 2
    alike = int((sizes[0 : 2 * pairs : 2] == sizes[1 : 2 * pairs : 2]).sum())
    return BatchCheck(
        steps,
        stated.steps,
        total / steps,
        stated.records * stated.rate,
        float(stats.binom(stated.records, stated.rate).std()),
        p_mean,
        pairs,
        alike,
        float(stats.binom(pairs, _probability_alike(stated.records, stated.rate)).sf(alike - 1)),
        batches.divisors,
        stated.divisor,
    )


def _probability_alike(records: int, rate: float) -> float:
    """The probability that two batches have one size."""
    size = stats.binom(records, rate)
    low, high = size.ppf([1e-12, 1 - 1e-12]).astype(int)  # all but nothing of it
    return min(1.0, float((size.pmf(np.arange(low, high + 1)) ** 2).sum()))
