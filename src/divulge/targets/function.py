"""Use any callable as a target, such as a remote service or a framework without an adapter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from divulge._util.arguments import check_arguments
from divulge.core import Need
from divulge.targets.batching import count_rows, translate_model_errors, unlock
from divulge.targets.outputs import Output, access_of, to_answers, to_logits


@check_arguments
@dataclass(frozen=True, slots=True)
class FunctionTarget:
    """A model behind a function from records to answers.

    Examples:
        >>> target = FunctionTarget(lambda x: np.hstack([x, -x]), output="logits")
        >>> target.predict(np.zeros((1, 1)))
        array([[0.5, 0.5]])
    """

    function: Callable[..., Any]
    output: Output = "probabilities"
    classes: int | None = None
    """How many classes there are; only labels need it."""

    takes_frames: ClassVar[bool] = True

    @property
    def offers(self) -> Need:
        """What its answers allow."""
        return access_of(self.output)

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """Probabilities or values in float64.

        Args:
            x: the records in whatever the function takes.

        Raises:
            TargetError: the function failed, or its answers are not what ``output`` says.
        """
        return to_answers(self._query(x), self.output, count_rows(x), self.classes)

    def logits(self, x: Any) -> Float[np.ndarray, "records classes"] | None:
        """Logits in float64; None where the function answers something else.

        Args:
            x: see `predict`.

        Raises:
            TargetError: the function failed, or its answers are no logits.
        """
        return to_logits(self._query(x), count_rows(x)) if self.output == "logits" else None

    def _query(self, x: Any) -> Any:
        """The function's answers as they are."""
        with translate_model_errors("the function to answer", "call it on a few records yourself"):
            return self.function(unlock(x))
