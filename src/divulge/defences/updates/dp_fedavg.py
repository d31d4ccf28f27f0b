"""Defend by noise on the mean of clipped updates: DP-FedAvg, by the server or by all clients."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from divulge._util.arguments import check_arguments
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
from divulge.defences.updates.local_dp import clip_to_norm, gaussian_mechanism_epsilon
from divulge.errors import SpecError

NoiseBy = Literal["server", "clients"]


@check_arguments
@dataclass(frozen=True, slots=True)
class DPFedAvg(UpdateDefence):
    """Clip each update, average all with equal weights, and add Gaussian noise to the mean.

    Two rounds are neighbours when one client sends zeros in one of them; how many clients take
    part is public. The sum of the updates then moves by ``clip`` at most.

    ``noise_by="server"`` (central): a trusted server adds the noise, and releases the noisy mean
    alone. ``noise_by="clients"`` (distributed): each of n clients adds noise that is smaller by the
    root of n, and the promise holds for their sum: put ``secure-sum`` behind it, since each update
    by itself has little noise. It holds if all clients add their part.

    Args:
        noise_multiplier: standard deviation of the noise on the sum, in units of ``clip``, above 0.
        clip: the largest L2 norm of an update, in the units of the weights, above 0.
        delta: the δ of the promise, above 0 and below 1.
        noise_by: who adds the noise.

    Raises:
        SpecError: a setting makes no sense.

    References:
        McMahan et al. (2018), Learning differentially private recurrent language models; Kairouz,
        Liu and Steinke (2021), The distributed discrete Gaussian mechanism for federated learning
        (its noise is discrete; here it is rounded afterwards).
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
            if not 0 < getattr(self, name) < math.inf:
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
            DataError: the update is empty, not of floating point, or not finite, or its type
                cannot hold the noise.
        """
        clipped = clip_to_norm(vectors.flatten_update(update), self.clip)
        if self.noise_by == "clients":
            part = self.noise_multiplier * self.clip / math.sqrt(len(context.round.participants))
            clipped = context.noise.add_normal(clipped, part)
        return vectors.split_like(clipped, update)

    def on_server(self, view: ServerView, context: RoundContext) -> ServerView:
        """The mean, with the noise where the server adds it.

        Raises:
            SpecError: the server is to add noise, and has no source of it.
        """
        if self.noise_by == "clients":
            return view
        if context.noise is None:
            raise SpecError(
                "expected a source of noise for the server, got none: give RoundContext(noise=...)"
            )
        count = len(context.participants)
        if isinstance(view, UpdateSum):
            mean = {name: np.asarray(value, np.float64) for name, value in view.total.items()}
        else:
            mean = {
                name: np.mean([sent[name] for sent in view.by_client.values()], 0, np.float64)
                for name in context.shapes
            }
        vector = np.concatenate([mean[name].ravel() for name in sorted(mean)])
        noisy = context.noise.add_normal(vector, self.noise_multiplier * self.clip / count)
        shapes = {name: value.shape for name, value in mean.items()}
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
        mu = math.sqrt(rounds) / self.noise_multiplier
        least = gaussian_mechanism_epsilon(mu, self.delta)
        return Guarantee(max(least, 1e-12), self.delta, what, "gaussian")

    def noise_deviation(self, clients: int) -> float:
        """The same whether the server adds the noise or all clients do."""
        return self.noise_multiplier * self.clip / clients
