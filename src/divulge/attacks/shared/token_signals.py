"""What the log-probabilities of a text's tokens say of its membership: one number a text.

Each is higher for members. None depends on the other texts of the table.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float64

from divulge.core import ModelView, Records
from divulge.core.tokens import Tokens, as_token_target
from divulge.errors import NotApplicable

Signal = Float64[np.ndarray, " texts"]
Numbers = Float64[np.ndarray, " tokens"]

SMALLEST = 1e-9
"""Nats a token, taken off each mean: a text that the model is certain of has a ratio, too."""

SMALLEST_SD = 1e-6
"""Nats; below it a model is certain of the next token, and its own log-probability is 0."""


def read_tokens(view: ModelView, records: Records) -> Tokens:
    """What the target says of the tokens of these texts.

    Raises:
        NotApplicable: it is no language model.
    """
    return as_token_target(view.target).tokens(records.x)


def mean_logprob(tokens: Tokens) -> Signal:
    """Minus the loss of a text, in nats a token."""
    return tokens.average(tokens.logprob)


def per_packed_byte(tokens: Tokens) -> Signal:
    """Minus the loss by the bytes of the packed text, in nats a token and byte.

    Raises:
        NotApplicable: the texts are not known.
    """
    if tokens.size is None:
        raise NotApplicable("expected the texts, to pack them, got none: add a column 'text'")
    return np.asarray(mean_logprob(tokens) / tokens.size)


def ratio(numerator: Signal, denominator: Signal) -> Signal:
    """One mean log-probability by another; both are 0 at most."""
    return np.asarray((numerator - SMALLEST) / (denominator - SMALLEST))


def by_lower_case(tokens: Tokens) -> Signal:
    """The loss of a text in lower case, by that of the text as it is.

    Raises:
        NotApplicable: what the model says of texts in lower case is not known, or all are written
            so.
    """
    if tokens.lowercase is None:
        raise NotApplicable(
            "expected the log-probabilities of the texts in lower case, got none: add a column "
            "'lowercase_logprobs', or pass CausalTarget(pipeline, lowercase=True)"
        )
    own = mean_logprob(tokens)
    if np.array_equal(tokens.lowercase, own):
        raise NotApplicable(
            "expected texts with capital letters, got texts in lower case alone: there is nothing "
            "to compare"
        )
    return ratio(tokens.lowercase, own)


def small_gradient(tokens: Tokens) -> Signal:
    """Minus the log of the norm of a text's gradient by the weights.

    Raises:
        NotApplicable: the norm is not known.
    """
    if tokens.gradient_norm is None:
        raise NotApplicable(
            "expected the norm of the gradient of each text's loss by the weights, got none: add a "
            "column 'gradient_norm', or pass CausalTarget(pipeline, gradients=True)"
        )
    # of a text that the model is certain of it may be zero
    return np.asarray(-np.log(np.maximum(tokens.gradient_norm, np.finfo(np.float64).tiny)))


def lowest(tokens: Tokens, values: Numbers, share: float) -> Signal:
    """The mean of the lowest numbers of each text: of this share of its tokens, or of one.

    Args:
        tokens: of the texts.
        values: one a token.
        share: of the tokens.
    """
    lowest_of = (_lowest(part, share) for part in tokens.split(values))
    return np.array([part.sum() / len(part) for part in lowest_of])


def standardise(tokens: Tokens) -> Numbers:
    """Each log-probability in standard deviations above what the model expects there.

    Raises:
        NotApplicable: the spread over the vocabulary is not known.
    """
    if tokens.mean is None or tokens.sd is None:
        raise NotApplicable(
            "expected the mean and the standard deviation of the log-probability over the "
            "vocabulary at each token, got none: add columns 'mean' and 'sd'"
        )
    # Min-K%++, equation 3; where the model is certain, numerator and denominator are 0
    return np.asarray((tokens.logprob - tokens.mean) / np.maximum(tokens.sd, SMALLEST_SD))


def surprising(tokens: Tokens, share: float, entropy: float) -> Signal:
    """The mean log-probability of tokens that surprise a model which was sure of others.

    Args:
        tokens: of the texts.
        share: of the tokens of a text, those with the lowest log-probability.
        entropy: in nats, below which a model is sure. Where no token of that share is below it,
            all of them count.

    Raises:
        NotApplicable: the entropy at each token is not known.
    """
    if tokens.mean is None:
        raise NotApplicable(
            "expected the mean log-probability over the vocabulary at each token, which is minus "
            "the entropy, got none: add a column 'mean'"
        )
    means = []
    for logprob, mean in zip(tokens.split(tokens.logprob), tokens.split(tokens.mean), strict=True):
        low = np.argsort(logprob, kind="stable")[: _size(len(logprob), share)]
        sure = low[-mean[low] < entropy]
        means.append(logprob[sure if len(sure) else low].mean())
    return np.array(means)


def gains(tokens: Tokens) -> Numbers:
    """By how much each log-probability is above the mean of the references, in nats.

    Raises:
        NotApplicable: there is no reference.
    """
    if not len(tokens.reference):
        raise NotApplicable(
            "expected log-probabilities of the same tokens by another model, such as the one that "
            "was fine-tuned, got none: add a column 'reference_logprobs', or to a model in memory "
            "references"
        )
    return np.asarray(tokens.logprob - tokens.reference.mean(axis=0))


def window_votes(tokens: Tokens, gain: Numbers, sizes: tuple[int, ...]) -> Signal:
    """The share of windows of consecutive tokens whose gains sum to more than 0, over sizes.

    Args:
        tokens: of the texts.
        gain: of each token.
        sizes: of windows, each with one vote; those longer than the text have none, and a text
            shorter than all of them is one window.
    """
    votes = []
    for part in tokens.split(gain):
        sums = np.concatenate([[0.0], np.cumsum(part)])
        fitting = [size for size in sizes if size <= len(part)] or [len(part)]
        # equations 8 to 11: sums of windows, their signs, and the mean over sizes
        votes.append(np.mean([_rate(sums[size:] > sums[:-size]) for size in fitting]))
    return np.array(votes)


def _rate(votes: Bool[np.ndarray, " votes"]) -> float:
    return float(np.count_nonzero(votes) / len(votes))


def error_zone(tokens: Tokens, gain: Numbers) -> Signal:
    """The share of rises in all movement at tokens that are not the model's first choice.

    That is P / (P + N), which ranks texts as P / N does, and is finite. Texts without such a token
    rank highest, and those where nothing moved in the middle.

    Args:
        tokens: of the texts.
        gain: of each token.

    Raises:
        NotApplicable: nobody knows which tokens are the first choice, or all are.
    """
    if tokens.top is None or tokens.top.all():
        got = "none" if tokens.top is None else "first choices alone"
        raise NotApplicable(
            "expected tokens of which it is known that they are not the model's first choice, got "
            f"{got}: add a column 'top1' or 'rank'"
        )
    shares = []
    for part, top in zip(tokens.split(gain), tokens.split(tokens.top), strict=True):
        missed = part[~top]
        shares.append(_share_of_rises(missed) if len(missed) else 1.0)
    return np.array(shares)


def share_of_rises(tokens: Tokens, gain: Numbers) -> Signal:
    """The share of rises in all movement at the tokens of each text; one half if nothing moved."""
    return np.array([_share_of_rises(part) for part in tokens.split(gain)])


def rare_probability(
    tokens: Tokens, corpus: Tokens, bound: float, vocabulary: int | None = None
) -> Signal:
    """The mean of p log 1/q over the first occurrences of a text's tokens, in nats.

    Args:
        tokens: of the texts.
        corpus: of other texts, in which tokens are counted for their frequencies q.
        bound: above which no token counts for more.
        vocabulary: how many tokens there are; those of both unless given.

    Raises:
        NotApplicable: nobody knows which token each is.
    """
    if tokens.ids is None or corpus.ids is None:
        raise NotApplicable(
            "expected which token each is, to count them in other texts, got none: to a table add "
            "a column 'token_ids'"
        )
    known, place = np.unique(np.concatenate([corpus.ids, tokens.ids]), return_inverse=True)
    counts = np.bincount(place[: len(corpus.ids)], minlength=len(known))
    size = max(len(known), vocabulary or 0)
    q = (counts + 1) / (len(corpus.ids) + size)
    divergence = np.exp(tokens.logprob) * -np.log(q[place[len(corpus.ids) :]])
    parts = zip(tokens.split(np.minimum(divergence, bound)), tokens.split(tokens.ids), strict=True)
    return np.array([part[np.unique(ids, return_index=True)[1]].mean() for part, ids in parts])


def _share_of_rises(part: Numbers) -> float:
    up, down = part[part > 0].sum(), -part[part < 0].sum()
    return float(up / (up + down)) if up + down > 0 else 0.5


SIGNALS: tuple[Callable[[Tokens], Signal], ...] = (
    mean_logprob,
    per_packed_byte,
    lambda tokens: lowest(tokens, tokens.logprob, 0.2),
    lambda tokens: lowest(tokens, standardise(tokens), 0.2),
    lambda tokens: surprising(tokens, 0.2, 2.0),
    by_lower_case,
    lambda tokens: tokens.average(gains(tokens)),
    lambda tokens: lowest(tokens, gains(tokens), 0.2),
    lambda tokens: window_votes(tokens, gains(tokens), (2, 4, 9, 18, 40)),
    lambda tokens: error_zone(tokens, gains(tokens)),
)
"""All that one number a text can be made of without the weights, as far as a table allows."""


def all_signals(tokens: Tokens) -> Float64[np.ndarray, "texts signals"]:
    """Every signal that the table allows, one column each."""
    columns = []
    for signal in SIGNALS:
        try:
            columns.append(signal(tokens))
        except NotApplicable:  # a column of the table is missing
            continue
    return np.column_stack(columns)


def _size(tokens: int, share: float) -> int:
    return max(1, math.floor(share * tokens))


def _lowest(values: Numbers, share: float) -> Float64[np.ndarray, " low"]:
    size = _size(len(values), share)
    return np.partition(values, size - 1)[:size]
