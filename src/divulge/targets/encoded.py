"""A model that takes records as its user holds them, asked with the arrays that stand for them."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge.core import Encoding, Need, Target, stream_answers
from divulge.core.tokens import Tokens, as_token_target, stream_tokens
from divulge.targets.batching import translate_model_errors


@dataclass(frozen=True, slots=True)
class EncodedTarget:
    """A target that is given the records behind the arrays with which it is asked.

    Args:
        target: the target, which takes records as they were given.
        encoding: of all the records that it will be asked about.
    """

    target: Target
    encoding: Encoding

    @property
    def offers(self) -> Need:
        """What the answers allow; nobody can move along a gradient of texts."""
        return self.target.offers & ~Need.AUTOGRAD

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """The inner target's probabilities.

        Raises:
            TargetError: the inner target failed, or the records have other features.
            DataError: a record is not one of those that the encoding knows.
        """
        return self.target.predict(self.decode(x))

    def stream(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """The inner target's probabilities as they come; errors as of `predict`."""
        yield from stream_answers(self.target, self.decode(x))

    def tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Tokens:
        """What the inner target says of the tokens of texts; errors as of `predict`.

        Raises:
            NotApplicable: it is no language model.
        """
        before = None if after is None else self.decode(after)
        return as_token_target(self.target).tokens(self.decode(x), before)

    def stream_tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Generator[tuple[Int[np.ndarray, " part"], Tokens], None, None]:
        """The same as they come; errors as of `tokens`."""
        before = None if after is None else self.decode(after)
        yield from stream_tokens(self.target, self.decode(x), before)

    def decode(self, x: Shaped[np.ndarray, " records *features"]) -> Any:
        """The records behind the arrays, as the inner target takes them.

        Raises:
            TargetError: they have other features.
            DataError: a record is not one of those that the encoding knows.
        """
        with translate_model_errors(
            "records with the features of those that were given", "encode all records alike"
        ):
            return self.encoding.decode(x)


def decode_for(target: Target, encoding: Encoding | None) -> Target:
    """The target, given the records as it takes them.

    A frame of numbers goes as an array to a target that takes arrays alone.
    """
    if encoding is None or (not encoding.text and not getattr(target, "takes_frames", False)):
        return target
    return EncodedTarget(target, encoding)
