"""How many canaries it takes to contradict a stated ε."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import numpy as np
import pydantic
from scipy import optimize

from divulge._util.arguments import check_arguments
from divulge._util.progress import Progress, as_track
from divulge._util.random import stream
from divulge.canaries.make import CanaryCount, RecordsEach
from divulge.core import Guarantee, NoiseAssumption
from divulge.errors import SpecError
from divulge.metrics import epsilon as bounds
from divulge.metrics.epsilon.curves import gaussian_delta
from divulge.metrics.epsilon.lower_bound import refutes_epsilon

Epsilon = Annotated[float, pydantic.Field(gt=0, le=1e4)]

TIMES = (1.5, 2.0, 4.0, math.inf)
"""How many times the stated ε a fault lets through, in the rows of a plan."""

_RUNS = 100
"""Simulated trainings for each number of canaries."""

_MOST = 20_000
"""Largest number of canaries that is tried."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """What it takes to find one fault."""

    epsilon: float
    """The ε that the faulty training has; infinite where it gives away every canary."""
    canaries: int | None
    """The number of canaries; None if more than 20,000 are needed, or none suffice."""
    chance: float
    """The chance to contradict the stated ε with so many, by simulation."""


@dataclass(frozen=True, slots=True)
class CanaryPlan:
    """How many canaries contradict a stated ε, by how much more is let through."""

    epsilon: float
    delta: float
    noise: NoiseAssumption
    power: float
    faults: tuple[PlannedFault, ...]
    reach: float | None
    """The largest ε that the number of canaries asked about can contradict; None without one."""
    promise: str = ""
    """Of canaries that are people, what ε is stated for a record."""

    def __str__(self) -> str:
        promise = f"{self.promise}; " if self.promise else ""
        lines = [
            f"To contradict ε = {self.epsilon:g} at δ = {self.delta:g} ({promise}"
            f"noise: {self.noise}), scores from gradients:",
            "",
            "true ε      canaries  chance",
        ]
        for fault in self.faults:
            count = "none found" if fault.canaries is None else f"{fault.canaries:,}"
            epsilon = "no limit" if math.isinf(fault.epsilon) else f"{fault.epsilon:g}"
            lines.append(f"{epsilon:<10}{count:>10}  {fault.chance:>6.0%}")
        if self.reach is not None:
            lines += ["", f"So many canaries can contradict an ε up to {self.reach:.2f}."]
        lines += [
            "",
            f"Chances are of {_RUNS} simulated trainings whose canaries see nothing but the noise "
            "(standard error up to 5 points). Real canaries see less, and losses alone far "
            "less: plan twice as many.",
        ]
        return "\n".join(lines)


@check_arguments
def plan_canaries(
    epsilon: Epsilon,
    delta: float,
    *,
    canaries: CanaryCount | None = None,
    records_each: RecordsEach = 1,
    noise: NoiseAssumption = "any",
    power: float = 0.8,
    progress: Progress = False,
) -> CanaryPlan:
    """Say how many canaries it takes to contradict a stated ε, or what a number of them can.

    Each row is a fault that lets 1.5, 2 or 4 times the ε through, or everything. The chances are
    simulated: a score is the canary's coin and Gaussian noise for the true ε, and the bound is the
    one of the audit.

    Args:
        epsilon: the ε that is stated, for one record.
        delta: its δ, above 0.
        canaries: their number; by default the number is sought for each fault.
        records_each: how many records each canary has, see `make_canaries`: the plan is for what is
            promised to a person with so many. An ε that is stated for one person takes as many
            canaries, whatever records these have: leave it at 1.
        noise: what the audit will suppose, see `audit_canaries`.
        power: the chance to see the fault, above 0.05 and below 1.
        progress: True shows how far the simulation is; see `divulge.Options`.

    Raises:
        SpecError: a number is out of its range, or what is stated promises a canary nothing.

    Examples:
        >>> [one.chance for one in plan_canaries(4.0, 1e-5, canaries=100).faults][-1]
        0.0
    """
    if not 0.05 < power < 1 or not 0 < delta < 1:
        raise SpecError(
            f"expected power above 0.05 and below 1, and delta above 0 and below 1, got "
            f"{power} and {delta}: 0.8 and 1e-5 are usual"
        )
    promised = promise_to_canary(epsilon, delta, noise, records_each)
    epsilon, delta = promised.epsilon, promised.delta
    faults = tuple(
        _plan_fault(epsilon, times * epsilon, delta, noise, power)
        if canaries is None
        else PlannedFault(
            times * epsilon, canaries, _chance(epsilon, times * epsilon, delta, noise, canaries)
        )
        for times in as_track(progress)(TIMES, "Simulating trainings")
    )
    reach = canaries and bounds.largest_bound(canaries, delta, drawn="coins", noise=noise)
    return CanaryPlan(epsilon, delta, noise, power, faults, reach, promised.mechanism)


def promise_to_canary(
    epsilon: float, delta: float, noise: NoiseAssumption, records: int
) -> Guarantee:
    """What is stated for one record, as it is for a canary with so many; itself for 1.

    Args:
        epsilon: the ε that is stated.
        delta: its δ.
        noise: what is supposed about the training.
        records: of each canary.

    Raises:
        SpecError: it promises a canary nothing: δ reaches 1.
    """
    stated = Guarantee(epsilon, delta, noise=noise)
    if records == 1:
        return stated
    promised = stated.for_group(records)
    if promised is None:
        raise SpecError(
            f"expected a statement that promises something to a person with {records} records, got "
            f"ε = {epsilon:g} at δ = {delta:g} for one record, whose δ grows beyond 1: make "
            "canaries of fewer records, or name the person as unit if that is who ε is stated for"
        )
    return replace(promised, noise=noise)


def _plan_fault(
    epsilon: float, true: float, delta: float, noise: NoiseAssumption, power: float
) -> PlannedFault:
    sizes = np.geomspace(20, _MOST, 31).round(-1).astype(int).tolist()
    low, high = -1, len(sizes)
    while high - low > 1:  # more canaries see more
        middle = (low + high) // 2
        enough = _chance(epsilon, true, delta, noise, sizes[middle], power) >= power
        low, high = (low, middle) if enough else (middle, high)
    if high == len(sizes):
        return PlannedFault(true, None, _chance(epsilon, true, delta, noise, sizes[-1]))
    return PlannedFault(true, sizes[high], _chance(epsilon, true, delta, noise, sizes[high]))


@lru_cache(maxsize=1024)
def _chance(
    epsilon: float,
    true: float,
    delta: float,
    noise: NoiseAssumption,
    canaries: int,
    wanted: float = 0.0,
) -> float:
    """The share of simulated trainings in which the stated ε is contradicted.

    The simulation ends where it cannot reach the share that is wanted; it is a lower one then.
    """
    if not bounds.can_refute(epsilon, canaries, delta, drawn="coins", noise=noise):
        return 0.0
    rng = stream(0, "canary plan", canaries)
    contradictions = 0
    for run in range(_RUNS):
        if contradictions + _RUNS - run < wanted * _RUNS:
            break
        inserted = rng.random(canaries) < 0.5
        if not 0 < inserted.sum() < canaries:
            continue
        score = 1.0 * inserted
        if math.isfinite(true):
            score += rng.normal(size=canaries) / gaussian_mu(true, delta)
        contradictions += refutes_epsilon(epsilon, score, inserted, delta, noise=noise)
    return contradictions / _RUNS


def gaussian_mu(epsilon: float, delta: float) -> float:
    """How many standard deviations of Gaussian noise a record moves the mean at this (ε, δ)."""
    high = 1.0
    while gaussian_delta(high, epsilon) < delta:
        high *= 2
    return float(optimize.brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 0.0, high))
