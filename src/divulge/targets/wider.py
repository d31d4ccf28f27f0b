"""A model beside classes that it does not know: their probability is zero."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from divulge.core import Need, Target, stream_answers


@dataclass(frozen=True, slots=True)
class WiderTarget:
    """A target with further classes, which it was not trained on.

    Args:
        target: the model.
        classes: how many classes there are; those of the model come first.
    """

    target: Target
    classes: int

    @property
    def offers(self) -> Need:
        """What the answers allow; there is no gradient of a class that the model does not know."""
        return self.target.offers & ~Need.AUTOGRAD

    @property
    def takes_frames(self) -> bool:
        """Whether the model takes data frames."""
        return bool(getattr(self.target, "takes_frames", False))

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """The model's probabilities, and zeros.

        Raises:
            TargetError: the model failed.
        """
        return self._widen(self.target.predict(x))

    def stream(
        self, x: Any
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """The same as they come; errors as of `predict`."""
        for rows, answers in stream_answers(self.target, x):
            yield rows, self._widen(answers)

    def _widen(
        self, answers: Float[np.ndarray, "records columns"]
    ) -> Float[np.ndarray, "records classes"]:
        return np.pad(answers, ((0, 0), (0, self.classes - answers.shape[1])))
