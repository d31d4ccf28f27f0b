"""What one update tells the server about its client's classes: shares read off the last biases."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leakscope.core import LocalTraining, Tensors
from leakscope.errors import DataError
from leakscope.federation.outgoing import Outgoing


def class_mix(change: Float[np.ndarray, " classes"], step: float) -> Float[np.ndarray, " classes"]:
    """Shares of the classes among a client's records, guessed from its update.

    The gradient of the mean cross-entropy with respect to the output biases is the mean answer of
    the model less the shares of the classes. Summed over T steps of plain SGD with learning rate η
    it changes the biases by ηT (shares - mean answer). The mean answer on the client's records is
    taken to be the same for every class, which is right for a model that knows nothing yet; what
    the model has learned already makes the guess too even. What falls outside is moved to the
    nearest shares that are possible.

    Args:
        change: of the output biases, new less sent.
        step: learning rate times number of local steps.

    Raises:
        DataError: there is only one class, the step is not above 0, or the change is not finite.

    References:
        Zhao, Mopuri and Bilen (2020), iDLG: Improved deep leakage from gradients, where they
        extract the label, have the gradient for one record; this is its mean over records and
        steps.

    Examples:
        >>> class_mix(np.array([0.25, 0.05, -0.15, -0.15]), step=1.0).round(2).tolist()
        [0.5, 0.3, 0.1, 0.1]
    """
    if len(change) < 2:
        raise DataError(
            f"expected output biases of two classes or more, got {len(change)}: "
            "name the bias of the last layer"
        )
    if not 0 < step < math.inf or not np.isfinite(change).all():
        raise DataError(
            f"expected finite changes and a step above 0, got a step of {step}: "
            "check the training and its learning rate"
        )
    return _nearest_shares(1 / len(change) + change.astype(np.float64) / step)


def _nearest_shares(point: Float[np.ndarray, " classes"]) -> Float[np.ndarray, " classes"]:
    """The nearest point with entries from 0 that sum to 1: shift all, cut off below 0."""
    falling = np.sort(point)[::-1]
    shifts = (1 - np.cumsum(falling)) / np.arange(1, len(point) + 1)
    kept = int(np.flatnonzero(falling + shifts > 0)[-1])
    nearest: np.ndarray = np.maximum(point + shifts[kept], 0.0)
    return nearest


@dataclass(frozen=True, slots=True)
class ClassMix:
    """How uneven the class shares look that a server would guess from an update.

    The score is the distance of the guess from equal shares, as a part of the largest that is
    possible: 0 when all classes look alike, 1 when all records seem to be of one class. It is the
    guess that counts, right or wrong. Only plain SGD without momentum is understood.

    Args:
        bias: name of the output biases; None takes the last vector of the network.
    """

    bias: str | None = None

    def __call__(self, outgoing: Outgoing) -> float:
        """The score of one update.

        Raises:
            DataError: it has no such biases, or learning rate, batch size or the number of
                records are not known.
        """
        shares = class_mix(self._change(outgoing.update), _step(outgoing))
        even = 1 / len(shares)
        return float(np.abs(shares - even).sum() / 2 / (1 - even))

    def _change(self, update: Tensors) -> np.ndarray:
        vectors = [name for name, value in update.items() if value.ndim == 1]
        name = vectors[-1] if self.bias is None and vectors else self.bias
        if name not in vectors:
            raise DataError(
                f"expected output biases in the update, got none called {name!r}: "
                f"name one of {', '.join(vectors) or 'a network that has any'}"
            )
        return update[name]


def _step(outgoing: Outgoing) -> float:
    """Learning rate times number of steps, the last one of an epoch being smaller."""
    how: LocalTraining = outgoing.training
    if how.lr is None or how.batch_size is None or not outgoing.records or outgoing.records < 0:
        raise DataError(
            f"expected learning rate, batch size and number of records, got {how.lr}, "
            f"{how.batch_size} and {outgoing.records}: say what the configuration does not"
        )
    return how.lr * (how.epochs or 1) * math.ceil(outgoing.records / max(how.batch_size, 1))
