"""Learn from shadow fine-tunes, each in the target's place, how a text of the training looks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import token_signals
from divulge.attacks.shared.shadow_statistics import in_out_means
from divulge.attacks.shared.token_shadows import (
    TextShadows,
    describe_sides,
    log_density,
    read_shadows,
)
from divulge.core import ModelView, Need, Scores
from divulge.core.tokens import Tokens
from divulge.errors import NotApplicable

FEWEST = 4
"""Fewest shadow models: each is compared with the others, some with the text and some without."""

FARTHEST = 8.0
"""Standard deviations from the mean beyond which a feature is cut."""

TURNS = 8
"""How many times the target is compared with all shadow models but one, another each time."""

_SIZES = (2, 4, 9, 18, 40)

Features = Float64[np.ndarray, "texts features"]
Numbers = Float64[np.ndarray, " tokens"]


@check_arguments
@dataclass(frozen=True, slots=True)
class TokenStack:
    """A logistic regression on how a model differs from the other shadow fine-tunes.

    Each shadow model takes the target's place and is compared with the others, with each text and
    without it: by the mean log-probability and LiRA's ratio of it, and, where the tokens are known
    under all of them, by each token. It is known who its members are, so the regression learns
    from all of them, and reads the target.

    Args:
        penalty: the inverse strength of its ridge penalty on standardised features.

    References:
        divulge's own, as `ShadowStack`. That a shadow model takes the target's place is from Shokri
        et al. (2017); features are those of the other attacks on tokens, with shadow models in the
        place of the reference.
    """

    penalty: float = 0.1

    name: ClassVar[str] = "token-stack"
    paper: ClassVar[str] = "divulge 2026"
    needs: ClassVar[Need] = Need.TOKENS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of each text's being a member.

        Raises:
            NotApplicable: there are fewer than four shadow models, or none with candidates.
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, StandardScaler
        from threadpoolctl import threadpool_limits

        del rng
        tokens = token_signals.read_tokens(view, view.records)
        shadows = read_shadows(view, tokens)
        if len(shadows.mean) < FEWEST or not shadows.online:
            raise NotApplicable(
                f"expected {FEWEST} or more shadow models that were trained on random halves of "
                f"these texts, got {len(shadows.mean) if shadows.online else 'none'}: train more"
            )
        lessons = np.concatenate(list(_lessons(tokens, shadows)))
        # in an order of their own, so that the order of the texts changes no digit
        order = np.lexsort(lessons.T)
        lessons, member = lessons[order, :-1], lessons[order, -1] > 0
        regression = make_pipeline(
            StandardScaler(),
            FunctionTransformer(np.clip, kw_args={"a_min": -FARTHEST, "a_max": FARTHEST}),
            LogisticRegression(C=self.penalty, max_iter=300, class_weight="balanced"),
        )
        with threadpool_limits(1):
            fitted = regression.fit(lessons, member)
            turns = range(min(TURNS, len(shadows.mean)))
            odds = [
                fitted.decision_function(compare(tokens, tokens.logprob, shadows.without(k)))
                for k in turns
            ]
        return Scores(np.mean(odds, axis=0))


def _lessons(tokens: Tokens, shadows: TextShadows) -> Iterator[Features]:
    """The features of all texts under each shadow model, and as the last whether it knew them."""
    for k, inside in enumerate(shadows.inside):
        own = shadows.mean[k] if shadows.logprob is None else shadows.logprob[k]
        yield np.column_stack([compare(tokens, own, shadows.without(k)), inside])


def compare(tokens: Tokens, own: np.ndarray, others: TextShadows) -> Features:
    """How a model differs from others, one row a text.

    Args:
        tokens: of the texts; its references are compared with too, as far as tokens are known.
        own: the model's log-probability of each token; or of each text, where the others' are.
        others: shadow models.
    """
    mean = own if len(own) == len(tokens) else tokens.average(own)
    sides = describe_sides(others)
    ratio = log_density(mean, sides.inside, sides.variance_inside)
    ratio -= log_density(mean, sides.outside, sides.variance_outside)
    columns = [mean - sides.outside, mean - sides.inside, ratio, sides.outside]
    if others.logprob is not None:
        columns += _compare_tokens(tokens, own, others)
    return np.column_stack(columns)


def _compare_tokens(tokens: Tokens, own: Numbers, others: TextShadows) -> Iterator[np.ndarray]:
    """The same of each token; and other attacks' signals, with these models as the reference."""
    assert others.logprob is not None
    of_tokens = np.repeat(others.inside, tokens.count, axis=1)
    inside, outside = in_out_means([(others.logprob.T, of_tokens.T)])
    # the log ratio of two Gaussians of one variance, but for that
    yield tokens.average((own - (inside + outside) / 2) * (inside - outside))
    references = [outside]
    if len(tokens.reference):
        references.append(tokens.reference.mean(axis=0))
        yield tokens.average(own - references[-1])
    for reference in references:
        gain = own - reference
        yield token_signals.lowest(tokens, gain, 0.2)
        yield token_signals.window_votes(tokens, gain, _SIZES)
        yield token_signals.share_of_rises(tokens, gain)
