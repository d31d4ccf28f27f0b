"""Small federated rounds for tests: models, updates, and one round through a defence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from divulge.core import ClientContext, NoiseKind, ServerView, Update, UpdateDefence
from divulge.defences.updates import protocol

WEIGHTS: Update = {
    "layer.weight": np.zeros((3, 4), np.float32),
    "layer.bias": np.zeros(3, np.float32),
    "temperature": np.zeros((), np.float64),
    "nothing": np.zeros((0, 2), np.float32),
}


def update(seed: int, like: Update = WEIGHTS, size: float = 1.0) -> Update:
    """A random update; entries are normal with this standard deviation."""
    rng = np.random.default_rng(seed)
    return {
        name: np.asarray(rng.normal(0, size, value.shape), value.dtype)
        for name, value in like.items()
    }


SHAPES = {"bias": (3,), "scale": (), "weight": (2, 3)}
ENTRIES = 10


def alike(value: float, dtype: Any = np.float32) -> Update:
    """An update of one number in all entries; infinity where its type cannot hold it."""
    with np.errstate(over="ignore"):
        return {name: np.full(shape, value, dtype) for name, shape in SHAPES.items()}


def vector(update: Update) -> np.ndarray:
    """All entries of an update."""
    return np.concatenate([np.asarray(update[name], float).ravel() for name in sorted(update)])


def begin(
    defence: UpdateDefence, clients: int = 3, number: int = 1, seed: int = 0, like: Update = WEIGHTS
) -> dict[int, ClientContext]:
    return protocol.begin_round(defence, number, like, dict.fromkeys(range(clients), 1.0), seed)


def play(
    defence: UpdateDefence, updates: Mapping[int, Update], number: int = 1, seed: int = 0
) -> ServerView:
    """One round in which everybody sends."""
    like = next(iter(updates.values()))
    contexts = protocol.begin_round(defence, number, like, dict.fromkeys(updates, 1.0), seed)
    messages = [protocol.send(defence, updates[client], contexts[client]) for client in updates]
    return protocol.receive(defence, messages, next(iter(contexts.values())).round)


@dataclass
class RecordedNoise:
    """A source of no noise, which keeps what it gets: values, and the law and scale for them."""

    kind: ClassVar[NoiseKind] = "seeded"
    laws: list[str] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)

    def add_normal(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The values, as they are."""
        return self._keep("normal", values, scale)

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """The values, as they are."""
        return self._keep("laplace", values, scale)

    def _keep(self, law: str, values: np.ndarray, scale: float) -> np.ndarray:
        self.laws.append(law)
        self.scales.append(scale)
        self.values.append(values.copy())
        return values
