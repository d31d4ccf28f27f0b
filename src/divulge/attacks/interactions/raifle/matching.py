"""Gradient matching optimises interactions until the simulated update matches the received one."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from divulge.core import Learner
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


def match_gradients(
    learner: Learner,
    sent: Mapping[str, Tensor],
    items: Float[Tensor, "items features"],
    update: Mapping[str, Tensor],
    *,
    optimiser: Optimiser,
    steps: int,
    joint: bool,
    rng: np.random.Generator,
) -> MatchResult:
    """Minimise the distance of the simulated update to the received one, as RAIFLE describes it.

    Interactions are the sigmoid of numbers that start uniform in [-1, 1]. A private embedding
    starts uniform in [0, 1]. Where the update holds one row an item, rows alone are compared, by
    their mean Euclidean distance; else all numbers over the learning rate, by their mean square.

    Args:
        learner: how the client trains.
        sent: the global weights.
        items: features of the items shown.
        update: the received update, by name.
        optimiser: L-BFGS with a strong Wolfe search and rate 0.1, or Adam with rate 0.1.
        steps: the most steps of the optimiser.
        joint: whether the private embedding is optimised, too, or stays random.
        rng: draws the start.

    Raises:
        DataError: the loss is not finite, at the start or at the end.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, algorithms 1 and 2, section IV-B.
    """
    start = rng.uniform(-1, 1, len(items))
    raw = items.new_tensor(start).requires_grad_()
    own = items.new_tensor(rng.random(learner.private)) if learner.private else None
    sought: list[Tensor] = [raw]
    if joint and own is not None:
        sought.append(own.requires_grad_())
    evaluations = 0
    search: torch.optim.Optimizer = (
        without_compiler(torch.optim.LBFGS)(
            sought, lr=0.1, max_iter=steps, line_search_fn="strong_wolfe"
        )
        if optimiser == "lbfgs"
        else without_compiler(torch.optim.Adam)(sought, lr=0.1)
    )

    def closure() -> Tensor:
        nonlocal evaluations
        evaluations += 1
        search.zero_grad()
        simulated = learner.update(sent, items, raw.sigmoid(), own)
        loss = _distance(simulated, update, items.shape, getattr(learner, "lr", 1.0))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(1 if optimiser == "lbfgs" else steps):
        search.step(closure)  # type: ignore[arg-type]
    loss = float(closure().detach())
    if not np.isfinite(loss):
        raise DataError(
            f"expected a finite distance between updates, got {loss} after {evaluations} "
            "simulations: the descent broke down; try another seed or optimiser"
        )
    return MatchResult(raw.detach().sigmoid().numpy().astype(np.float64), loss, evaluations)


def _distance(
    simulated: Mapping[str, Tensor], update: Mapping[str, Tensor], shape: Any, lr: float
) -> Tensor:
    rows = [name for name, value in update.items() if value.shape == shape]
    if rows:
        wanted = update[rows[0]]
        size = torch.linalg.vector_norm(wanted, dim=1).mean()
        apart = torch.linalg.vector_norm(simulated[rows[0]] - wanted, dim=1).mean()
        scaled: Tensor = apart * torch.clamp(100 / size, min=1.0)
        return scaled
    apart = torch.cat([(simulated[name] - update[name]).flatten() for name in update])
    return (apart / lr).square().mean()
