"""Lists of a table of tokens are about the tokens that they stand beside, and about no others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divulge.core.tokens import Tokens
from divulge.errors import DataError
from divulge.targets.token_alignment import check_alignment, check_padding, check_vocabulary

from ..token_tables import draw

WHERE = "table.jsonl, column 'x'"
PATH = Path("table.jsonl")


def table(texts: int = 60, seed: int = 0, length: int | None = None) -> Tokens:
    rng = np.random.default_rng(seed)
    tokens, _ = draw(texts, 0.0, rng)
    if length is None:
        return tokens
    start = np.arange(0, len(tokens.logprob) - length, length)
    rows = np.arange(start[-1])
    assert tokens.ids is not None
    return Tokens(start, tokens.logprob[rows], tokens.reference[:, rows], ids=tokens.ids[rows])


@pytest.mark.parametrize(
    ("moved", "why"),
    [
        (lambda values: np.roll(values, 1), "fit the token after it .* shifted by one"),
        (lambda values: np.roll(values, -1), "fit the token before it .* shifted by one"),
        (lambda values: values[::-1], "nothing to do with those of the audited model"),
        (lambda values: np.roll(values, 300), "nothing to do with those of the audited model"),
        (lambda values: -5 - values, "nothing to do with those of the audited model"),
    ],
)
def test_numbers_of_other_tokens_are_refused(
    moved: Callable[[np.ndarray], np.ndarray], why: str
) -> None:
    tokens = table()
    with pytest.raises(DataError, match=why):
        check_alignment(WHERE, tokens, moved(tokens.reference[0]))


@pytest.mark.parametrize("noise", [0.0, 1.0, 5.0])
def test_another_model_that_agrees_little_is_none_of_other_tokens(noise: float) -> None:
    """With noise of 5 nats beside 1.5 of the numbers the correlation is about .3."""
    for seed in range(30):
        tokens, rng = table(seed=seed), np.random.default_rng(seed)
        values = tokens.reference[0] + noise * rng.normal(size=len(tokens.logprob))
        check_alignment(WHERE, tokens, values)
    few = table(10)
    check_alignment(WHERE, few, few.reference[0][::-1].copy())  # too few to tell


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("by_ids", [True, False])
def test_texts_filled_up_to_one_length_are_refused(end: bool, by_ids: bool) -> None:
    tokens = table(length=20)
    check_padding(WHERE, tokens)
    assert tokens.ids is not None
    at = np.arange(len(tokens.logprob)).reshape(-1, 20)[:, 15:] if end else None
    at = np.arange(len(tokens.logprob)).reshape(-1, 20)[:, :5] if at is None else at
    logprob, ids = tokens.logprob.copy(), tokens.ids.copy()
    (ids if by_ids else logprob)[at.ravel()] = 0
    with pytest.raises(DataError, match=f"at the {'end' if end else 'beginning'}: padding"):
        check_padding(WHERE, replace(tokens, logprob=logprob, ids=ids))


def test_sets_that_were_cut_in_two_ways_are_refused() -> None:
    tokens, member = table(), np.arange(60) < 30
    assert tokens.ids is not None
    check_vocabulary(PATH, tokens, member)
    others = tokens.ids + 1000 * np.repeat(member, tokens.count)
    with pytest.raises(DataError, match="no id that members and others share"):
        check_vocabulary(PATH, replace(tokens, ids=others), member)
    for marked, name in ((member, "members"), (~member, "others")):
        ids = tokens.ids.copy()
        ids[tokens.start[:-1][marked]] = 999
        with pytest.raises(DataError, match=f"the id 999 at the beginning of nearly all {name}"):
            check_vocabulary(PATH, replace(tokens, ids=ids), member)
    ids = tokens.ids.copy()
    ids[tokens.start[:-1]] = 999
    check_vocabulary(PATH, replace(tokens, ids=ids), member)
