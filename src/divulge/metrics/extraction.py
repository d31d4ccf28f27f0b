"""How often a language model completes a text verbatim, from log-probabilities alone."""

import math

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge.core import Estimate
from divulge.core.findings import Completions
from divulge.core.tokens import Tokens
from divulge.metrics.difference import subtract
from divulge.metrics.intervals import clopper_pearson, clustered_proportion

TRIES = (1, 100, 10_000)
"""Numbers of completions that are drawn for each text."""

CHANCE = 0.5
"""The chance that one of them is verbatim from which on a text counts as extracted."""


def is_extracted(
    logprob: Float64[np.ndarray, " texts"], tries: int, chance: float = CHANCE
) -> Bool[np.ndarray, " texts"]:
    """Which texts are (n, p)-discoverable: one of n completions is verbatim with probability p.

    Args:
        logprob: of the rest of each text, given how it begins, in nats.
        tries: n.
        chance: p.

    References:
        Hayes et al. (2025), Measuring memorization in language models via probabilistic extraction,
        definition 2 and section 3: 1 - (1 - q)^n >= p, where q is the probability of the rest.

    Examples:
        >>> is_extracted(np.log([0.5, 0.4, 0.01]), 1).tolist()
        [True, False, False]
        >>> is_extracted(np.log([0.5, 0.4, 0.01]), 69).tolist()  # 1 - 0.99^69 = 0.5002
        [True, True, True]
    """
    # definition 2 as (1 - q)^n <= 1 - p, in logarithms: a small q is lost in 1 - q
    with np.errstate(divide="ignore"):  # a completion that is certain
        missed = tries * np.log1p(-np.exp(np.minimum(logprob, 0.0)))
    return np.asarray(missed <= math.log1p(-chance) + 1e-12)


def measure_completions(
    tokens: Tokens,
    member: Bool[np.ndarray, " texts"],
    prefix: int,
    suffix: int,
    person: Int[np.ndarray, " texts"] | None = None,
) -> tuple[tuple[Completions, ...], tuple[int, int]]:
    """The shares of members and of non-members that the model completes, and their numbers.

    Args:
        tokens: of the texts.
        member: which of them were trained on.
        prefix: how many tokens of a text are given.
        suffix: how many further ones make up the completion; shorter texts are left out.
        person: whose text each is; None where each is somebody else's.

    Returns:
        One entry a way to ask, none where a group has no text that is long enough; and the numbers
        of members and non-members that are.
    """
    long = tokens.count >= prefix + suffix
    counts = int(np.sum(long & member)), int(np.sum(long & ~member))
    if not all(counts):
        return (), counts
    at = tokens.start[:-1][long, None] + np.arange(prefix, prefix + suffix)
    logprob = tokens.logprob[at].sum(axis=1)
    sides, whose = member[long], None if person is None else person[long]
    ways: list[tuple[int | None, Bool[np.ndarray, " texts"]]] = [
        (tries, is_extracted(logprob, tries)) for tries in TRIES
    ]
    if tokens.top is not None:
        ways.insert(0, (None, np.asarray(tokens.top[at].all(axis=1))))
    return tuple(_compare(tries, done, sides, whose) for tries, done in ways), counts


def _compare(
    tries: int | None,
    done: Bool[np.ndarray, " texts"],
    member: Bool[np.ndarray, " texts"],
    person: Int[np.ndarray, " texts"] | None,
) -> Completions:
    inside, outside = (
        _estimate(done[side], None if person is None else person[side])
        for side in (member, ~member)
    )
    return Completions(tries, inside, outside, subtract(inside, outside))


def _estimate(
    done: Bool[np.ndarray, " texts"], person: Int[np.ndarray, " texts"] | None
) -> Estimate:
    share = float(done.mean())
    if person is None:
        return Estimate(share, *clopper_pearson(int(done.sum()), len(done)))
    # texts of a person are alike: people are what was drawn
    _, own = np.unique(person, return_inverse=True)
    trials = np.bincount(own)
    if len(trials) < 2:
        return Estimate(share, 0.0, 1.0)
    return Estimate(share, *clustered_proportion(np.bincount(own, weights=done), trials))
