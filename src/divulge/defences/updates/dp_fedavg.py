"""Defend by noise on the mean of clipped updates: DP-FedAvg, by the server or by all clients."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from divulge._util.arguments import check_arguments
from divulge._util.norms import clip_to_norm
from divulge.core import (
    ClientContext,
    Guarantee,
    Range,
    RoundContext,
    SearchSpace,
    ServerView,
    Update,
    UpdateDefence,
    UpdateSum,
)
from divulge.defences.updates import vectors
from divulge.defences.updates.local_dp import gaussian_mechanism_epsilon
from divulge.errors import SpecError

NoiseBy = Literal["server", "clients"]

FARTHEST = 10.0
"""No normal number is so many standard deviations away: one of 6e22 is."""

FINEST = 4.0
"""Steps of a grid within a standard deviation of noise that is rounded to it. The error of rounding
then depends on what is rounded by e^(-2 π² 16), some 1e-137: the sum of rounded numbers is the sum
of Gaussian ones and of noise that says nothing."""


@check_arguments
@dataclass(frozen=True, slots=True)
class DPFedAvg(UpdateDefence):
    """Clip each update, average all with equal weights, and add Gaussian noise to the mean.

    Neighbours: one client sends zeros in place of its updates; how many clients take part is
    public. An update that is not finite, or does not arrive, counts as zeros, and nobody learns of
    it. ``noise_by="server"`` (central): a trusted server adds the noise, and releases the noisy
    mean alone. ``noise_by="clients"`` (distributed): each of n clients adds noise that is smaller
    by √n. The promise holds for their sum, if all add their part: combine it with ``secure-sum``.

    Args:
        noise_multiplier: standard deviation of the noise on the sum, in units of ``clip``, above 0.
        clip: the largest L2 norm of an update, in the units of the weights, above 0.
        delta: the δ of the promise, above 0 and below 1.
        noise_by: who adds the noise.

    References:
        McMahan et al. (2018), Learning differentially private recurrent language models; Kairouz,
        Liu and Steinke (2021), The distributed discrete Gaussian mechanism for federated learning.
        Departure: the noise is Gaussian and is rounded by the secure sum, not drawn discrete.

    Raises:
        SpecError: a setting makes no sense.
    """

    noise_multiplier: float
    clip: float
    delta: float
    noise_by: NoiseBy = "server"

    name: ClassVar[str] = "dp-fedavg"
    paper: ClassVar[str] = "McMahan et al. 2018; Kairouz et al. 2021"
    search: ClassVar[SearchSpace] = {
        "noise_multiplier": Range(0.001, 2.0, log=True),
        "clip": Range(0.1, 10.0, log=True),
        "delta": (1e-5,),
        "noise_by": ("clients",),
    }

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "clip"):
            if getattr(self, name) <= 0:
                raise SpecError(
                    f"expected {name} above 0, got {getattr(self, name)}: change the noise"
                )
        if not 0 < self.delta < 1:
            raise SpecError(
                f"expected delta above 0 and below 1, got {self.delta}: Gaussian noise has an "
                "epsilon only for a delta, such as 1e-5"
            )

    @property
    def weighs_equally(self) -> bool:
        """Each client counts the same, whatever its number of records."""
        return True

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """The clipped update, with this client's part of the noise where clients add it.

        Raises:
            DataError: the update is empty or not of floating point.
            SpecError: its type is too narrow, or too coarse, for the noise.
        """
        clipped = clip_to_norm(vectors.flatten_update(update, finite=False), self.clip)
        if self.noise_by == "server":
            return vectors.shrink_like(clipped, update)
        count = len(context.round.participants)
        for dtype in {value.dtype for value in update.values() if value.size}:
            about = np.finfo(dtype)
            step = float(about.eps) * self.reach(count)
            self.check_numbers(count, float(about.max), step, f"numbers of {dtype}")
        return vectors.split_like(context.noise.add_normal(clipped, self.part(count)), update)

    def part(self, count: int) -> float:
        """Standard deviation of the noise that each of so many clients adds; 0 by the server."""
        if self.noise_by == "server":
            return 0.0
        # variances add up over clients, so each adds its share of the promised one
        return self.noise_multiplier * self.clip / math.sqrt(count)

    def reach(self, count: int) -> float:
        """The largest magnitude of an entry that one of so many clients sends."""
        return self.clip + FARTHEST * self.part(count)

    def check_numbers(self, count: int, largest: float, step: float, what: str) -> None:
        """Refuse numbers in which clients cannot send what is promised.

        What is refused follows from settings alone. A client that refused its own update, or noise
        that is rounded away, would break the promise.

        Args:
            count: how many clients take part.
            largest: the largest number that they can send.
            step: the distance of neighbouring numbers.
            what: what they send, for the message.

        Raises:
            SpecError: noise and clipped updates do not fit, or the noise is too fine.
        """
        part = self.part(count)
        if self.reach(count) > largest or 0 < part < FINEST * step:
            raise SpecError(
                f"expected {what} up to {self.reach(count):.4g}, and in steps of a quarter of the "
                f"noise of one client of {count}, {part:.4g}, got up to {largest:.4g} in steps of "
                f"{step:.2g}: change clip and noise_multiplier, or send wider numbers"
            )

    def on_server(self, view: ServerView, context: RoundContext) -> ServerView:
        """The mean over all who take part, with the noise where the server adds it.

        Updates that the server sees are clipped once more, and one that is missing counts as zeros.

        Raises:
            SpecError: the server is to add noise, and has no source of it.
        """
        if self.noise_by == "clients":
            return view
        if context.noise is None:
            raise SpecError(
                "expected a source of noise for the server, got none: give RoundContext(noise=...)"
            )
        count, shapes = len(context.participants), context.shapes
        if isinstance(view, UpdateSum):
            vector = np.concatenate([
                np.asarray(view.total[name], np.float64).ravel() for name in sorted(view.total)
            ])  # fmt: skip
        else:
            vector = np.zeros(sum(math.prod(shape) for shape in shapes.values()))
            for sent in view.by_client.values():  # clipped again: a client may be broken
                clipped = clip_to_norm(vectors.flatten_update(sent, finite=False), self.clip)
                vector += clipped / count
        # of the mean, not of the sum: one client moves it by clip / count
        noisy = context.noise.add_normal(vector, self.noise_multiplier * self.clip / count)
        return UpdateSum(context.participants, vectors.split_vector(noisy, shapes))

    def guarantee(self, rounds: int = 1) -> Guarantee:
        """What a client is promised that takes part in so many rounds.

        Gaussian noise composes exactly (Dong, Roth and Su 2022, corollary 3.3). Rounds that a
        client sits out cost nothing; that they were drawn at random is not counted.

        Raises:
            SpecError: there is no round.
        """
        if rounds < 1:
            raise SpecError(f"expected one round or more, got {rounds}: count what was sent")
        what = f"noise {self.noise_multiplier:g} times clip {self.clip:g} on the sum, by "
        what += f"{'the server' if self.noise_by == 'server' else 'all clients'}, one client "
        what += f"sends zeros, {rounds} round{'s' if rounds > 1 else ''}"
        # corollary 3.3: Gaussian noise composes exactly, μ in squares
        mu = math.sqrt(rounds) / self.noise_multiplier
        least = gaussian_mechanism_epsilon(mu, self.delta)
        return Guarantee(max(least, 1e-12), self.delta, what, "gaussian")

    def noise_deviation(self, clients: int) -> float:
        """The same whether the server adds the noise or all clients do."""
        return self.noise_multiplier * self.clip / clients
