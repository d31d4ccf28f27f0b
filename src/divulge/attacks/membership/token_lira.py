"""LiRA on texts: their loss under fine-tunes with the text and without it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import token_signals
from divulge.attacks.shared.token_shadows import describe_sides, log_density, read_shadows
from divulge.core import ModelView, Need, Scores


@check_arguments
@dataclass(frozen=True, slots=True)
class TokenLiRA:
    """Likelihood ratio of a text's mean log-probability under fine-tunes with and without it.

    Each side is a Gaussian around the text's own mean, with one variance for all texts. Without
    shadow models that were trained on candidates, the score is the number of standard deviations
    above the others' mean.

    References:
        Carlini et al. (2022), Membership inference attacks from first principles, algorithm 1 and
        section VI (one variance for all), with the mean log-probability of a text as the signal.
        Departure: a text that no shadow model was trained on, or all, has the mean gap of others.
    """

    name: ClassVar[str] = "token-lira"
    paper: ClassVar[str] = "Carlini et al. 2022"
    needs: ClassVar[Need] = Need.TOKENS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log likelihood ratio of each text; offline, its standard score.

        Raises:
            NotApplicable: there are no shadow models, or too few.
        """
        del rng
        tokens = token_signals.read_tokens(view, view.records)
        shadows = read_shadows(view, tokens)
        target, sides = token_signals.mean_logprob(tokens), describe_sides(shadows)
        if not shadows.online:
            return Scores((target - sides.outside) / np.sqrt(sides.variance_outside))
        # algorithm 1: the ratio of the two densities, in logarithms
        ratio = log_density(target, sides.inside, sides.variance_inside)
        return Scores(ratio - log_density(target, sides.outside, sides.variance_outside))
