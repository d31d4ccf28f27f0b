"""A target whose predictions pass an answer defence before they are returned."""

import secrets
from collections.abc import Generator
from typing import final

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge._util.arguments import check_arguments
from divulge.core import AnswerDefence, Need, Target, stream_answers
from divulge.errors import SpecError


@check_arguments
@final
class DefendedTarget:
    """A target whose answers are changed before they leave it. Nobody can look inside.

    Args:
        target: the model.
        defence: the answer defence that changes the model's probabilities.
        key: the secret of this model, from which all randomness of the defence follows; drawn by
            the operating system unless given. Keep it: under another key the noise is another.

    Raises:
        SpecError: the model gives no probabilities that could be changed.

    Examples:
        >>> from divulge.defences import Rounding
        >>> from divulge.targets import FunctionTarget
        >>> model = FunctionTarget(lambda x: np.full((len(x), 2), [0.64, 0.36]))
        >>> DefendedTarget(model, Rounding(digits=1)).predict(np.zeros((1, 1)))
        array([[0.7, 0.3]])
    """

    def __init__(self, target: Target, defence: AnswerDefence, key: int | None = None) -> None:
        if Need.PROBABILITIES not in target.offers:
            gives = "numbers" if Need.VALUES in target.offers else "labels"
            raise SpecError(
                f"expected a model that gives probabilities behind {defence.name}, got {gives}: "
                "leave the answer defence out"
            )
        self.target, self.defence = target, defence
        self._key = secrets.randbits(128) if key is None else key

    @property
    def offers(self) -> Need:
        """What the changed answers allow."""
        return self.defence.offers(self.target.offers & ~Need.AUTOGRAD)

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """The changed answers.

        Raises:
            TargetError: the model behind the defence failed.
        """
        return self.defence.change(self.target.predict(x), x, self._key)

    def stream(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """The changed answers as the model gives its own.

        Raises:
            TargetError: the model behind the defence failed.
        """
        for rows, answers in stream_answers(self.target, x):
            yield rows, self.defence.change(answers, x[rows], self._key)
