"""The input and the signature of a leak test that a client runs on its own update."""

from collections.abc import Callable
from dataclasses import dataclass

from divulge.core import LocalTraining, Tensors


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An update that a client is about to send, with what the server will know beside it."""

    update: Tensors
    """Trained weights minus the global weights, by name of the tensor."""
    sent: Tensors
    """Global weights that the client received, by name of the tensor."""
    records: int | None
    """Number of records that the client will claim; None if it claims none."""
    training: LocalTraining
    """Settings of local training that the server knows from the protocol."""


LeakTest = Callable[[Outgoing], float]
"""Function from an update to a leak score: 0 is no leak that matters, 1 is a complete leak.

A test that cannot tell raises DataError.
"""
