"""Audits of several models that were trained alike give one bound together."""

from collections.abc import Sequence

import numpy as np

from divulge.core import Estimate
from divulge.metrics.epsilon.lower_bound import epsilon_lower_bound
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.membership import Member, Score


def pooled_bound(
    scores: Sequence[Score],
    members: Sequence[Member],
    delta: float = 0.0,
    *,
    blind: bool,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The largest ε that audits of several models refute together.

    The models are trained independently, and a fair coin of its own decides for each model and
    record whether the one is trained on the other. Together they are one training, private for
    each of these coins, although models share records. What is valid depends on the scores:

    * Scores of one model that do not depend on the coins of the others are guesses about one run
      with as many records as all audits have together. They are ranked within each model first.
    * A model's shadows may be other models under audit. Then a guess about one coin rests on other
      coins, and all guesses can be right or wrong together, whatever the training is: let each be
      the parity of the others. No bound for one run survives that. What does: of T bounds with an
      error of 5 % · k / T each, the k-th highest exceeds ε with a probability of 5 % at most,
      however they depend on each other, because k of them have to be wrong at once (Markov's
      inequality). k is half of T, rounded up.

    Args:
        scores: one array of scores a model.
        members: true for the records that each model was trained on; a fair coin for each record.
        delta: the δ of the guarantee to be refuted.
        blind: whether no model's scores depend on what the other models were trained on.
        confidence: the probability that the pooled bound does not exceed the true ε.

    References:
        Rüger (1978), Das maximale Signifikanzniveau des Tests "Lehne H0 ab, wenn k unter n
        gegebenen Tests zur Ablehnung führen".
    """
    if blind:
        ranks = [_ranks(score) for score in scores]
        return epsilon_lower_bound(
            np.concatenate(ranks),
            np.concatenate(list(members)),
            delta,
            drawn="coins",
            confidence=confidence,
        )
    least = -(-len(scores) // 2)
    # Rüger: k of T bounds have to be wrong at once (Markov's inequality)
    error = (1 - confidence) * least / len(scores)
    bounds = sorted(
        epsilon_lower_bound(score, member, delta, drawn="coins", confidence=1 - error).value
        for score, member in zip(scores, members, strict=True)
    )
    bound = bounds[-least]
    return Estimate(bound, bound, None)


def _ranks(score: Score) -> Score:
    """From 0 to 1; ties share the mean of their ranks."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    mean: Score = ((last - (count - 1) / 2) / len(score))[place]
    return mean
