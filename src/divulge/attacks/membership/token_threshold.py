"""Rank texts by the log-probabilities that a language model gives their tokens."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import token_signals
from divulge.core import ModelView, Need, Scores
from divulge.errors import SpecError

TokenSignal = Literal[
    "loss", "zlib", "lowercase", "min-k", "min-k++", "surprising", "gradient-norm"
]

_PAPERS = {
    "loss": "Yeom et al. 2018",
    "zlib": "Carlini et al. 2021",
    "lowercase": "Carlini et al. 2021",
    "min-k": "Shi et al. 2024",
    "min-k++": "Zhang et al. 2025",
    "surprising": "Zhang and Wu 2024",
    "gradient-norm": "Wang et al. 2024",
}


@check_arguments
@dataclass(frozen=True, slots=True)
class TokenThreshold:
    """One number a text from the target itself, without another model.

    Args:
        signal: ``loss`` is the mean log-probability; ``zlib`` divides it by the bytes of the packed
            text; ``lowercase`` is that of the text in lower case, by the text's own; ``min-k`` is
            the mean of the lowest ones; ``min-k++`` the same in standard deviations over the
            vocabulary; ``surprising`` the mean of the lowest ones at tokens where the model was
            sure of others; ``gradient-norm`` is minus the log of the norm of the loss's gradient by
            the weights, for an attacker who has these.
        share: of the tokens, for ``min-k``, ``min-k++`` and ``surprising``.
        entropy: in nats, below which a model is sure; for ``surprising``.

    References:
        Yeom et al. (2018), adversary 2, for ``loss``. Carlini et al. (2021), Extracting training
        data from large language models, section 5.2, for ``zlib`` and ``lowercase``, the ratio of
        log-perplexities. Shi et al. (2024), Detecting pretraining data from large language models,
        equation 1, for ``min-k``. Zhang et al. (2025), Min-K%++, equations 3 and 4. Zhang and Wu
        (2024), Adaptive pre-training data detection via surprising tokens, section 4; departure:
        where no token is surprising, all low ones count. Wang et al. (2024), Pandora's white-box
        (arXiv 2402.17012), for ``gradient-norm``, with the Euclidean norm; that membership shows in
        gradients by the weights is from Nasr, Shokri and Houmansadr (2019), Comprehensive privacy
        analysis of deep learning.
    """

    signal: TokenSignal = "loss"
    share: float = 0.2
    entropy: float = 2.0

    name: ClassVar[str] = "token-threshold"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or not self.entropy > 0:
            raise SpecError(
                "expected a share above 0 and at most 1, and an entropy above 0, got "
                f"{self.share:g} and {self.entropy:g}: the published ones are 0.2 and 2"
            )

    @property
    def paper(self) -> str:
        """Who proposed the signal."""
        return _PAPERS[self.signal]

    @property
    def needs(self) -> Need:
        """The tokens."""
        return Need.TOKENS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The signal of each text, in nats or standard deviations a token, or a ratio.

        Raises:
            NotApplicable: what the signal needs is not known.
        """
        del rng
        tokens = token_signals.read_tokens(view, view.records)
        match self.signal:
            case "loss":
                return Scores(token_signals.mean_logprob(tokens))
            case "zlib":
                return Scores(token_signals.per_packed_byte(tokens))
            case "lowercase":
                return Scores(token_signals.by_lower_case(tokens))
            case "gradient-norm":
                return Scores(token_signals.small_gradient(tokens))
            case "min-k":
                return Scores(token_signals.lowest(tokens, tokens.logprob, self.share))
            case "min-k++":
                standard = token_signals.standardise(tokens)
                return Scores(token_signals.lowest(tokens, standard, self.share))
        return Scores(token_signals.surprising(tokens, self.share, self.entropy))
