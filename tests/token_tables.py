"""Small tables of token log-probabilities with a known truth."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from divulge.core import Membership, ModelView, Need, Records
from divulge.core.tokens import Tokens
from divulge.targets.token_target import TokenTableTarget
from divulge.testing.membership import Models, gives_one_finite_score_a_record
from divulge.testing.properties import GameSet, Property

SIZE, SHADOWS = 120, 8


def draw(
    texts: int, leak: float, rng: np.random.Generator, member: np.ndarray | None = None
) -> tuple[Tokens, np.ndarray]:
    """Tokens of a model that raises those of members by so many nats, and who is one.

    The vocabulary has 50 words; the reference draws Dirichlet distributions, and the target is a
    noisy copy of it: mean, sd and top are those of its whole distribution.
    """
    member = rng.permutation(texts) < texts // 2 if member is None else member
    count = rng.integers(8, 40, texts)
    start = np.concatenate([[0], np.cumsum(count)])
    base = rng.dirichlet(np.full(50, 0.1), int(start[-1])) + 1e-6
    base /= base.sum(axis=1, keepdims=True)
    at = (np.cumsum(base, axis=1) > rng.random((len(base), 1))).argmax(axis=1)
    rows = np.arange(len(base))
    logits = np.log(base) + rng.normal(0, 0.3, base.shape)
    logits[rows, at] += leak * np.repeat(member, count)
    logp = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    p = np.exp(logp)
    mean = (p * logp).sum(axis=1)
    sd = np.sqrt(np.maximum((p * logp**2).sum(axis=1) - mean**2, 0))
    reference = np.log(base)[rows, at]
    logprob, inside = logp[rows, at], rng.random((SHADOWS, texts)) < 0.5
    inside[:2], inside[2:4] = True, False
    of_texts = rng.normal(0, 0.2, inside.shape) + leak / 3 * (inside.astype(float) - member)
    said = logprob + np.repeat(of_texts, count, axis=1) + rng.normal(0, 0.2, (SHADOWS, len(base)))
    said = np.minimum(said, 0.0)
    lower = np.add.reduceat(np.log(base)[rows, at], start[:-1]) / count
    lower = np.minimum(lower + rng.normal(0, 0.2, texts), 0.0)  # another form, not learned
    norm = np.exp(rng.normal(0, 0.3, texts) - leak * member)
    return (
        Tokens(
            start, logprob, reference[None], mean, sd, logp.argmax(axis=1) == at,
            rng.integers(50, 200, texts), np.add.reduceat(said, start[:-1], axis=1) / count,
            inside, said, at, lower, norm,
        ),
        member,
    )  # fmt: skip


def write(path: Path, tokens: Tokens, member: np.ndarray, **columns: Sequence[Any]) -> Path:
    """A table of JSON lines with all that is known of tokens, and further columns."""
    assert tokens.mean is not None
    assert tokens.sd is not None
    assert tokens.top is not None
    lists = {
        "logprobs": tokens.logprob,
        "reference_logprobs": tokens.reference[0],
        "mean": tokens.mean,
        "sd": tokens.sd,
        "top1": tokens.top,
    }
    parts = {name: tokens.split(values) for name, values in lists.items()}
    if tokens.gradient_norm is not None:
        columns = {"gradient_norm": tokens.gradient_norm.tolist(), **columns}
    with path.open("w") as file:
        for row in range(len(tokens)):
            said = {name: part[row].tolist() for name, part in parts.items()}
            own = {name: values[row] for name, values in columns.items()}
            file.write(json.dumps({"member": int(member[row]), **said, **own}) + "\n")
    return path


class Reader:
    """A table whose texts can stand behind others, which members bear worse.

    Args:
        tokens: of all texts.
        member: which were trained on.
        leak: how much worse; 0 is not at all.
        seed: of what a text before does to any other.
    """

    def __init__(self, tokens: Tokens, member: np.ndarray, leak: float, seed: int) -> None:
        self._table = TokenTableTarget(tokens)
        self._member, self._leak, self._seed = member, leak, seed
        self.predict = self._table.predict

    @property
    def offers(self) -> Need:
        """What a table offers, and texts before texts."""
        return self._table.offers | Need.PREFIX

    def tokens(self, x: np.ndarray, after: np.ndarray | None = None) -> Tokens:
        """Of members all tokens are less likely behind non-members, and likelier behind members."""
        tokens = self._table.tokens(x)
        if after is None:
            return tokens
        rng = np.random.default_rng([self._seed, *after[:, 0].tolist()])
        moved = rng.normal(0, 0.1, len(self._member))
        moved += self._leak * (0.3 - 0.4 * self._member[after[:, 0]].mean()) * self._member
        factor = np.repeat(np.exp(moved[x[:, 0]]), tokens.count)
        return replace(tokens, logprob=tokens.logprob * factor)


@cache
def _game(seed: int, leak: float) -> GameSet:
    rng = np.random.default_rng([seed, 11])
    known = np.arange(2 * SIZE, 4 * SIZE)
    tokens, member = draw(4 * SIZE, leak, rng)
    rows = Records(np.arange(len(tokens))[:, None], np.zeros(len(tokens), np.int64))
    view = ModelView(
        Reader(tokens, member, leak, seed),
        rows.take(np.arange(2 * SIZE)),
        rows.take(known[~member[known]]),
        known_members=rows.take(known[member[known]]),
    )
    return GameSet((view,), (Membership(member[: 2 * SIZE]),))


class TokenTables(Models):
    """Games on the tokens of a language model's answers."""

    own: ClassVar[tuple[Property, ...]] = (gives_one_finite_score_a_record,)

    def leaky(self, seed: int = 0) -> GameSet:
        """Tokens of members are likelier."""
        return _game(seed, 1.5)

    def silent(self, seed: int) -> GameSet:
        """Tokens have nothing to do with membership."""
        return _game(seed, 0.0)
