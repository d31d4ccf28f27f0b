"""Defend by predictions that a temperature makes softer."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Shaped
from scipy import special

from divulge._util.arguments import check_arguments
from divulge.core import Need
from divulge.errors import SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class Temperature:
    """Divide the logits by a temperature: no defence against attacks that read labels alone.

    An attacker who knows the temperature can undo it. A class with probability 0 keeps it, and the
    order of the classes stays.

    Args:
        temperature: what logits are divided by; answers are softer above 1, sharper below 1.

    References:
        Shokri et al. (2017), Membership inference attacks against machine learning models, section
        VIII-A ("increase entropy of the prediction vector").

    Raises:
        SpecError: it is none.
    """

    temperature: float = 4.0

    name: ClassVar[str] = "temperature"
    paper: ClassVar[str] = "Shokri et al. 2017"
    keeps_label: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise SpecError(
                f"expected temperature above 0, got {self.temperature}: 1 changes nothing"
            )

    def offers(self, before: Need) -> Need:
        """As before."""
        return before

    def change(
        self,
        answers: Float[np.ndarray, "records classes"],
        x: Shaped[np.ndarray, "records *features"],
        key: int,
    ) -> Float[np.ndarray, "records classes"]:
        """See `divulge.core.AnswerDefence.change`."""
        del x, key
        with np.errstate(divide="ignore"):  # a class that is ruled out stays so
            logits = np.log(answers)
        # log probabilities are logits but for a constant, which softmax forgets
        return np.asarray(special.softmax(logits / self.temperature, axis=1))
