"""Trade-off curves say how improbable private training may make an event by changing one record.

A training is f-private for one record if no event is more probable with the record than
1 - f(x), where x is its probability without the record, and the same the other way round. This
module has the inverse: the least probability that an event has, if its probability after one
record was changed is y. Dong, Roth and Su (2019), Gaussian differential privacy, sections 2.1-2.3.
"""

import math
from collections.abc import Callable

from scipy import optimize, special

TradeOffCurve = Callable[[float], float]
"""Function from the probability of an event to the least probability that it can have once one
record is changed; rising and convex."""


def approximate_dp_curve(epsilon: float, delta: float) -> TradeOffCurve:
    """The curve of (ε, δ)-differential privacy.

    Examples:
        >>> round(approximate_dp_curve(math.log(3), 0.0)(0.3), 6)
        0.1
    """
    shrink, grow = math.exp(-epsilon), math.exp(epsilon)
    # Dong, Roth and Su's f for (ε, δ), solved for the least probability
    return lambda y: max(0.0, shrink * (y - delta), 1 - delta - grow * (1 - y))


def gaussian_dp_curve(mu: float) -> TradeOffCurve:
    """The curve of μ-Gaussian differential privacy: one noise, means μ standard deviations apart.

    Examples:
        >>> gaussian_dp_curve(1.0)(0.5)
        0.158655...
    """
    # their G_μ, solved in the same way
    return lambda y: float(special.ndtr(special.ndtri(y) - mu))


def add_slack(curve: TradeOffCurve, slack: float) -> TradeOffCurve:
    """The curve where the two ways a coin can fall are not alike, but within a factor e^slack."""
    shrink = math.exp(-slack)
    return (lambda y: shrink * curve(y)) if slack else curve


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The δ at which μ-Gaussian differential privacy has this ε.

    References:
        Dong, Roth and Su (2019), corollary 2.13.
    """
    if mu == 0:
        return 0.0
    # in logarithms: e^ε overflows where its factor underflows
    tail = math.exp(epsilon + float(special.log_ndtr(-epsilon / mu - mu / 2)))
    return float(special.ndtr(-epsilon / mu + mu / 2)) - tail


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The ε of μ-Gaussian differential privacy at this δ, above 0.

    Examples:
        >>> gaussian_epsilon(0.9249308976669367, 1e-5)
        4.0000...
    """
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * (1 - float(special.ndtri(delta)))  # the privacy loss is N(μ²/2, μ²)
    root: float = optimize.brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, most)
    return root
