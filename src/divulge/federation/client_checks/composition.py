"""Score how uneven a client's class shares look to a server that sees one update."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import Seed, check_arguments
from divulge.core import CompositionAttack, LocalTraining, Records, Tensors, UpdateView
from divulge.errors import DataError, NotApplicable
from divulge.federation.client_checks.base import Outgoing
from divulge.federation.output_layer import shares_of_biases


@dataclass(frozen=True, slots=True)
class ClassMix:
    """How uneven the class shares look that a server would guess from an update.

    The score is the distance of the guess from equal shares, as a part of the largest that is
    possible: 0 when all classes look alike, 1 when all records seem to be of one class. It is the
    guess that counts, right or wrong. Only plain SGD without momentum is understood, and the
    model is taken to know nothing yet; what it has learned makes the guess too even.

    Args:
        bias: name of the tensor of output biases; None takes the last vector of the network.
    """

    bias: str | None = None

    def __call__(self, outgoing: Outgoing) -> float:
        """The score of one update.

        Raises:
            DataError: it has no such biases, or learning rate, batch size or the number of
                records are not known.
        """
        change = self._change(outgoing.update)
        nothing_known = np.full((len(change), len(change)), 1 / max(len(change), 1))
        return _unevenness(shares_of_biases(change, _step(outgoing), nothing_known))

    def _change(self, update: Tensors) -> np.ndarray:
        vectors = [name for name, value in update.items() if value.ndim == 1]
        name = vectors[-1] if self.bias is None and vectors else self.bias
        if name not in vectors:
            raise DataError(
                f"expected output biases in the update, got none called {name!r}: "
                f"name one of {', '.join(vectors) or 'a network that has any'}"
            )
        return update[name]


@check_arguments
@dataclass(frozen=True, slots=True)
class InferredMix:
    """Unevenness of the class shares that an attack infers from an update, scored as `ClassMix`.

    The client runs the attack on itself, with everything that the server may have.

    Args:
        attack: composition attack such as `divulge.attacks.Decaf`; it sees one round.
        network: function that makes the module that the weights belong to.
        reference: records of every class, as the server may own them; a client that has no
            others can pass some of its own.
        seed: seed of the attack's randomness.
    """

    attack: CompositionAttack
    network: Callable[[], Any]
    reference: Records
    seed: Seed = 0

    def __call__(self, outgoing: Outgoing) -> float:
        """The score of one update.

        Raises:
            DataError: the attack cannot be run on it.
        """
        sent, update = outgoing.sent, outgoing.update
        view = UpdateView.between(
            sent,
            {name: sent[name] + change for name, change in update.items()},
            outgoing.records or 0,
            outgoing.training,
            self.network,
            self.reference,
        )
        try:
            guess = self.attack(view, np.random.default_rng(self.seed))
        except NotApplicable as error:
            raise DataError(str(error)) from error
        return _unevenness(guess.share)


def _unevenness(shares: Float64[np.ndarray, " classes"]) -> float:
    """Total variation distance from equal shares, divided by the largest possible one."""
    even = 1 / len(shares)
    return float(np.abs(shares - even).sum() / 2 / (1 - even))


def _step(outgoing: Outgoing) -> float:
    """Learning rate times number of local steps; the last batch of an epoch may be smaller."""
    how: LocalTraining = outgoing.training
    if how.lr is None or how.batch_size is None or not outgoing.records or outgoing.records < 0:
        raise DataError(
            f"expected learning rate, batch size and number of records, got {how.lr}, "
            f"{how.batch_size} and {outgoing.records}: say what the configuration does not"
        )
    return how.lr * (how.epochs or 1) * math.ceil(outgoing.records / max(how.batch_size, 1))
