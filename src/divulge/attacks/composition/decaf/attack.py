"""Decaf infers from a client's updates which classes it lacks, and the shares of the others."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge._util.json import JSON
from divulge.attacks.composition.decaf.last_layers import find_last_layers, keep_last_layers
from divulge.attacks.composition.decaf.published import (
    AttackedRounds,
    PublishedStep,
    Solver,
    infer_by_biases,
    infer_by_paper,
)
from divulge.attacks.composition.decaf.shadow_clients import enlarge
from divulge.attacks.composition.decaf.simulation import ShadowClientSimulation
from divulge.attacks.shared.observed_round import ObservedRound, first_rounds
from divulge.core import Need, Proportions, Records, UpdateDefence, UpdateView
from divulge.defences import catalog
from divulge.errors import NotApplicable, SpecError
from divulge.training.cluster import cluster_by_name

DecafLevel = Literal["auto", "bias", "virtual", "refined"]
TrainedLayers = Literal["auto", "all", "last"]

_REFINEMENTS = 5
"""Number of times that the refined level adds half as many virtual clients near its guesses."""

_EVEN = 1 / 2
"""Virtual clients with even mixes that are added at last, as a share of those at first."""

_TRAINED: dict[DecafLevel, float] = {"virtual": 1 + _EVEN, "refined": 1 + _REFINEMENTS / 2 + _EVEN}
"""How many times as many virtual clients a level trains in all as at first."""


class _Way(NamedTuple):
    """A way to train virtual clients."""

    before: int | None
    """Number of layers that are not trained; None if all are."""
    seconds: float
    """Estimated seconds for the first virtual clients."""


class _Plan(NamedTuple):
    """What is done at which level, and why."""

    level: DecafLevel
    before: int | None
    why: str


@check_arguments
@dataclass(frozen=True, slots=True)
class Decaf:
    """The share of each class that a client holds, and the classes it lacks, from its updates.

    The published method takes the change of the last layer's weights, declares a class null if its
    row has no positive entry, trains the weights sent out on reference records of each other class
    and of all together, and decomposes the client's change into these. Three levels are divulge's.
    ``bias`` solves the balance of the output biases with the model's answers before and after the
    local training: no training, for plain SGD alone. ``virtual`` trains virtual clients with known
    mixes as the victims train, in the same rounds. Kernel ridge regressions guess shares from each
    tensor; one for all classes then predicts the share of a class from these guesses and from what
    an update shows of it. ``refined`` adds more virtual clients near its guesses. All victims share
    them. Rounds count by how well they predict virtual clients.

    Args:
        faithful: the published method, whatever the level.
        level: ``auto`` takes ``refined``, else ``virtual``, else the published method, as the
            budget allows; guesses say which.
        layers: which layers virtual clients train: ``all``; or the ``last``, up to a quarter of the
            operations of a chain of layers, what precedes them is computed once a round. ``auto``
            takes all if the budget allows, and always beside a defence or DP-SGD.
        clients: virtual clients at first; ``refined`` adds half as many, five times, and both add
            half as many with even mixes at last.
        rounds: largest number of rounds, the first ones of each victim.
        budget: seconds of one core that training may take, estimated from the network's operations,
            so that the choice is the same on any machine.
        null_error: rate at which ``virtual`` and ``refined`` may declare a class null that is
            present with less than an equal share.
        threshold: entries up to this are no sign of a class, for the published rule.
        dp_noise: noise multiplier of the clients' DP-SGD, by which virtual clients then train.
        dp_norm: norm that this DP-SGD clips each record's gradient to.
        defence: the clients' update defence, by ``name`` and settings, as in ``[[defences]]``;
            virtual clients then send through it.
        solver: how the published method decomposes: exactly, or by its own descent.
        without: leaves a step of the published method out, as in its own ablations.
        workers: where virtual clients are trained: ``"local"``, or a Ray cluster: ``"ray"``,
            ``"ray:auto"``, ``"ray:HOST:PORT"``. It changes the time alone.

    References:
        Dai et al. (2024), Decaf: Data distribution decompose attack against federated learning,
        algorithms 1 and 2, equations 4 and 19 to 21. Our copy lacks equation 21: a share is its
        factor plus the calibrator's, over the sum.
    """

    faithful: bool = False
    level: DecafLevel = "auto"
    layers: TrainedLayers = "auto"
    clients: int = 120
    rounds: int = 3
    budget: float = 300.0
    null_error: float = 0.05
    threshold: float = 0.0
    dp_noise: float | None = None
    dp_norm: float = 1.0
    defence: dict[str, JSON] | None = None
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
        self._told_defence()  # refuses what there is not
        if self.layers == "last" and self._needs_whole_updates:
            raise SpecError(
                "expected layers = 'auto' or 'all' with dp_noise or a defence, which act on "
                "whole updates, got 'last': leave layers out"
            )

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
        plan = self._choose(rounds, views)
        if plan.level == "auto":
            guesses = self._run_published(rounds, views, seed)
        elif plan.level == "bias":
            guesses = infer_by_biases(rounds, views)
        else:
            private = None if self.dp_noise is None else (self.dp_noise, self.dp_norm)
            cluster = cluster_by_name(self.workers)
            defence = self._told_defence()
            with nullcontext() if cluster is None else cluster.session():
                stages, pools = _prepare(rounds, plan.before)
                guesses = self._run_simulation(
                    ShadowClientSimulation(stages, pools, views, seed, private, defence, cluster),
                    refine=plan.level == "refined",
                )
        return tuple(replace(guess, how=guess.how + plan.why) for guess in guesses)

    @property
    def _needs_whole_updates(self) -> bool:
        """Whether all layers have to be trained: clipping, for one, depends on all of an update."""
        return self.layers == "all" or self.defence is not None or self.dp_noise is not None

    def _told_defence(self) -> UpdateDefence | None:
        if self.defence is None:
            return None
        settings = dict(self.defence)
        return catalog.update_defence(str(settings.pop("name", "")), **settings)

    def _choose(self, rounds: AttackedRounds, views: Sequence[UpdateView]) -> "_Plan":
        """Choose the level and the layers; ``auto`` stands for the published method."""
        if self.level == "bias":
            return _Plan("bias", None, "")
        stages = [stage for stage, _ in rounds.values()]
        most = max(
            stage.records(views[v].victim) for stage, victims in rounds.values() for v in victims
        )
        seconds = self.clients * sum(stage.seconds(most) for stage in stages)
        ways = self._list_ways(stages[0], seconds)
        levels: Sequence[DecafLevel] = ("refined", "virtual")
        for level in levels if self.level == "auto" else (self.level,):
            for way in ways:
                if way.seconds * _TRAINED[level] <= self.budget:
                    return _Plan(level, way.before, self._why(way, "within"))
        return _Plan(self.level, ways[-1].before, self._why(ways[-1], "above"))

    def _list_ways(self, stage: ObservedRound, seconds: float) -> list["_Way"]:
        """Ways to train virtual clients: all layers first, then the last ones where it pays.

        Raises:
            NotApplicable: the last layers alone are asked for, and the network is no chain.
        """
        ways = [] if self.layers == "last" else [_Way(None, seconds)]
        if self._needs_whole_updates or (ways and seconds * _TRAINED["refined"] <= self.budget):
            return ways
        last = find_last_layers(stage)
        if last is not None:
            return [*ways, _Way(last.before, last.share * seconds)]
        if not ways:
            raise NotApplicable(
                "expected an nn.Sequential, whose last layers can be trained alone, got another "
                "network: leave layers out"
            )
        return ways

    def _why(self, way: "_Way", fits: str) -> str:
        """Tell what was chosen, as far as it was not asked for."""
        what = "virtual clients" if way.before is None else "their last layers alone"
        if self.level != "auto":
            return "" if way.before is None else f"; {what} were trained"
        return (
            f"; training {what} was estimated at {way.seconds:.0f} s, {fits} the budget of "
            f"{self.budget:.0f} s"
        )

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
        rehearsal.add_even(int(_EVEN * self.clients))
        return rehearsal.guesses(self.null_error, judged=True)

    def _likely_shares(
        self, rehearsal: ShadowClientSimulation
    ) -> Float64[np.ndarray, "victims classes"]:
        return np.array([guess.share for guess in rehearsal.guesses(self.null_error)])


def _prepare(
    rounds: AttackedRounds, before: int | None
) -> tuple[AttackedRounds, dict[int, Records]]:
    """The rounds and the records of virtual clients, as the layers that are trained see them."""
    pool = enlarge(next(iter(rounds.values()))[0].reference)
    if before is None:
        return rounds, dict.fromkeys(rounds, pool)
    stages, pools = {}, {}
    for number, (stage, victims) in rounds.items():
        last, pools[number] = keep_last_layers(stage, pool, before)
        stages[number] = last, victims
    return stages, pools
