"""Local differential privacy: each client clips its update and adds noise before it sends it."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float

from divulge.core import ClientContext, Guarantee, Update, UpdateDefence
from divulge.defences import gaussian, vectors
from divulge.errors import SpecError, did_you_mean

Mechanism = Literal["analytic-gaussian", "gaussian", "laplace"]


@dataclass(frozen=True, slots=True)
class LocalNoise(UpdateDefence):
    """Clip the whole update to a norm, then add noise to each entry.

    Two data sets of a client are neighbours whenever they are not the same: all of its records
    may be replaced. Two updates of norm ``clip`` are at most ``2 * clip`` apart, and that is the
    sensitivity which the noise is made for. (A paper that writes "sensitivity S" for two clipped
    updates means ``clip=S / 2``; one that takes the sensitivity as ``clip`` promises half as much.)

    Args:
        epsilon: of one message, above 0.
        delta: of one message; 0 for ``laplace``, which promises ε alone.
        clip: the largest L2 norm of an update (L1 for ``laplace``), in the units of the weights.
        mechanism: ``analytic-gaussian`` has just as much noise as (ε, δ) takes, for every ε;
            ``gaussian`` is the classic formula, with more noise and for ε up to 1;
            ``laplace`` promises (ε, 0).

    Raises:
        SpecError: a setting makes no sense, or the mechanism cannot promise this ε or δ.

    References:
        Balle and Wang (2018), Improving the Gaussian mechanism for differential privacy, theorem 8;
        Dwork and Roth (2014), The algorithmic foundations of differential privacy, definition 3.3
        and theorem A.1.
    """

    epsilon: float
    delta: float
    clip: float
    mechanism: Mechanism = "analytic-gaussian"

    name: ClassVar[str] = "local-noise"
    paper: ClassVar[str] = "Balle and Wang 2018; Dwork and Roth 2014"

    def __post_init__(self) -> None:
        known = get_args(Mechanism)
        if self.mechanism not in known:
            hint = did_you_mean(self.mechanism, known)
            raise SpecError(f"expected a known mechanism, got {self.mechanism!r}: {hint}")
        for name in ("epsilon", "clip"):
            if not 0 < getattr(self, name) < math.inf:
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
        """Of the noise: the standard deviation of a Gaussian, b of a Laplace distribution."""
        if self.mechanism == "laplace":
            return self.sensitivity / self.epsilon  # Dwork and Roth, definition 3.3
        if self.mechanism == "gaussian":  # Dwork and Roth, theorem A.1
            return self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
        return self.sensitivity / gaussian.mu_of(self.epsilon, self.delta)

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """The clipped and noisy update.

        Raises:
            DataError: the update is empty, not of floating point, or not finite, or its type
                cannot hold the noise.
        """
        clipped = self.clipped(vectors.flatten(update))
        draw = context.rng.laplace if self.mechanism == "laplace" else context.rng.normal
        return vectors.cut_like(clipped + draw(0.0, self.scale, clipped.size), update)

    def clipped(self, vector: Float[np.ndarray, " entries"]) -> Float[np.ndarray, " entries"]:
        """The vector, shrunk to the norm ``clip`` where it is longer; never made longer."""
        largest = float(np.abs(vector).max())
        if largest == 0:
            return vector
        unit = vector / largest  # so that no square overflows
        norm = float(np.linalg.norm(unit, ord=1 if self.mechanism == "laplace" else 2))
        longer = largest > self.clip / norm
        return unit * (self.clip / norm) if longer else vector

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
        mu = self.sensitivity / self.scale * math.sqrt(rounds)
        spent = gaussian.epsilon_of(mu, self.delta)
        return Guarantee(max(self.epsilon, spent), self.delta, what)
