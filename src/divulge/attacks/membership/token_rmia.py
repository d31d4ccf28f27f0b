"""RMIA on texts: does the target prefer a text more than shadow fine-tunes do?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import token_signals
from divulge.attacks.shared.shadow_statistics import (
    expected_likelihood,
    fit_in_out_factor,
    observed_in_out_means,
)
from divulge.attacks.shared.token_shadows import read_shadows
from divulge.core import ModelView, Need, Scores

WEIGHT = 0.5
"""Of shadow models with the text against those without: it is as likely a member as not."""


@check_arguments
@dataclass(frozen=True, slots=True)
class TokenRMIA:
    """Log-probability of a text, less the log of its mean likelihood under shadow fine-tunes.

    The likelihood is that of a token, the geometric mean over the text. Of shadow models with the
    text and without it the mean counts. Where there is one kind alone, the paper's line gives the
    other; it is fitted to texts that have both, or has a = 0.3.

    References:
        Zarifzadeh, Liu and Shokri (2024), Low-cost high-power membership inference attacks, eqs. 3
        to 5 and section 3.2. Departure: the score is the ratio of the text. The share of other
        texts that it beats, which the paper takes, ranks the same within one model.
    """

    name: ClassVar[str] = "token-rmia"
    paper: ClassVar[str] = "Zarifzadeh, Liu and Shokri 2024"
    needs: ClassVar[Need] = Need.TOKENS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log ratio of each text.

        Raises:
            NotApplicable: there are no shadow models.
        """
        del rng
        tokens = token_signals.read_tokens(view, view.records)
        shadows = read_shadows(view, tokens)
        means = observed_in_out_means([(np.exp(shadows.mean).T, shadows.inside.T)])
        expected = expected_likelihood(means, WEIGHT, fit_in_out_factor(means))
        tiny = np.finfo(np.float64).tiny
        return Scores(token_signals.mean_logprob(tokens) - np.log(np.maximum(expected, tiny)))
