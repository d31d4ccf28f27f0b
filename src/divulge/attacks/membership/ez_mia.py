"""EZ-MIA: what fine-tuning moved at the tokens that the model still gets wrong."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import token_signals
from divulge.core import ModelView, Need, Scores


@check_arguments
@dataclass(frozen=True, slots=True)
class EZMIA:
    """At tokens that are not the target's first choice: rises of log-probability by all movement.

    Rises and falls are counted against the reference. The score P / (P + N) ranks texts as the
    published P / N does, and is finite where nothing fell.

    References:
        Ilić, Stanojević and Cvejoski (2026), Powerful training-free membership inference against
        fine-tuned autoregressive language models (arXiv 2601.12104), sections 3.3 and 3.4;
        appendix E for texts without a wrong token, which rank highest. Departure: the mean of
        several references is the reference.
    """

    name: ClassVar[str] = "ez-mia"
    paper: ClassVar[str] = "Ilić, Stanojević and Cvejoski 2026"
    needs: ClassVar[Need] = Need.TOKENS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The share of each text, from 0 to 1.

        Raises:
            NotApplicable: there is no reference, or first choices are not known.
        """
        del rng
        tokens = token_signals.read_tokens(view, view.records)
        return Scores(token_signals.error_zone(tokens, token_signals.gains(tokens)))
