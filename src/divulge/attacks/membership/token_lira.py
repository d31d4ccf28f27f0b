"""LiRA on texts: their loss under fine-tunes with the text and without it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import token_signals
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

Means = Float64[np.ndarray, "shadows texts"]


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
    """

    name: ClassVar[str] = "token-lira"
    paper: ClassVar[str] = "Carlini et al. 2022"
    needs: ClassVar[Need] = Need.TOKENS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log likelihood ratio of each text; offline, its standard score.

        Raises:
            NotApplicable: there are no shadow models, or a text has none without it.
        """
        del rng
        tokens = token_signals.read_tokens(view, view.records)
        if tokens.shadow is None or tokens.inside is None:
            raise NotApplicable(
                "expected the mean log-probability of each text under shadow fine-tunes, got none: "
                "audit a table with columns 'shadow_means' and 'shadow_members'"
            )
        target, inside = token_signals.mean_logprob(tokens), tokens.inside
        sides = [inside] if inside.any() else []
        if any((side.sum(axis=0) < 2).any() for side in (~inside, *sides)):
            raise NotApplicable(
                "expected two shadow models or more with each text and without it, got fewer: "
                "train more on random halves of the texts"
            )
        outside = _log_density(target, tokens.shadow, ~inside)
        if not sides:
            mean, variance = _describe(tokens.shadow, ~inside)
            return Scores((target - mean) / np.sqrt(variance))
        # algorithm 1: the ratio of the two densities, in logarithms
        return Scores(_log_density(target, tokens.shadow, inside) - outside)


def _describe(
    shadow: Means, side: Bool[np.ndarray, "shadows texts"]
) -> tuple[Float64[np.ndarray, " texts"], float]:
    """Each text's mean over these shadow models, and the variance around it over all texts."""
    count = side.sum(axis=0)
    mean = np.where(side, shadow, 0.0).sum(axis=0) / count
    squares = np.where(side, (shadow - mean) ** 2, 0.0).sum()
    # one degree of freedom a text went into its mean; shadows that agree show no spread
    return mean, float(squares / (count - 1).sum()) or 1.0


def _log_density(
    target: Float64[np.ndarray, " texts"], shadow: Means, side: Bool[np.ndarray, "shadows texts"]
) -> Float64[np.ndarray, " texts"]:
    mean, variance = _describe(shadow, side)
    return np.asarray(-0.5 * np.log(variance) - (target - mean) ** 2 / (2 * variance))
