"""Refuse tables whose lists are about other tokens than those of the same text and place."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64

from divulge.core.tokens import Tokens
from divulge.errors import DataError

ALIGNED = 500
"""So many tokens of two language models are correlated beyond chance."""

APART = 0.2
"""By how much the correlation with the numbers of a neighbour is higher where they are shifted."""

UNRELATED = 3.0
"""Standard deviations of the correlation of numbers that have nothing to do with each other."""

PADS = 3
"""Equal numbers at an end of a text: more than half of all texts do not end so by chance."""

MANY_TEXTS = 20
"""So many texts of a set do not have such a thing in common by chance."""

ALL, NONE = 0.95, 0.05
"""Shares of texts that are nearly all, and nearly none."""

Numbers = Float64[np.ndarray, " tokens"]


def check_alignment(where: str, tokens: Tokens, values: Numbers) -> None:
    """Refuse another model's numbers that are about other tokens than those of the same place.

    What one language model finds hard another does too, so that both numbers of a token are
    correlated: not at all with those of other tokens, but with those of a neighbour if they are
    shifted.

    Args:
        where: the file and the column, for messages.
        tokens: all that the table holds.
        values: of the other model.

    Raises:
        DataError: they do.
    """
    if len(values) < ALIGNED or values.min() == values.max():
        return
    text = np.repeat(np.arange(len(tokens)), tokens.count)
    here = _correlation(tokens.logprob, values)
    inside = text[1:] == text[:-1]
    pairs = {
        "before": (tokens.logprob[1:][inside], values[:-1][inside]),
        "after": (tokens.logprob[:-1][inside], values[1:][inside]),
    }
    there = {side: _correlation(*pair) for side, pair in pairs.items()}
    side = max(there, key=lambda name: there[name])
    if there[side] > max(here, 0.0) + APART:
        raise DataError(
            f"expected the log-probability of the same token in {where}, got numbers that fit the "
            f"token {side} it (correlation {there[side]:.2f}, and {here:.2f} with its own): they "
            "are shifted by one; ask both models about the same tokens, and drop the same ones"
        )
    if here < UNRELATED / np.sqrt(len(values)):
        raise DataError(
            f"expected the log-probability of the same token in {where}, got numbers that have "
            f"nothing to do with those of the audited model (correlation {here:.2f} over "
            f"{len(values):,} tokens): they are about other texts, or in another order"
        )


def _correlation(own: Numbers, other: Numbers) -> float:
    if len(own) < ALIGNED / 2 or own.min() == own.max() or other.min() == other.max():
        return 0.0
    return float(np.corrcoef(own, other)[0, 1])


def check_padding(where: str, tokens: Tokens) -> None:
    """Refuse texts that were filled up to one length with tokens that are none of theirs.

    Args:
        where: the file and the column, for messages.
        tokens: all that the table holds.

    Raises:
        DataError: they were.
    """
    count = tokens.count
    if len(tokens) < MANY_TEXTS or count.min() != count.max() or count[0] < PADS:
        return
    for values in (tokens.logprob, tokens.ids):
        if values is None:
            continue
        table = values.reshape(len(tokens), -1)
        for at, ends in (("end", table[:, -PADS:]), ("beginning", table[:, :PADS])):
            filled = int((ends == ends[:, :1]).all(axis=1).sum())
            if filled > len(tokens) / 2:
                raise DataError(
                    f"expected the tokens of each text alone in {where}, got {count[0]:,} for each "
                    f"text, and {filled:,} of {len(tokens):,} texts with one number {PADS} times "
                    f"at the {at}: padding; leave out what the attention mask leaves out"
                )


def check_vocabulary(path: Path, tokens: Tokens, member: Bool[np.ndarray, " texts"]) -> None:
    """Refuse members and others that were cut into tokens in two ways, as token ids show.

    Args:
        path: the file, for messages.
        tokens: all that the table holds.
        member: which texts are members.

    Raises:
        DataError: they share no token, or one token begins the texts of one set alone.
    """
    if tokens.ids is None or min(member.sum(), (~member).sum()) < MANY_TEXTS:
        return
    of_members = np.repeat(member, tokens.count)
    if not np.intersect1d(tokens.ids[of_members], tokens.ids[~of_members]).size:
        raise DataError(
            f"expected token ids of one tokenizer in {path}, column 'token_ids', got no id that "
            "members and others share: ask about both sets with one tokenizer"
        )
    first = tokens.ids[tokens.start[:-1]]
    for mine, name in ((member, "members"), (~member, "others")):
        ids, counts = np.unique(first[mine], return_counts=True)
        mark = ids[counts.argmax()]
        if counts.max() > ALL * mine.sum() and (first[~mine] == mark).mean() < NONE:
            raise DataError(
                f"expected texts of both sets to be written alike in {path}, got the id {mark} at "
                f"the beginning of nearly all {name} and of nearly no other text: a mark such as "
                "BOS; write it in both sets, or in none"
            )
