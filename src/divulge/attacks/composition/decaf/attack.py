"""Decaf infers from a client's updates which classes it lacks, and the shares of the others."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge.attacks.composition.decaf.published import (
    AttackedRounds,
    PublishedStep,
    Solver,
    infer_by_biases,
    infer_by_paper,
)
from divulge.attacks.composition.decaf.simulation import ShadowClientSimulation
from divulge.attacks.shared.observed_round import first_rounds
from divulge.core import Need, Proportions, UpdateView
from divulge.errors import SpecError
from divulge.training.cluster import cluster_by_name

DecafLevel = Literal["auto", "bias", "virtual", "refined"]

_REFINEMENTS = 5
"""Number of times that the refined level adds half as many virtual clients near its guesses."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Decaf:
    """What share of each class a client holds, and of which it has none, from its updates.

    Three levels beyond the published method. ``bias`` solves the balance of the output biases with
    the model's answers before and after the local training: no training, plain SGD alone.
    ``virtual`` trains invented clients with known mixes as the victims train, in the same rounds,
    and learns from them to read an update; ``refined`` adds more of them near its guesses. They
    are the same for all victims of a federation. Rounds count by how well they tell virtual
    clients apart, or by how well the balance holds.

    Args:
        faithful: the published method, whatever the level.
        level: ``auto`` takes ``refined``, else ``virtual``, else the published method, as the
            budget allows; guesses say which.
        clients: virtual clients at first; ``refined`` adds half as many, five times.
        rounds: at most so many are looked at, the first ones of each victim.
        budget: seconds of one core that training may take, estimated from the network's
            operations, so that the same attack makes the same choice on any machine.
        null_error: how often a class that is there, with less than an equal share, may be
            declared null by ``virtual`` and ``refined``; the others follow the published rule,
            which promises nothing.
        threshold: entries up to this are no sign of a class, for the published rule.
        dp_noise: noise multiplier of the DP-SGD that clients were told to train by; virtual clients
            then train by it, too. None if they were told of none.
        dp_norm: norm that this DP-SGD clips each record's gradient to.
        solver: how the published method decomposes: exactly, or by its own descent.
        without: the published method without this step, as in its own ablations.
        workers: who trains virtual clients: ``"local"``, this process and those that it starts;
            ``"ray"``, ``"ray:auto"`` or ``"ray:HOST:PORT"``, a Ray cluster, as for
            `divulge.ShadowModels`. Only the time depends on it.

    References:
        Dai et al. (2024), Decaf: Data distribution decompose attack against federated learning,
        algorithms 1 and 2, equations 4 and 19 to 21; the levels are ours.
    """

    faithful: bool = False
    level: DecafLevel = "auto"
    clients: int = 120
    rounds: int = 3
    budget: float = 300.0
    null_error: float = 0.05
    threshold: float = 0.0
    dp_noise: float | None = None
    dp_norm: float = 1.0
    solver: Solver = "nnls"
    without: PublishedStep = "none"
    workers: str = field(default="local", metadata={"identity": False})

    name: ClassVar[str] = "decaf"
    paper: ClassVar[str] = "Dai et al. 2024"
    needs: ClassVar[Need] = Need.UPDATES | Need.REFERENCE

    def __post_init__(self) -> None:
        if self.clients < 24 or self.rounds < 1 or not 0 < self.null_error < 1:
            raise SpecError(
                f"expected clients from 24, rounds from 1 and null_error between 0 and 1, got "
                f"{self.clients}, {self.rounds} and {self.null_error}: change them"
            )
        cluster_by_name(self.workers)

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Proportions:
        """The shares of one client."""
        return self.many((view,), rng)[0]

    def many(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> tuple[Proportions, ...]:
        """The shares of several clients of one federation; virtual clients are trained once.

        Raises:
            NotApplicable: network, reference records of each class, or what clients were told to
                do are not known.
        """
        rounds = first_rounds(views, self.rounds)
        seed = int(rng.integers(2**63))
        if self.faithful:
            return self._run_published(rounds, views, seed)
        level, why = self._choose_level(rounds, views)
        if level == "auto":
            found = self._run_published(rounds, views, seed)
        elif level == "bias":
            found = infer_by_biases(rounds, views)
        else:
            private = None if self.dp_noise is None else (self.dp_noise, self.dp_norm)
            cluster = cluster_by_name(self.workers)
            with nullcontext() if cluster is None else cluster.session():
                found = self._run_simulation(
                    ShadowClientSimulation(rounds, views, seed, private, cluster),
                    refine=level == "refined",
                )
        return tuple(replace(one, how=one.how + why) for one in found)

    def _choose_level(
        self, rounds: AttackedRounds, views: Sequence[UpdateView]
    ) -> tuple[DecafLevel, str]:
        """Choose the level and say why; ``auto`` stands for the published method."""
        if self.level != "auto":
            return self.level, ""
        stages = [stage for stage, _ in rounds.values()]
        most = max(stage.records(views[v].victim) for stage, who in rounds.values() for v in who)
        seconds = self.clients * sum(stage.seconds(most) for stage in stages)
        fits = "within" if seconds <= self.budget else "above"
        why = (
            f"; training virtual clients was estimated at {seconds:.0f} s, {fits} the budget of "
            f"{self.budget:.0f} s"
        )
        if seconds * (1 + _REFINEMENTS / 2) <= self.budget:
            return "refined", why
        if seconds <= self.budget:
            return "virtual", why
        return "auto", why

    def _run_published(
        self, rounds: AttackedRounds, views: Sequence[UpdateView], seed: int
    ) -> tuple[Proportions, ...]:
        return infer_by_paper(
            rounds, views, self.solver, self.threshold, seed, without=self.without
        )

    def _run_simulation(
        self, rehearsal: ShadowClientSimulation, *, refine: bool
    ) -> tuple[Proportions, ...]:
        rehearsal.add(self.clients)
        for _ in range(_REFINEMENTS if refine else 0):
            rehearsal.add(self.clients // 2, near=self._likely_shares(rehearsal))
        return rehearsal.guesses(self.null_error)

    def _likely_shares(
        self, rehearsal: ShadowClientSimulation
    ) -> Float64[np.ndarray, "victims classes"]:
        return np.array([guess.share for guess in rehearsal.guesses(self.null_error)])
