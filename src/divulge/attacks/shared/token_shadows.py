"""What shadow fine-tunes say of texts, each with the text in its training or without it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from divulge.attacks.shared.shadow_statistics import in_out_means, log_probability
from divulge.core import ModelView
from divulge.core.tokens import Tokens
from divulge.errors import NotApplicable

Signal = Float64[np.ndarray, " texts"]
Means = Float64[np.ndarray, "shadows texts"]
Sides = Bool[np.ndarray, "shadows texts"]


class TextShadows(NamedTuple):
    """Shadow fine-tunes on the texts that are scored."""

    mean: Means
    """The mean log-probability of each text under each."""
    inside: Sides
    """Which texts each was trained on."""
    logprob: Float64[np.ndarray, "shadows tokens"] | None = None
    """The log-probability of each token, where it is known."""

    @property
    def online(self) -> bool:
        """Whether some were trained on texts that are scored."""
        return bool(self.inside.any())

    def without(self, k: int) -> "TextShadows":
        """All but one."""
        parts = (None if part is None else np.delete(part, k, axis=0) for part in self)
        return TextShadows(*parts)  # type: ignore[arg-type]


class SideMeans(NamedTuple):
    """Both sides of every text: shadow models with it, and without it."""

    inside: Signal
    outside: Signal
    variance_inside: float
    """Around each text's own mean, over all texts."""
    variance_outside: float


def read_shadows(view: ModelView, tokens: Tokens) -> TextShadows:
    """The shadow fine-tunes of a table, or those that were trained for the audit.

    Args:
        view: with the candidates.
        tokens: of the candidates.

    Raises:
        NotApplicable: there are none.
    """
    if view.shadows is not None:
        return TextShadows(log_probability(view.shadows.phi).T, view.shadows.member.T)
    if tokens.shadow is None or tokens.inside is None:
        raise NotApplicable(
            "expected the log-probabilities of each text under shadow fine-tunes, got none: add "
            "columns 'shadow_logprobs' or 'shadow_means', and 'shadow_members', or give a model in "
            "memory a function that fine-tunes, as shadows"
        )
    return TextShadows(tokens.shadow, tokens.inside, tokens.shadow_logprob)


def describe_sides(shadows: TextShadows) -> SideMeans:
    """The means of both sides, and their variances.

    Where a text was in all shadow models, or in none, the missing mean is the other one moved by
    the mean gap of the texts that have both.

    Raises:
        NotApplicable: no text is in two shadow models, or out of two.
    """
    means = in_out_means([(shadows.mean.T, shadows.inside.T)])
    inside = _spread(shadows.mean, shadows.inside, means.inside) if shadows.online else 1.0
    outside = _spread(shadows.mean, ~shadows.inside, means.outside)
    return SideMeans(means.inside, means.outside, inside, outside)


def log_density(target: Signal, mean: Signal, variance: float) -> Signal:
    """The log density of a Gaussian, but for a constant."""
    return np.asarray(-0.5 * np.log(variance) - (target - mean) ** 2 / (2 * variance))


def _spread(values: Means, side: Sides, mean: Signal) -> float:
    """The variance around the means of texts, with one degree of freedom a text gone into them."""
    freedom = np.maximum(side.sum(axis=0) - 1, 0).sum()
    if not freedom:
        raise NotApplicable(
            "expected texts with two shadow models or more on a side, trained on the text or not, "
            "got none: train more on random halves of the texts"
        )
    squares = np.where(side, (values - mean) ** 2, 0.0).sum()
    return float(squares / freedom) or 1.0  # shadow models that agree show no spread
