"""How a client of a federation learns from what it acted on, as its server knows it."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


@runtime_checkable
class Learner(Protocol):
    """A client's local training as a function of its interactions, differentiable in them.

    Tensors are those of the framework that the learner is written in.
    """

    @property
    def private(self) -> int:
        """How many numbers of its own a client keeps that go into its training; 0 is none."""
        ...

    def update(
        self, sent: Mapping[str, Any], items: Any, interactions: Any, private: Any = None
    ) -> dict[str, Any]:
        """What training changes of what was sent, by name.

        Args:
            sent: the global weights.
            items: features of the items handed out, items x features.
            interactions: of each item, from 0 (left alone) to 1 (acted on).
            private: what the client keeps to itself, where there is any.
        """
        ...


class Affine(NamedTuple):
    """An update as constant + matrix @ interactions; tensors in the order of their names."""

    constant: Float[np.ndarray, " numbers"]
    matrix: Float[np.ndarray, "numbers items"]


@runtime_checkable
class LinearisedLearner(Learner, Protocol):
    """A learner whose update is affine in the interactions but for the way its weights take."""

    @property
    def exact(self) -> bool:
        """The update is affine as it is: there is one step."""
        ...

    def linearised(self, sent: Mapping[str, Any], items: Any, interactions: Any) -> Affine:
        """The update as an affine map, along the way that training takes with these interactions.

        At these interactions it gives the update itself.
        """
        ...
