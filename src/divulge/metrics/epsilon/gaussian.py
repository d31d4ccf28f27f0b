"""Estimate ε from how far apart the scores of members and non-members are: no bound."""

import math

from scipy import special

from divulge.core import Estimate
from divulge.errors import SpecError
from divulge.metrics.epsilon.curves import gaussian_epsilon
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.membership import Member, Score, split_by_membership

_MOST = 100.0
"""The largest distance that is told apart, in standard deviations."""


def gaussian_estimate(score: Score, member: Member, delta: float) -> Estimate:
    """The ε at this δ of two normal distributions of one deviation, fitted to the scores.

    It is near the truth where scores are normal and members' are shifted alike, as those of
    directions behind Gaussian noise are. It is no bound: half of all estimates exceed the true ε,
    and where scores are not normal it can be far off.

    Args:
        score: one score a record; higher means more likely a member.
        member: true for members; two of each group at least.
        delta: the δ, above 0 and below 1.

    Returns:
        The estimate, 0 where members' scores are no higher, with a 95 % interval that supposes
        normal scores.

    Raises:
        SpecError: delta is out of its range, or a group has fewer than two.

    References:
        Andrew et al. (2024), One-shot empirical privacy estimation for federated learning, section
        3. They fit a deviation to members alone, beside N(0, 1/d) for the others; at a small δ the
        error of two deviations exaggerates ε with some hundred canaries, so both have one here.
        Hedges and Olkin (1985), Statistical methods for meta-analysis, equation 5.14 (the error of
        a difference in deviations).

    Examples:
        >>> import numpy as np
        >>> member = np.arange(2000) % 2 == 0
        >>> score = np.random.default_rng(0).normal(size=2000) + 0.925 * member
        >>> round(gaussian_estimate(score, member, 1e-5).value)
        4
    """
    inside, outside = split_by_membership(score, member)
    if not 0 < delta < 1 or min(len(inside), len(outside)) < 2:
        raise SpecError(
            f"expected delta above 0 and below 1 and two scores of each group, got {delta} and "
            f"groups of {len(inside)} and {len(outside)}: add canaries"
        )
    spread = inside.var(ddof=1) * (len(inside) - 1) + outside.var(ddof=1) * (len(outside) - 1)
    # departure: one deviation for both groups, pooled
    width = math.sqrt(spread / (len(score) - 2))
    apart = float(inside.mean() - outside.mean())
    mu = min(_MOST, apart / width) if width > 0 else math.copysign(_MOST, apart) * (apart != 0)
    # Hedges and Olkin, eq. 5.14
    error = math.sqrt(1 / len(inside) + 1 / len(outside) + mu * mu / (2 * len(score)))
    error *= float(special.ndtri((1 + CONFIDENCE) / 2))
    value, low, high = (
        gaussian_epsilon(max(0.0, shift), delta) for shift in (mu, mu - error, mu + error)
    )
    return Estimate(value, low, high)
