"""Write what a language model says of a text as bytes, of any length, and read it again."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from divulge.core.tokens import Tokens, join_tokens
from divulge.errors import StoreError

_HEAD = 3
"""Numbers before all others: references, what else there is, and bytes when packed."""

_LISTS = ("mean", "sd", "top", "ids")
"""Lists of a number a token that a text may have; each stands for a power of two, from 1."""

_NUMBERS = ("lowercase", "gradient_norm")
"""Numbers that a text may have, behind the first three; each stands for a further power."""

_NONE = -1.0


def pack_tokens(tokens: Tokens) -> list[bytes]:
    """Each text by itself, as float64 numbers; without what shadow models say of it."""
    rows = [tokens.logprob, *tokens.reference]
    lists = 0
    for bit, name in enumerate(_LISTS):
        values = getattr(tokens, name)
        if values is not None:
            lists |= 1 << bit
            rows.append(_as_numbers(name, values))
    numbers = []
    for bit, name in enumerate(_NUMBERS, len(_LISTS)):
        values = getattr(tokens, name)
        if values is not None:
            lists |= 1 << bit
            numbers.append(values)
    head = [float(len(tokens.reference)), float(lists)]
    sizes = np.full(len(tokens), _NONE) if tokens.size is None else tokens.size
    of_texts = np.column_stack([sizes, *numbers])
    split = [tokens.split(row) for row in rows]
    return [
        np.concatenate([head, of_texts[k], *(parts[k] for parts in split)]).tobytes()
        for k in range(len(tokens))
    ]


def unpack_tokens(packed: Sequence[bytes]) -> Tokens:
    """What was packed, one text after the other; a list that a text lacks is left out.

    Args:
        packed: of one text or more.

    Raises:
        StoreError: the bytes are damaged.
    """
    return join_tokens([_unpack(np.frombuffer(part)) for part in packed])


def _unpack(numbers: Float64[np.ndarray, " numbers"]) -> Tokens:
    head, rest = numbers[:_HEAD], numbers[_HEAD:]
    whole = len(head) == _HEAD and all(map(math.isfinite, head)) and not (head % 1).any()
    references, lists, size = map(int, head) if whole else (0, -1, 0)
    named = [name for bit, name in enumerate(_LISTS) if lists >> bit & 1]
    single = [name for bit, name in enumerate(_NUMBERS, len(_LISTS)) if lists >> bit & 1]
    of_text, rest = rest[: len(single)], rest[len(single) :]
    rows, known = 1 + references + len(named), len(_LISTS) + len(_NUMBERS)
    if not 0 <= lists < 1 << known or references < 0 or not len(rest) or len(rest) % rows:
        raise StoreError(
            "expected the log-probabilities of the tokens of a text, got something else: delete "
            "answers.sqlite in the run folder, and ask again"
        )
    table = rest.reshape(rows, -1)
    return Tokens(
        np.array([0, table.shape[1]]),
        table[0],
        table[1 : 1 + references],
        size=None if size == _NONE else np.array([size]),
        **{
            name: _from_numbers(name, row)
            for name, row in zip(named, table[1 + references :], strict=True)
        },
        **{name: np.array([value]) for name, value in zip(single, of_text, strict=True)},
    )


def _as_numbers(name: str, values: np.ndarray) -> Float64[np.ndarray, " tokens"]:
    # ids are the bits of whole numbers, which float64 could not hold
    return values.astype(np.int64).view(np.float64) if name == "ids" else values.astype(np.float64)


def _from_numbers(name: str, row: Float64[np.ndarray, " tokens"]) -> np.ndarray:
    if name == "ids":
        return row.view(np.int64)
    return row != 0 if name == "top" else row
