"""Rank texts by how much likelier they are to the target than to other language models."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import token_signals
from divulge.core import ModelView, Need, Scores


@check_arguments
@dataclass(frozen=True, slots=True)
class ReferenceRatio:
    """Mean log-probability of a text, less that under reference models.

    A good reference is the model before its fine-tuning. Of several the mean log-probability
    counts.

    References:
        Carlini et al. (2021), Extracting training data from large language models, section 5.2,
        and Mireshghallah et al. (2022), Quantifying privacy risks of masked language models,
        equation 4: the likelihood ratio, here a token.
    """

    name: ClassVar[str] = "reference-ratio"
    paper: ClassVar[str] = "Carlini et al. 2021"
    needs: ClassVar[Need] = Need.TOKENS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log likelihood ratio of each text, in nats a token.

        Raises:
            NotApplicable: there is no reference.
        """
        del rng
        tokens = token_signals.read_tokens(view, view.records)
        return Scores(tokens.average(token_signals.gains(tokens)))
