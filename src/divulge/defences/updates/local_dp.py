"""Defend by local differential privacy: each client clips its update and adds noise to it.

What Gaussian noise is worth in (ε, δ) is computed exactly (Balle and Wang 2018).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from divulge._util.arguments import check_arguments
from divulge._util.norms import clip_to_norm
from divulge.core import ClientContext, Guarantee, Range, SearchSpace, Update, UpdateDefence
from divulge.defences.updates import vectors
from divulge.errors import SpecError

LOG_OF_ZERO = -750.0
"""Stands for the logarithm of zero: below that of any float64, yet a number."""


def log_delta(epsilon: float, mu: float) -> float:
    """Natural logarithm of the smallest δ at this ε.

    Theorem 8 has δ = Φ(a) - e^ε Φ(b) with a = μ/2 - ε/μ and b = -μ/2 - ε/μ. Since
    e^ε φ(b) = φ(a), both terms are multiples of φ(a), so that e^ε is never computed and two small
    numbers that nearly cancel are never subtracted.

    Args:
        epsilon: the ε, from 0.
        mu: the sensitivity over the standard deviation of the noise, above 0.

    Examples:
        >>> round(math.exp(log_delta(1.0, 1.0)), 6)
        0.126937
    """
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    # erfcx scales the tail of Φ: neither e^ε nor a vanishing Φ(b) is computed
    beyond = float(erfcx(-b / math.sqrt(2)))
    if a > 0:  # erfcx(-a) would overflow; nothing nearly cancels
        return _log_or_floor(float(ndtr(a)) - math.exp(-a * a / 2) / 2 * beyond)
    return _log_or_floor(float(erfcx(-a / math.sqrt(2))) - beyond) - a * a / 2 - math.log(2)


def _log_or_floor(x: float) -> float:
    return math.log(x) if x > 0 else LOG_OF_ZERO


def gaussian_mechanism_mu(epsilon: float, delta: float) -> float:
    """The largest sensitivity over standard deviation that is (ε, δ)-private.

    Examples:
        >>> round(1 / gaussian_mechanism_mu(1.0, 1e-5), 4)
        3.7306
    """
    start = 0.5 * math.log(2 * epsilon)  # where a = 0 in Theorem 8
    root = _find_root(lambda log_mu: log_delta(epsilon, math.exp(log_mu)) - math.log(delta), start)
    return math.exp(root)


def gaussian_mechanism_epsilon(mu: float, delta: float) -> float:
    """The smallest ε at which noise of this worth is (ε, δ)-private; 0 if any is.

    Examples:
        >>> round(gaussian_mechanism_epsilon(1 / 3.7306, 1e-5), 3)
        1.0
    """
    if log_delta(0.0, mu) <= math.log(delta):
        return 0.0
    start = math.log(mu * mu / 2)
    root = _find_root(lambda log_eps: math.log(delta) - log_delta(math.exp(log_eps), mu), start)
    return math.exp(root)


def _find_root(rising: Callable[[float], float], start: float) -> float:
    """Where a rising function is zero, approached to some 12 digits."""
    low = high = start
    step = 1.0
    while rising(low) > 0:
        low, step = low - step, step * 2
    step = 1.0
    while rising(high) < 0:
        high, step = high + step, step * 2
    return float(brentq(rising, low, high, xtol=1e-13)) if low < high else low


Mechanism = Literal["analytic-gaussian", "gaussian", "laplace"]


@check_arguments
@dataclass(frozen=True, slots=True)
class LocalNoise(UpdateDefence):
    """Clip the whole update to a norm, then add noise to each entry, on the client.

    Neighbours differ in everything: all records of a client may be replaced. Two updates of norm
    ``clip`` are at most 2 ``clip`` apart, which is the sensitivity. (A paper with "sensitivity S"
    for two clipped updates means ``clip = S / 2``; one that takes the sensitivity as ``clip``
    promises half as much.) An update that is not finite counts as zeros: a refusal would reveal
    something.

    Args:
        epsilon: the ε of one message, above 0.
        delta: the δ of one message; 0 for ``laplace``, which promises ε alone.
        clip: the largest L2 norm of an update (L1 for ``laplace``), in the units of the weights.
        mechanism: ``analytic-gaussian`` has the least noise that (ε, δ) needs, for every ε;
            ``gaussian`` is the classic formula, with more noise and for ε up to 1; ``laplace``
            promises (ε, 0).

    References:
        Balle and Wang (2018), Improving the Gaussian mechanism for differential privacy, theorem 8;
        Dwork and Roth (2014), The algorithmic foundations of differential privacy, definition 3.3
        and theorem A.1.

    Raises:
        SpecError: a setting makes no sense, or the mechanism cannot promise this ε or δ.
    """

    epsilon: float
    delta: float
    clip: float
    mechanism: Mechanism = "analytic-gaussian"

    name: ClassVar[str] = "local-noise"
    paper: ClassVar[str] = "Balle and Wang 2018; Dwork and Roth 2014"
    search: ClassVar[SearchSpace] = {
        "epsilon": Range(10.0, 1e6, log=True),
        "delta": (1e-5,),
        "clip": Range(0.1, 10.0, log=True),
    }

    def __post_init__(self) -> None:
        for name in ("epsilon", "clip"):
            if getattr(self, name) <= 0:
                raise SpecError(
                    f"expected {name} above 0, got {getattr(self, name)}: change the noise"
                )
        laplace = self.mechanism == "laplace"
        if not (self.delta == 0 if laplace else 0 < self.delta < 1):
            wanted = "0" if laplace else "above 0 and below 1"
            raise SpecError(
                f"expected delta {wanted} for {self.mechanism}, got {self.delta}: "
                "it promises (epsilon, 0) with Laplace noise, and never that with Gaussian noise"
            )
        if self.mechanism == "gaussian" and self.epsilon > 1:
            raise SpecError(
                f"expected epsilon up to 1 for the classic Gaussian formula, got {self.epsilon}: "
                'its proof does not hold above; use mechanism="analytic-gaussian"'
            )

    @property
    def sensitivity(self) -> float:
        """How far two clipped updates can be apart, in the norm that they are clipped to."""
        return 2 * self.clip

    @property
    def scale(self) -> float:
        """The scale of the noise: standard deviation of a Gaussian, b of a Laplace distribution."""
        if self.mechanism == "laplace":
            return self.sensitivity / self.epsilon  # Dwork and Roth, definition 3.3
        if self.mechanism == "gaussian":  # Dwork and Roth, theorem A.1
            return self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
        return self.sensitivity / gaussian_mechanism_mu(self.epsilon, self.delta)

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """The clipped and noisy update; noise alone where the update is not finite.

        Raises:
            DataError: the update is empty or not of floating point, or its type cannot hold the
                noise.
        """
        clipped = self.clip_to_norm(vectors.flatten_update(update, finite=False))
        laplace, noise = self.mechanism == "laplace", context.noise
        noisy = (noise.add_laplace if laplace else noise.add_normal)(clipped, self.scale)
        return vectors.split_like(noisy, update)

    def clip_to_norm(self, vector: Float[np.ndarray, " entries"]) -> Float[np.ndarray, " entries"]:
        """The vector, shrunk to the norm ``clip`` where it is longer; zeros if it is not finite."""
        return clip_to_norm(vector, self.clip, order=1 if self.mechanism == "laplace" else 2)

    def guarantee(self, rounds: int = 1) -> Guarantee:
        """What a client is promised that sends in so many rounds, each time with fresh noise.

        Gaussian noise composes exactly, to noise that is smaller by the root of the rounds (Dong,
        Roth and Su 2022, corollary 3.3); the ε of Laplace noise adds up.

        Raises:
            SpecError: there is no round.
        """
        if rounds < 1:
            raise SpecError(f"expected one round or more, got {rounds}: count what was sent")
        what = f"local {self.mechanism} noise of scale {self.scale:.6g}, clip {self.clip:g}, "
        what += f"all data of a client replaced, {rounds} round{'s' if rounds > 1 else ''}"
        if self.mechanism == "laplace":
            return Guarantee(self.epsilon * rounds, 0.0, what)
        if rounds == 1:
            return Guarantee(self.epsilon, self.delta, what)
        # Dong, Roth and Su, corollary 3.3: μ adds up in squares
        mu = self.sensitivity / self.scale * math.sqrt(rounds)
        spent = gaussian_mechanism_epsilon(mu, self.delta)
        return Guarantee(max(self.epsilon, spent), self.delta, what)

    def noise_deviation(self, clients: int) -> float | None:
        """Of the mean of what all clients send, each with noise of its own."""
        return None if self.mechanism == "laplace" else self.scale / math.sqrt(clients)
