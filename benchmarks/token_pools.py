"""Fine-tunes of the small language model on halves of sets of texts, for `language_models`."""

import copy
import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks import fine_tunes, tiny_gpt
from divulge._util.random import stream
from divulge.core import Need
from divulge.core.tokens import Tokens


class Size(NamedTuple):
    """How much is trained."""

    before: int
    """Verses that the model reads before it is fine-tuned, and how often."""
    passes: int
    pools: int
    """Sets of further verses; each has fine-tunes of its own, and is one draw of the intervals."""
    texts: int
    """Verses of a pool."""
    models: int
    """Fine-tunes of a pool, each on its own random half."""
    targets: int
    """How many of them are attacked, with all others as their shadow models."""
    epochs: tuple[int, ...]
    """Of the first two kinds; `WINDOW` has three."""
    kinds: tuple[str, ...]

    def epochs_of(self, kind: str) -> tuple[int, ...]:
        """After how many epochs models of a kind are attacked."""
        return (3,) if kind == WINDOW else self.epochs


JOINED = 3
"""Verses that the model of `WINDOW` reads at a time, before it is fine-tuned on single ones."""

WINDOW = "full, 3 verses at a time"
"""A model that can read other verses before one; there are no shadow models."""

FULL = Size(6_000, 3, 4, 400, 8, 8, (1, 3, 10), ("full", "LoRA", WINDOW))
QUICK = Size(2_000, 1, 2, 240, 5, 5, (3,), ("full", WINDOW))


class Pool(NamedTuple):
    """The fine-tunes on halves of one set of texts."""

    member: np.ndarray
    """Which text each was trained on, shape (models, texts)."""
    tokens: Mapping[int, Sequence[Tokens]]
    """By epoch, what each says of all texts, and those that are attacked also in lower case and by
    the norms of gradients; none of `WINDOW`."""
    readers: Mapping[int, Sequence["Reader"]]
    """By epoch, the models that are attacked: the first ones."""


def split_texts(texts: Sequence[str], size: Size) -> list[Sequence[str]]:
    """The pools: what stands behind what the base model reads."""
    ends = [size.before + k * size.texts for k in range(size.pools + 1)]
    return [texts[a:b] for a, b in itertools.pairwise(ends)]


def fine_tune(kind: str, base: tiny_gpt.GPT, pool: Sequence[str], seed: int, size: Size) -> Pool:
    """Fine-tune on halves of a pool, whole or by adapters."""
    packed = np.array([len(zlib.compress(text.encode())) for text in pool])
    halves = stream(seed, "halves").random((size.models, size.texts)) < 0.5
    every = size.epochs_of(kind)
    tokens: dict[int, list[Tokens]] = {epoch: [] for epoch in every}
    readers: dict[int, list[Reader]] = {epoch: [] for epoch in every}
    for k, member in enumerate(halves[: size.targets] if kind == WINDOW else halves):
        inside = [text for text, used in zip(pool, member, strict=True) if used]
        begun = tiny_gpt.adapted(base) if kind == "LoRA" else copy.deepcopy(base)
        tuned = tiny_gpt.train(
            begun, inside, fine_tunes.RATES[kind == "LoRA"], 100 * seed + k, every
        )
        for epoch, model in zip(every, tuned, strict=True):
            if k < size.targets:
                readers[epoch].append(Reader(model, base, pool, packed))
            if kind != WINDOW:
                tokens[epoch].append(_read(model, base, pool, packed, attacked=k < size.targets))
    return Pool(halves, tokens, readers)


def _read(
    model: tiny_gpt.GPT,
    base: tiny_gpt.GPT,
    pool: Sequence[str],
    packed: np.ndarray,
    *,
    attacked: bool,
) -> Tokens:
    tokens = tiny_gpt.read(model, base, pool, packed)
    if not attacked:
        return tokens
    lower = tiny_gpt.mean_logprob(model, [text.lower() for text in pool])
    return replace(tokens, lowercase=lower, gradient_norm=tiny_gpt.gradient_norm(model, pool))


class Reader(NamedTuple):
    """A fine-tuned model that is asked about texts by their positions, also behind others."""

    model: tiny_gpt.GPT
    base: tiny_gpt.GPT
    texts: Sequence[str]
    packed: np.ndarray
    """Bytes of each text, packed by zlib."""
    offers: Need = Need.TOKENS | Need.SCORES | Need.FEATURES | Need.PREFIX

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean log-probability of each text."""
        tokens = self.tokens(x)
        return tokens.average(tokens.logprob)[:, None]

    def tokens(self, x: np.ndarray, after: np.ndarray | None = None) -> Tokens:
        """What the model says of each sign, behind as many of the last texts as it can read."""
        rows = x[:, 0].tolist()
        before = "" if after is None else self._fit([self.texts[k] for k in after[:, 0].tolist()])
        texts = [before + self.texts[row] for row in rows]
        tokens = tiny_gpt.read(self.model, self.base, texts, self.packed[rows])
        own = np.concatenate([
            np.arange(end - len(self.texts[row]), end)
            for row, end in zip(rows, tokens.start[1:].tolist(), strict=True)
        ])  # fmt: skip
        signs = replace(tokens, start=np.arange(tokens.start[-1] + 1), size=None).take(own)
        ends = np.concatenate([[0], np.cumsum([len(self.texts[row]) for row in rows])])
        said = replace(signs, start=ends, size=tokens.size)
        if after is not None:
            return said
        lower = tiny_gpt.mean_logprob(self.model, [self.texts[row].lower() for row in rows])
        return replace(said, lowercase=lower)

    def _fit(self, before: Sequence[str]) -> str:
        longest = max(map(len, self.texts))
        joined = ("".join(f"{text} " for text in before[k:]) for k in range(len(before) + 1))
        return next(text for text in joined if len(text) + longest < self.model.longest)
