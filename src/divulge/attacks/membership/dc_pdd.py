"""DC-PDD: token probabilities, weighted by how rare the tokens are in texts of the attacker."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import Count, check_arguments
from divulge.attacks.shared import token_signals
from divulge.core import ModelView, Need, Scores
from divulge.errors import SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class DCPDD:
    """The mean, over first occurrences of tokens, of p times log 1/q, cut at a bound.

    p is the model's probability of the token, and q its frequency in the reference records, with
    one added to each count (Laplace). It takes tokens that are likely everywhere off the evidence.

    Args:
        bound: above which no token counts for more, in nats.
        vocabulary: how many tokens the tokenizer knows; by default as many as there are in the
            reference records and candidates, which changes q by one factor for all tokens.

    References:
        Zhang et al. (2024), Pretraining data detection for large language models: a
        divergence-based calibration method (arXiv 2409.14781), section 3. Departures: a first token
        that has no probability does not count, and the bound is 10, where the authors' code has
        0.01 for models on their first training data: after a fine-tuning most tokens are
        above that, and would count alike.
    """

    bound: float = 10.0
    vocabulary: Count | None = None

    name: ClassVar[str] = "dc-pdd"
    paper: ClassVar[str] = "Zhang et al. 2024"
    needs: ClassVar[Need] = Need.TOKENS | Need.REFERENCE

    def __post_init__(self) -> None:
        if not self.bound > 0:
            raise SpecError(f"expected a bound above 0, got {self.bound:g}: the default is 10")

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The calibrated probability of each text, in nats.

        Raises:
            NotApplicable: nobody knows which token each is.
        """
        del rng
        assert view.reference is not None
        corpus, tokens = (
            token_signals.read_tokens(view, records) for records in (view.reference, view.records)
        )
        return Scores(token_signals.rare_probability(tokens, corpus, self.bound, self.vocabulary))
