"""Gradient matching optimises interactions until the simulated update matches the received one.

The optimisers are PyTorch's: one Adam for several clients, as it treats each number by itself, and
an L-BFGS for each. What takes the time, the simulated training, is that of several clients in one
call where their learners allow it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from divulge.attacks.interactions.raifle.lockstep import work_together
from divulge.attacks.interactions.raifle.simulated_updates import (
    ClientBatch,
    JointSimulation,
    Point,
    Slope,
    Victim,
    split_into_batches,
    stack_points,
)
from divulge.errors import DataError
from divulge.training.optimisers import without_compiler

Optimiser = Literal["lbfgs", "adam"]


class MatchResult(NamedTuple):
    """Result of the optimisation."""

    value: Float[np.ndarray, " items"]
    """Interaction with each item, in (0, 1)."""
    loss: float
    """Distance of the simulated update from the received one."""
    evaluations: int
    """Number of simulated trainings."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Minimise the distance of simulated updates to received ones, as RAIFLE describes it.

    Interactions are the sigmoid of numbers that start uniform in [-1, 1]. A private embedding
    starts uniform in [0, 1]. Where the update holds one row an item, rows alone are compared, by
    their mean Euclidean distance; else all numbers, by their mean square; both over the learning
    rate. Of several starts the one that ends with the least loss counts.

    Args:
        optimiser: L-BFGS with a strong Wolfe search and rate 0.1, or Adam with rate 0.1.
        steps: the most steps of the optimiser.
        joint: whether the private embedding is optimised, too, or stays random.
        starts: number of random starts.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, algorithms 1 and 2, section IV-B.
    """

    optimiser: Optimiser
    steps: int
    joint: bool
    starts: int = 1

    def match(self, victims: Sequence[Victim], rng: np.random.Generator) -> Iterator[MatchResult]:
        """Yield the result of each client, in order.

        Args:
            victims: the clients.
            rng: draws the starts, in the order of the clients.

        Raises:
            DataError: the distance is not finite, at the start or at the end.
        """
        starts = [self._draw_start(victim, rng) for _ in range(self.starts) for victim in victims]
        many = len(victims)
        batches = split_into_batches([victims[n % many] for n in range(len(starts))])
        batch_of = {number: batch for batch in batches for number in batch}
        results: dict[int, MatchResult] = {}
        for victim in range(many):
            ends = []
            for number in range(victim, len(starts), many):
                if number not in results:
                    batch = batch_of[number]
                    results |= self._match_batch({n: (victims[n % many], starts[n]) for n in batch})
                ends.append(results.pop(number))
            yield _choose_end(ends)

    def _draw_start(self, victim: Victim, rng: np.random.Generator) -> "Point":
        learner, _, items, _ = victim
        # algorithm 1: random initial interactions, as the released code draws them
        raw = items.new_tensor(rng.uniform(-1, 1, len(items)))
        # algorithm 2, line 2: a random private embedding, uniform in [0, 1] in the released code
        own = items.new_tensor(rng.random(learner.private)) if learner.private else None
        return Point(raw, own)

    def _match_batch(self, batch: Mapping[int, "tuple[Victim, Point]"]) -> dict[int, MatchResult]:
        victims, starts = zip(*batch.values(), strict=True)
        if self.optimiser == "adam":
            results = self._descend_together(victims, starts)
        else:
            simulation = JointSimulation(victims, starts, joint=self.joint)
            works = [partial(self._descend, start) for start in starts]
            results = work_together(works, simulation.slopes)
        return dict(zip(batch, results, strict=True))

    def _descend_together(
        self, victims: "Sequence[Victim]", starts: "Sequence[Point]"
    ) -> list[MatchResult]:
        batch = ClientBatch(victims)
        raw, own = stack_points(starts, batch.longest, joint=self.joint)
        sought = [raw] if own is None or not self.joint else [raw, own]
        search = without_compiler(torch.optim.Adam)(sought, lr=0.1)
        for _ in range(self.steps):
            search.zero_grad()
            # one backward pass for all: no client's distance depends on another's numbers
            batch.distances(raw, own).sum().backward()  # type: ignore[no-untyped-call]
            search.step()
        with torch.no_grad():
            losses = batch.distances(raw, own).tolist()
        outcomes = zip(raw.detach(), victims, losses, strict=True)
        return [_result(row[: len(v.items)], loss, self.steps + 1) for row, v, loss in outcomes]

    def _descend(self, start: "Point", ask: "Callable[[Point], Slope]") -> MatchResult:
        raw, own = start
        sought = [raw] if own is None or not self.joint else [raw, own]
        evaluations = 0
        search: torch.optim.Optimizer = without_compiler(torch.optim.LBFGS)(
            # section IV-B: PyTorch's L-BFGS, with the released code's rate and line search
            sought,
            lr=0.1,
            max_iter=self.steps,
            line_search_fn="strong_wolfe",
        )

        def closure() -> Tensor:
            nonlocal evaluations
            evaluations += 1
            slope = ask(start)
            raw.grad = slope.by_raw
            if own is not None:
                own.grad = slope.by_own
            return slope.loss

        search.step(closure)  # type: ignore[arg-type]
        return _result(raw, float(closure()), evaluations)


def _result(raw: Float[Tensor, " items"], loss: float, evaluations: int) -> MatchResult:
    return MatchResult(raw.sigmoid().numpy().astype(np.float64), loss, evaluations)


def _choose_end(ends: Sequence[MatchResult]) -> MatchResult:
    """The result with the least loss, and the simulations of all."""
    evaluations = sum(end.evaluations for end in ends)
    finite = [end for end in ends if np.isfinite(end.loss)]
    # the released code returns a random guess here, which would be scored as one
    if not finite:
        raise DataError(
            f"expected a finite distance between updates, got {ends[0].loss} after {evaluations} "
            "simulations: the descent broke down; try another seed or optimiser"
        )
    return min(finite, key=lambda end: end.loss)._replace(evaluations=evaluations)
