"""Refuse numbers that are no natural logarithms of probabilities, and say what they look like."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from divulge.core.tokens import Tokens
from divulge.errors import DataError
from divulge.targets.token_alignment import check_alignment, check_padding

ROUNDING = 1e-3
"""What half precision leaves of a log-probability of 0."""

SMALLEST = -1000.0
"""No softmax in float32 is below exp of it: smaller numbers stand for something else."""

_HALF = np.log(0.5)

SLACK = 0.02
"""By how much, in nats, rounding may move a log-probability over a limit."""

WRONG = 0.01
"""The share of tokens over a limit from which on it is no rounding."""

FEWEST = 20
"""So many tokens in the tenth below a limit, and none above it, are no chance: probabilities fall
smoothly from one third to one half."""

_LISTS = 10
"""Lists of which none rises anywhere from which on it is no chance."""

_EXACT = 2.0**53
"""Whole numbers below it are exact in float64."""

Numbers = Float64[np.ndarray, " tokens"]


def check_forms(path: Path, column: str, tokens: Tokens) -> None:
    """Refuse a table whose numbers mean something else.

    Args:
        path: the file, for messages.
        column: the one with the log-probabilities.
        tokens: all that it holds.

    Raises:
        DataError: says what the numbers look like, and what to do.
    """
    others = {"reference_logprobs": tokens.reference, "shadow_logprobs": tokens.shadow_logprob}
    for name, values in {column: tokens.logprob, **others}.items():
        if values is not None and values.size:
            _check_logarithms(f"{path}, column {name!r}", values.reshape(-1))
    if tokens.shadow is not None and tokens.shadow.size:
        _check_logarithms(f"{path}, column 'shadow_means'", tokens.shadow.reshape(-1))
    _check_references(f"{path}, column 'reference_logprobs'", tokens)
    for name, values in others.items():
        for model in values if values is not None else ():
            check_alignment(f"{path}, column {name!r}", tokens, model)
    check_padding(f"{path}, column {column!r}", tokens)
    _check_lists(f"{path}, column {column!r}", tokens)
    _check_spread(path, tokens)
    if tokens.top is not None:
        _check_base(f"{path}, column {column!r}", tokens.logprob[~tokens.top])


def check_lowercase(path: Path, column: str, lists: Sequence[np.ndarray]) -> None:
    """Refuse lists of texts in lower case whose numbers mean something else; errors likewise."""
    where = f"{path}, column {column!r}"
    _check_logarithms(where, np.concatenate(lists))
    _refuse_sums(where, [len(part) for part in lists])


def check_ranks(path: Path, rank: Numbers) -> None:
    """Refuse ranks that count from 0.

    Raises:
        DataError: a rank is below 1, or no whole number.
    """
    if (rank < 1).any() or (rank != np.round(rank)).any():
        raise DataError(
            f"expected ranks from 1 for the likeliest token in {path}, column 'rank', got "
            f"{rank.min():g}: add 1 if they count from 0"
        )


def check_flags(path: Path, column: str, values: Float64[np.ndarray, "..."]) -> None:
    """Refuse numbers where yes or no is expected.

    Raises:
        DataError: a number is neither 0 nor 1.
    """
    if not np.isin(values, (0, 1)).all():
        odd = values[~np.isin(values, (0, 1))][0]
        raise DataError(
            f"expected 1 or 0 (true or false) in {path}, column {column!r}, got {odd:g}: say of "
            "each whether it is so, or leave the column out"
        )


def read_ids(path: Path, ids: Numbers | None) -> Int64[np.ndarray, " tokens"] | None:
    """Numbers of tokens as whole ones; None where there are none.

    Raises:
        DataError: a number is no whole one.
    """
    if ids is None:
        return None
    if (ids != np.round(ids)).any() or (np.abs(ids) >= _EXACT).any():
        raise DataError(
            f"expected whole numbers that stand for tokens in {path}, column 'token_ids', got "
            "others: write the ids of the tokenizer, or leave the column out"
        )
    return ids.astype(np.int64)


def describe_base(tokens: Tokens) -> str:
    """What shows that logarithms are natural ones, in a sentence."""
    if tokens.top is None:
        return (
            "Log-probabilities are taken as natural logarithms, which nothing in the table shows: "
            "without top1 or rank another base cannot be told. It would change what is said of "
            "extraction, and no rank of an attack but that of surprising tokens."
        )
    others = tokens.logprob[~tokens.top]
    if not ((others > -1 + SLACK) & (others <= _HALF + SLACK)).any():
        return (
            "Log-probabilities are taken as natural logarithms, which nothing in the table shows: "
            "no token that is not the likeliest has a probability just below one half."
        )
    return "Log-probabilities of tokens that are not the likeliest are those of natural logarithms."


def _check_signs(where: str, values: Numbers) -> None:
    highest, lowest = float(values.max()), float(values.min())
    if highest > ROUNDING:
        if lowest >= 0 and highest <= 1:
            what = "numbers from 0 to 1: probabilities; take their logarithms"
        elif lowest >= 0:
            what = "positive numbers: losses; change their sign"
        else:
            what = (
                f"{np.mean(values > ROUNDING):.0%} of them above 0: take log_softmax of the logits"
            )
        raise DataError(f"expected log-probabilities, which are 0 at most, in {where}, got {what}")


def _check_logarithms(where: str, values: Numbers) -> None:
    _check_signs(where, values)
    lowest = float(values.min())
    if lowest < SMALLEST:
        few = "minus infinity" if np.isneginf(lowest) else f"numbers below {SMALLEST:g}"
        raise DataError(
            f"expected the log-probability of every token in {where}, got {few}, which stand for "
            "tokens that the server did not rank, or for a softmax in half precision: ask for the "
            "prompt's own tokens, or take log_softmax in float32"
        )


def _refuse_sums(where: str, counts: Sequence[int]) -> None:
    if max(counts) == 1 and len(counts) > 1:
        raise DataError(
            f"expected the log-probability of every token in {where}, got one number in each list: "
            "a sum or a mean; pass it as a column of numbers, as score="
        )


def _check_lists(where: str, tokens: Tokens) -> None:
    _refuse_sums(where, tokens.count.tolist())
    long = [part for part in tokens.split(tokens.logprob) if len(part) >= 5]
    if len(long) >= _LISTS and all((np.diff(part) <= 0).all() for part in long):
        raise DataError(
            f"expected the log-probability of every token in {where}, got lists that never rise: "
            "running sums; take their differences"
        )


def _check_references(where: str, tokens: Tokens) -> None:
    """Refuse a reference that says nothing of its own: it would vouch for texts it never read."""
    for values in tokens.reference:
        if len(values) > FEWEST and values.min() == values.max():
            got = f"{values[0]:g} for each of {len(values):,} tokens: placeholders"
        elif np.array_equal(values, tokens.logprob):
            got = "those of the audited model"
        else:
            continue
        raise DataError(
            f"expected the log-probabilities of another model in {where}, got {got}; ask the model "
            "before the fine-tuning, or leave the column out"
        )


def _check_spread(path: Path, tokens: Tokens) -> None:
    if tokens.mean is not None and (tokens.mean > ROUNDING).any():
        raise DataError(
            f"expected the expected log-probability of a token, which is 0 at most, in {path}, "
            "column 'mean', got positive numbers: an entropy; change its sign"
        )
    if tokens.sd is not None and (tokens.sd < 0).any():
        raise DataError(
            f"expected standard deviations in {path}, column 'sd', got some below 0: take the "
            "square root of the variance"
        )
    if tokens.mean is None:
        return
    if len(tokens.mean) > FEWEST and np.array_equal(tokens.mean, tokens.logprob):
        raise DataError(
            f"expected the mean log-probability over the vocabulary in {path}, column 'mean', got "
            "the log-probabilities of the tokens: weigh those of the whole vocabulary by their "
            "probabilities, or leave mean and sd out"
        )
    if tokens.top is not None and tokens.top.any():
        # the likeliest token is at least as likely as the average one
        above = np.mean((tokens.mean > tokens.logprob + SLACK)[tokens.top])
        if above > WRONG:
            raise DataError(
                f"expected a mean log-probability over the vocabulary in {path}, column 'mean', "
                f"got one above that of the likeliest token for {above:.0%} of those that top1 or "
                "rank calls so: weigh log-probabilities by probabilities, with the same logarithm"
            )


def _check_base(where: str, others: Numbers) -> None:
    """Tokens that are not the likeliest have a probability of one half at most, and often nearly.

    Logarithms to base 10 exceed log(1/2), and those to base 2 keep below -1 = log2(1/2), as no
    natural ones do of which some are just below. In a small table nothing may show the latter.
    """
    over = np.mean(others > _HALF + SLACK) if len(others) else 0.0
    if over > WRONG:
        raise DataError(
            f"expected natural logarithms in {where}, got {over:.0%} of the tokens that top1 or "
            "rank does not call the likeliest with a probability above one half: multiply "
            "logarithms to base 10 by 2.302585; if they are natural, top1 or rank is of other "
            "tokens"
        )
    above, below = np.sum(others > -1 + SLACK), np.sum((others <= -1 + SLACK) & (others > -1.1))
    if not above and below >= FEWEST:
        raise DataError(
            f"expected natural logarithms in {where}, got none above -1 for a token that is not "
            f"the likeliest, and {below} just below: logarithms to base 2; multiply them by "
            "0.693147"
        )
