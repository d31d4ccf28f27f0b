"""A language model as a classifier of texts: how likely their tokens are, and all others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge.core import Need, Target


@dataclass(frozen=True, slots=True)
class TokenProbability:
    """Answers with the probability of a token of each text, and what is left of 1.

    It is the geometric mean over the text, exp of minus the loss. So what compares classifiers
    compares fine-tuned language models: attacks with shadow models, defences, and the search for
    a model under a ceiling.

    Args:
        target: a language model, which answers with the mean log-probability of each text.
    """

    target: Target

    @property
    def offers(self) -> Need:
        """Probabilities, and what the language model offers of texts."""
        tokens = Need.TOKENS | Need.SCORES | Need.PREFIX | Need.UNMETERED
        own = self.target.offers & ~tokens
        return own | Need.PROBABILITIES | Need.HARD_LABELS

    def predict(self, x: Any) -> Float64[np.ndarray, "records 2"]:
        """The probability of a text's tokens, and of others; errors as of the language model."""
        mean = np.minimum(self.target.predict(x)[:, 0].astype(np.float64), 0.0)
        return np.column_stack([np.exp(mean), -np.expm1(mean)])
