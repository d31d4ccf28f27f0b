"""`Tokens` holds what a language model says of every token of some texts."""

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped

from divulge.core.targets import Need, Target
from divulge.errors import DataError, NotApplicable


@dataclass(frozen=True, slots=True)
class Tokens:
    """Log-probabilities of the tokens of texts, one text after the other in flat arrays.

    Raises:
        DataError: the arrays are not about the same tokens.
    """

    start: Int[np.ndarray, " ends"]
    """Where each text begins among the tokens, and at last their number: one more than texts."""
    logprob: Float64[np.ndarray, " tokens"]
    """The log-probability of each token given those before it, at most 0."""
    reference: Float64[np.ndarray, "references tokens"]
    """The same by other models, one row each; no rows without any."""
    mean: Float64[np.ndarray, " tokens"] | None = None
    """The expected log-probability of a token that the model draws: minus its entropy."""
    sd: Float64[np.ndarray, " tokens"] | None = None
    """The standard deviation of that."""
    top: Bool[np.ndarray, " tokens"] | None = None
    """Whether the token is the one that the model finds likeliest."""
    size: Int[np.ndarray, " texts"] | None = None
    """Bytes of each text, packed by zlib."""
    shadow: Float64[np.ndarray, "shadows texts"] | None = None
    """The mean log-probability of each text under shadow models, one row each."""
    inside: Bool[np.ndarray, "shadows texts"] | None = None
    """Which texts each shadow model was trained on."""
    shadow_logprob: Float64[np.ndarray, "shadows tokens"] | None = None
    """The log-probability of each token under each shadow model."""
    ids: Int[np.ndarray, " tokens"] | None = None
    """Which token each is: the same number for the same one; None where nobody knows."""
    lowercase: Float64[np.ndarray, " texts"] | None = None
    """The mean log-probability of the tokens of each text in lower case."""
    gradient_norm: Float64[np.ndarray, " texts"] | None = None
    """The Euclidean norm of the gradient of each text's loss, minus its mean log-probability, by
    the weights."""

    def __post_init__(self) -> None:
        texts, tokens = len(self.start) - 1, len(self.logprob)
        others = () if self.shadow_logprob is None else self.shadow_logprob
        of_tokens = (self.mean, self.sd, self.top, self.ids, *self.reference, *others)
        of_texts = [getattr(self, name) for name in _PER_TEXT]
        of_texts += [] if self.shadow is None else [*self.shadow]
        strange = any(values is not None and len(values) != tokens for values in of_tokens)
        strange |= any(values is not None and len(values) != texts for values in of_texts)
        if strange or texts < 0 or self.start[-1] != tokens:
            raise DataError(
                f"expected what is said of {tokens} tokens of {texts} texts in arrays of these "
                "lengths, got others: give one number a token, and a text"
            )

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def count(self) -> Int[np.ndarray, " texts"]:
        """The number of tokens of each text."""
        return np.diff(self.start)

    def take(self, rows: Int[np.ndarray, " chosen"]) -> "Tokens":
        """What is said of the texts at these positions, in this order, copied."""
        count = self.count[rows]
        start = np.concatenate([[0], np.cumsum(count)])
        at = np.arange(start[-1]) + np.repeat(self.start[rows] - start[:-1], count)
        per_token = {
            name: getattr(self, name)[..., at]
            for name in (*_PER_TOKEN, "shadow_logprob")
            if getattr(self, name) is not None
        }
        per_text = {
            name: getattr(self, name)[..., rows]
            for name in (*_PER_TEXT, "shadow", "inside")
            if getattr(self, name) is not None
        }
        return replace(
            self,
            start=start,
            logprob=self.logprob[at],
            reference=self.reference[:, at],
            **per_token,
            **per_text,
        )

    def average(self, values: Float64[np.ndarray, " tokens"]) -> Float64[np.ndarray, " texts"]:
        """The mean over the tokens of each text, by itself: other texts change no digit."""
        return np.array([part.sum() / len(part) for part in self.split(values)])

    @property
    def reference_means(self) -> Float64[np.ndarray, "references texts"]:
        """The mean log-probability of each text under each reference."""
        return np.array([self.average(logprob) for logprob in self.reference]).reshape(
            -1, len(self)
        )

    def split(self, values: Shaped[np.ndarray, " tokens"]) -> list[Shaped[np.ndarray, " part"]]:
        """Numbers of tokens, by text, as views."""
        return [values[a:b] for a, b in itertools.pairwise(self.start.tolist())]


_PER_TOKEN = ("mean", "sd", "top", "ids")
_PER_TEXT = ("size", "lowercase", "gradient_norm")


def join_tokens(parts: Sequence[Tokens]) -> Tokens:
    """What is said of the texts of all parts, one after the other, as far as it is of each text.

    What shadow models say is left out.

    Args:
        parts: one or more, with as many references each.
    """
    counts = [part.count for part in parts]
    further = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*_PER_TOKEN, *_PER_TEXT)
        if all(getattr(part, name) is not None for part in parts)
    }
    return Tokens(
        np.concatenate([[0], np.cumsum(np.concatenate(counts))]),
        np.concatenate([part.logprob for part in parts]),
        np.concatenate([part.reference for part in parts], axis=1),
        **further,
    )


@runtime_checkable
class TokenTarget(Target, Protocol):
    """A language model of which the log-probability of every token is known.

    It offers `Need.TOKENS`; `predict` gives the mean log-probability of each text.
    """

    def tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Tokens:
        """What the model says of the tokens of these texts.

        Args:
            x: the texts.
            after: texts that stand before each of them, in this order; of their own tokens nothing
                is said. Only where the target offers `Need.PREFIX`.

        Raises:
            TargetError: the model failed.
            NotApplicable: no text can stand before others.
        """
        ...


@runtime_checkable
class TokenStream(TokenTarget, Protocol):
    """A language model that answers about some of the texts at a time, as over a network."""

    def stream_tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Generator[tuple[Int[np.ndarray, " part"], Tokens], None, None]:
        """Yield positions in ``x`` with their tokens, in any order, each position once.

        Raises:
            TargetError: see `TokenTarget.tokens`; the parts yielded before are good.
        """
        ...


def stream_tokens(
    target: Target, x: Any, after: Any = None
) -> Generator[tuple[Int[np.ndarray, " part"], Tokens], None, None]:
    """Yield positions in ``x`` with their tokens as the target answers, else all at once.

    Raises:
        TargetError: see `TokenTarget.tokens`.
        NotApplicable: it is no language model.
    """
    inner = as_token_target(target)
    if isinstance(inner, TokenStream):
        yield from inner.stream_tokens(x, after)
    else:
        tokens = inner.tokens(x, after)
        yield np.arange(len(tokens)), tokens


def as_token_target(target: Target) -> TokenTarget:
    """The target as a language model.

    Raises:
        NotApplicable: the log-probabilities of tokens are not known.
    """
    if Need.TOKENS in target.offers and isinstance(target, TokenTarget):
        return target
    raise NotApplicable(
        f"needs the log-probability of every token, got {type(target).__name__}: audit a table of "
        "them"
    )
