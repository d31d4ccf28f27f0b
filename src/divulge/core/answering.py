"""What may change a model's answers before anybody sees them."""

from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

from divulge.core.records import Need


@runtime_checkable
class AnswerDefence(Protocol):
    """Frozen settings, and a pure function from a model's answers to those that leave it.

    ``defences.defended.Defended`` puts it around a target.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    keeps_label: ClassVar[bool]
    """Whether the most likely class stays. Where it does, an attack that reads labels alone sees
    what it saw before: against such attacks this is no defence."""

    def offers(self, before: Need) -> Need:
        """What the answers still allow, of what they allowed before."""
        ...

    def change(
        self,
        answers: Float[np.ndarray, "records classes"],
        x: Shaped[np.ndarray, "records *features"],
        key: int,
    ) -> Float[np.ndarray, "records classes"]:
        """The answers that leave the model; the same for the same record, whenever it comes.

        Args:
            answers: probabilities, as the model gives them.
            x: the records asked about.
            key: what only the owner of the model knows; feeds whatever is random.
        """
        ...
