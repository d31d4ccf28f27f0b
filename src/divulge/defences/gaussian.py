"""What Gaussian noise is worth in (ε, δ), exactly: Balle and Wang (2018)."""

import math
from collections.abc import Callable

from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

SMALLEST = -750.0
"""Stands for the logarithm of zero: below that of any float64, yet a number."""


def log_delta(epsilon: float, mu: float) -> float:
    """Natural logarithm of the smallest δ at this ε.

    Theorem 8 has δ = Φ(a) - e^ε Φ(b) with a = μ/2 - ε/μ and b = -μ/2 - ε/μ. Since
    e^ε φ(b) = φ(a), both terms are multiples of φ(a), so that e^ε is never computed and two small
    numbers that nearly cancel are never subtracted.

    Args:
        epsilon: from 0.
        mu: sensitivity over standard deviation of the noise, above 0.

    Examples:
        >>> round(math.exp(log_delta(1.0, 1.0)), 6)
        0.126937
    """
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    beyond = float(erfcx(-b / math.sqrt(2)))
    if a > 0:  # erfcx(-a) would overflow; nothing nearly cancels
        return _log(float(ndtr(a)) - math.exp(-a * a / 2) / 2 * beyond)
    return _log(float(erfcx(-a / math.sqrt(2))) - beyond) - a * a / 2 - math.log(2)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else SMALLEST


def mu_of(epsilon: float, delta: float) -> float:
    """The largest sensitivity over standard deviation that is (ε, δ)-private.

    Examples:
        >>> round(1 / mu_of(1.0, 1e-5), 4)
        3.7306
    """
    start = 0.5 * math.log(2 * epsilon)  # where a = 0 in Theorem 8
    root = _root(lambda log_mu: log_delta(epsilon, math.exp(log_mu)) - math.log(delta), start)
    return math.exp(root)


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε at which noise of this worth is (ε, δ)-private; 0 if any is.

    Examples:
        >>> round(epsilon_of(1 / 3.7306, 1e-5), 3)
        1.0
    """
    if log_delta(0.0, mu) <= math.log(delta):
        return 0.0
    start = math.log(mu * mu / 2)
    root = _root(lambda log_eps: math.log(delta) - log_delta(math.exp(log_eps), mu), start)
    return math.exp(root)


def _root(rising: Callable[[float], float], start: float) -> float:
    """Where a rising function is zero, approached to some 12 digits."""
    low = high = start
    step = 1.0
    while rising(low) > 0:
        low, step = low - step, step * 2
    step = 1.0
    while rising(high) < 0:
        high, step = high + step, step * 2
    return float(brentq(rising, low, high, xtol=1e-13)) if low < high else low
