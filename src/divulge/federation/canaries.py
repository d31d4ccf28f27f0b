"""Canary clients send a secret random direction each, in place of an update."""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64

from divulge._util.arguments import FilePath, check_arguments
from divulge._util.json import JSON
from divulge.core import Tensors
from divulge.data.canary_files import Neighbours, TakingPart, read_clients, read_taking_part
from divulge.defences.updates import vectors
from divulge.errors import SpecError

STATED = ("stated epsilon", "stated delta")
"""Names of the figures of a round under which a transcript holds what its mechanism states."""

ROUNDING = "rounding deviation"
"""Name of the figure of a round that says how far rounding by secure aggregation may put an entry
of the mean off: its largest standard deviation."""

DEVIATION = "stated noise deviation"
"""Name of the figure of a round that says the standard deviation of the Gaussian noise in each
entry of its new weights, as its mechanism states it."""


@check_arguments
class CanaryClients:
    """The canary clients that take part in a federation; the sealed coins are not read.

    Args:
        folder: the folder of `make_canary_clients`.
        norm: Euclidean norm of the update that each sends, above 0. Take a few times the norm that
            updates are clipped to: then clipping that does not work shows, too.

    Raises:
        StoreError: the canaries were changed, or cannot be read.
        DataError: the folder holds canaries of another kind.
        SpecError: the norm makes no sense.
    """

    def __init__(self, folder: FilePath, norm: float) -> None:
        if not 0 < norm < math.inf:
            raise SpecError(
                f"expected a norm above 0, got {norm}: a few times what updates are clipped to"
            )
        self._canaries = read_clients(Path(folder))
        self._part: TakingPart = read_taking_part(Path(folder), self._canaries)
        self.norm = norm

    def __len__(self) -> int:
        return len(self._part.sign)

    def __repr__(self) -> str:
        return f"CanaryClients({self.digest[:16]}, norm={self.norm:g})"

    @property
    def digest(self) -> str:
        """SHA-256 digest of all canaries, as it stands in the transcript."""
        return self._canaries.digest

    def update(self, number: int, like: Tensors) -> dict[str, np.ndarray]:
        """What one canary client adds to the tensors of floating point that it was sent.

        Args:
            number: of the client, from 0, in the order of the trainer's file.
            like: the global weights.
        """
        floats = floating(like)
        key = str(self._canaries.x[self._part.position[number]])
        size = sum(value.size for value in floats.values())
        vector = self.norm * int(self._part.sign[number]) * direction(key, size)
        return vectors.split_like(vector, floats)

    @property
    def neighbours(self) -> Neighbours:
        """What the sealed coin of a canary decides."""
        own = self._canaries.neighbours
        assert own is not None  # read as clients
        return own

    def score(self, sent: Tensors, messages: Iterable[Tensors]) -> Float64[np.ndarray, " canaries"]:
        """What the message of each canary shows of its direction, in the order of all canaries.

        Args:
            sent: the weights that canaries were sent.
            messages: the weights that each sent back, in the order of the trainer's file; all
                canaries take part.
        """
        scores = np.empty(len(self))
        for position, message in zip(self._part.position, messages, strict=True):
            key = str(self._canaries.x[position])
            scores[position] = in_deviations(change_of(sent, message)[None], key)[0]
        return scores

    def describe(self, first: int) -> dict[str, JSON]:
        """What the transcript says about them, as its settings.

        Where all canaries take part, that is which client each is; else it would say the coins.

        Args:
            first: the number of the first canary client.
        """
        if self._canaries.neighbours != "replace":
            return {"canaries": self.digest}
        order = np.argsort(self._part.position)
        names = [str(first + int(place)) for place in order]
        return {"canaries": self.digest, "canary clients": names}


@dataclass(frozen=True, slots=True)
class StatedEpsilon:
    """The (ε, δ) that a mechanism states for all rounds so far."""

    epsilon: float
    delta: float

    def as_metrics(self) -> dict[str, float]:
        """As figures of a round in a transcript."""
        return dict(zip(STATED, (self.epsilon, self.delta), strict=True))

    @classmethod
    def of(cls, metrics: Mapping[str, float]) -> "StatedEpsilon | None":
        """What the figures of a round state; None if nothing that could be tested."""
        epsilon, delta = (metrics.get(name, math.nan) for name in STATED)
        known = math.isfinite(epsilon) and epsilon > 0 and 0 < delta < 1
        return cls(epsilon, delta) if known else None


def direction(key: str, size: int) -> Float64[np.ndarray, " entries"]:
    """The unit vector of a key: all entries alike but for their signs.

    Andrew et al. draw directions evenly from the sphere. Signs alone are drawn here, from a hash of
    the key: the same on every machine, and a thousandth of the memory to draw.

    Examples:
        >>> direction("key", 4).round(3).tolist()
        [-0.5, -0.5, -0.5, 0.5]
    """
    drawn = hashlib.shake_256(key.encode()).digest(-(-size // 8))
    bits = np.unpackbits(np.frombuffer(drawn, np.uint8), count=size)
    return np.asarray((2.0 * bits - 1) / math.sqrt(max(1, size)))


def floating(tensors: Tensors) -> dict[str, np.ndarray]:
    """Those of floating point: canaries leave counters as they are."""
    return {name: value for name, value in tensors.items() if value.dtype.kind == "f"}


def change_of(sent: Tensors, new: Tensors) -> Float[np.ndarray, " entries"]:
    """From these weights to those, as one vector: tensors of floating point, by name."""
    return np.concatenate(
        [
            (new[name].astype(np.float64) - value).ravel()
            for name, value in sorted(floating(sent).items())
        ]
    )


def in_deviations(
    moves: Float64[np.ndarray, "rounds entries"], key: str
) -> Float64[np.ndarray, " rounds"]:
    """Cosines of changes and a key's direction, times the root of the number of entries.

    That is in units of its standard deviation under noise alone; 0 for a change of nothing.
    """
    norms = np.linalg.norm(moves, axis=1)
    along = moves @ direction(key, moves.shape[1])
    scores = np.divide(along, norms, out=np.zeros_like(along), where=norms > 0)
    return np.asarray(scores * np.sqrt(moves.shape[1]))


def canary_message(
    canaries: CanaryClients,
    number: int,
    sent: Tensors,
    kind: Literal["weights", "update", "gradient"],
) -> dict[str, np.ndarray]:
    """What a canary client sends; as a gradient, that whose step is its direction.

    Args:
        canaries: the canary clients.
        number: of the client among them, from 0.
        sent: the global weights.
        kind: what clients of the federation send.
    """
    update = canaries.update(number, sent)
    if kind == "gradient":
        return {name: -value for name, value in update.items()}
    if kind == "update":
        return update
    return {
        name: (array + update[name]).astype(array.dtype) if name in update else array
        for name, array in sent.items()
    }
