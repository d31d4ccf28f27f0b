"""Read a model's logits where it gives them, and what its probabilities tell of them elsewhere."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from divulge.core import Target
from divulge.metrics import signals

Logits = Float[np.ndarray, "records classes"]


@runtime_checkable
class LogitTarget(Target, Protocol):
    """A target that may give logits beside probabilities."""

    def logits(self, x: Any) -> Logits | None:
        """The logits whose softmax `predict` gives; None where the model does not tell them.

        Raises:
            TargetError: see `Target.predict`.
        """
        ...


def read_logits(target: Target, x: Any) -> Logits:
    """The model's logits, or log probabilities less their mean where it gives no logits.

    Softmax loses a constant a record. The published stacking attack sees logits with it.

    Args:
        target: the model, which gives probabilities.
        x: the records in whatever the model takes.

    Raises:
        TargetError: the model failed.

    Examples:
        >>> from divulge.targets import FunctionTarget
        >>> told = np.array([[3.0, 1.0]])
        >>> read_logits(FunctionTarget(lambda x: told, "logits"), np.zeros((1, 1)))
        array([[3., 1.]])
    """
    given = target.logits(x) if isinstance(target, LogitTarget) else None
    return centre_log_probabilities(target.predict(x)) if given is None else given


def centre_log_probabilities(probabilities: Logits) -> Logits:
    """Log probabilities less their mean over classes: logits but for a constant a record."""
    log = np.log(np.maximum(probabilities, signals.SMALLEST))
    centred: Logits = log - log.mean(axis=1, keepdims=True)
    return centred
