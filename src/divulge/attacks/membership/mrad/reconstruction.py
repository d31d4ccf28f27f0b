"""Stage 1 of MRAD rebuilds unknown features by descent on the model's loss.

All candidates take a step together: one forward and one backward pass for the whole batch, or one
batch of queries.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped

from divulge.core import Target, as_white_box
from divulge.errors import SpecError
from divulge.metrics import signals

Access = Literal["gradients", "answers"]
Optimiser = Literal["sgd", "momentum", "adam"]
FeatureLimits = tuple[float, float]
Points = Float64[np.ndarray, "records *features"]

BLOCK = 2**20
"""Numbers of perturbed records that are held and queried at a time: as many as caches hold."""

_MOMENTUM = 0.9
_ADAM = (0.9, 0.999, 1e-8)


@dataclass(frozen=True, slots=True)
class Descent:
    """Gradient descent on the model's loss, over unknown features alone.

    Args:
        step: step size, η.
        iterations: number of steps.
        optimiser: ``sgd``; ``momentum`` (0.9); ``adam`` with its usual constants.
        limits: the least and greatest value of a feature, which each step is cut to.
        access: ``gradients`` of a model that can be looked into; ``answers`` estimates them.
        directions: with ``answers``: number of random directions a step and record.
        epsilon: with ``answers``: distance along each direction.
        two_sided: with ``answers``: whether to query on both sides of the point, and not at it.

    Raises:
        SpecError: there is no such access or optimiser, or a number makes no sense.
    """

    step: float
    iterations: int
    optimiser: Optimiser = "sgd"
    limits: FeatureLimits | None = None
    access: Access = "gradients"
    directions: int = 100
    epsilon: float = 0.01
    two_sided: bool = False

    def __post_init__(self) -> None:
        if min(self.step, self.epsilon) <= 0 or self.iterations < 0 or self.directions < 1:
            raise SpecError(
                "expected step and epsilon above 0, iterations from 0 and directions from 1, got "
                f"{self.step}, {self.epsilon}, {self.iterations} and {self.directions}"
            )
        if self.limits is not None and not self.limits[0] < self.limits[1]:
            raise SpecError(f"expected limits (low, high), got {self.limits}: swap them")

    def count_queries(self, records: int) -> int:
        """Number of queries for so many records, with gradients counting as queries."""
        each = 1
        if self.access == "answers":
            each = 2 * self.directions if self.two_sided else self.directions + 1
        return records * self.iterations * each

    def __call__(
        self,
        target: Target,
        x: Shaped[np.ndarray, "records *features"],
        y: Int[np.ndarray, " records"],
        known: Bool[np.ndarray, "records *features"],
        rng: np.random.Generator,
    ) -> Points:
        """Rebuild the unknown features of the records; known features stay as they are."""
        if self.access == "gradients":
            inside = as_white_box(target)

            def gradient(at: Points) -> Points:
                return np.where(known, 0.0, inside.gradient(at.astype(x.dtype), y))
        else:

            def gradient(at: Points) -> Points:
                return self._estimate_gradient(target, at, y, known, x.dtype, rng)

        at = x.astype(np.float64)
        move = _update_rule(self.optimiser)
        for number in range(1, self.iterations + 1):
            # algorithm 1: descent on the loss over the unknown features alone
            at = at - self.step * move(gradient(at), number)
            if self.limits is not None:
                at = np.where(known, at, np.clip(at, *self.limits))
        return at

    def _estimate_gradient(
        self,
        target: Target,
        at: Points,
        y: Int[np.ndarray, " records"],
        known: Bool[np.ndarray, "records *features"],
        dtype: np.dtype,
        rng: np.random.Generator,
    ) -> Points:
        """(1 / m) Σ [loss(x + εu) - loss(x)] / ε u, over m Gaussian u of unknown features.

        All records share the m directions of a step, as far as each lacks their features: what is
        estimated of one does not depend on which others are asked about, or in what order.
        """
        exact = np.float32 if dtype == np.float32 else np.float64
        points = at.reshape(len(at), -1).astype(exact)
        hidden = ~known.reshape(points.shape)
        u = rng.standard_normal((self.directions, points.shape[1]), dtype=exact)
        ahead, behind = (self.epsilon, -self.epsilon) if self.two_sided else (self.epsilon, 0.0)

        def loss(here: np.ndarray, labels: np.ndarray) -> np.ndarray:
            queries = here.reshape(-1, *at.shape[1:]).astype(dtype, copy=False)
            every = np.repeat(labels, len(queries) // len(labels))
            return -signals.compute_signal("loss", target.predict(queries), every).reshape(
                len(labels), -1
            )

        estimate = np.empty(points.shape)
        rows = max(1, BLOCK // u.size)
        for start in range(0, len(at), rows):
            part = slice(start, start + rows)
            here, missing = points[part, None], hidden[part, None]
            rise = loss(_move_along(here, ahead * u, missing), y[part])
            rise -= loss(
                _move_along(here, behind * u, missing) if self.two_sided else here, y[part]
            )
            estimate[part] = rise @ u * hidden[part]
        # eq. 4: the mean of finite differences along m Gaussian directions
        return (estimate / ((ahead - behind) * self.directions)).reshape(at.shape)


def _move_along(here: np.ndarray, way: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Move each point along each direction, in its missing features alone, in one array."""
    moved: np.ndarray = way * missing
    moved += here
    return moved


def _update_rule(optimiser: Optimiser) -> Callable[[Points, int], Points]:
    """The optimiser's rule: from a gradient and the step's number to a direction, with memory."""
    first: list[Points] = []
    second: list[Points] = []

    def momentum(gradient: Points, number: int) -> Points:
        del number
        first[:] = [gradient if not first else _MOMENTUM * first[0] + gradient]
        return first[0]

    def adam(gradient: Points, number: int) -> Points:
        decay, square_decay, tiny = _ADAM
        before = first[0] if first else np.zeros_like(gradient)
        squares = second[0] if second else np.zeros_like(gradient)
        first[:] = [decay * before + (1 - decay) * gradient]
        second[:] = [square_decay * squares + (1 - square_decay) * gradient**2]
        size = np.sqrt(second[0] / (1 - square_decay**number)) + tiny
        direction: Points = first[0] / (1 - decay**number) / size
        return direction

    movers = {"sgd": lambda gradient, _: gradient, "momentum": momentum, "adam": adam}
    return movers[optimiser]
