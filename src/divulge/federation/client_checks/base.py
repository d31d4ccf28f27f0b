"""What a client can ask of its own update before it sends it."""

from collections.abc import Callable
from dataclasses import dataclass

from divulge.core import LocalTraining, Tensors


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An update that is about to leave its client, and what the server will know beside it."""

    update: Tensors
    """New weights less those that were sent out."""
    sent: Tensors
    """The global weights."""
    records: int | None
    """What the client will claim; None if it says nothing."""
    training: LocalTraining
    """What the protocol gives away about the training."""


LeakTest = Callable[[Outgoing], float]
"""How much an attack learns from it: 0 is nothing that counts, 1 is all there is.

A test that cannot tell raises DataError.
"""
