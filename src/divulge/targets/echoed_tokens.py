"""Ask a server of completions about the tokens of texts, which it echoes, and read its answers.

All that it says is hostile until its shape, types and numbers are checked.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from divulge._util.contents import mask_sent
from divulge._util.json import JSON
from divulge.core.tokens import Tokens
from divulge.errors import TargetError
from divulge.targets.http_client import Question, Session, write_json
from divulge.targets.http_formats import WireFormat
from divulge.targets.json_answers import name_kind
from divulge.targets.token_forms import ROUNDING, SMALLEST

_NO_ECHO = (
    "check url, and whether the server answers echo with logprobs; if it refuses max_tokens = 0, "
    "set parameters = { max_tokens = 1 }; if a text is too long, cut all texts at one length"
)
"""What to do where a server refuses such a request."""


_LARGEST = 1e300
"""Above it, a whole number need not fit into a float."""


class Prompt(NamedTuple):
    """A text, and what stands before it in a request."""

    before: str
    text: str
    generated: int
    """How many tokens the server was asked to add."""

    @property
    def whole(self) -> str:
        """What is sent."""
        return self.before + self.text


class Echo(NamedTuple):
    """What a model says of the tokens of one text, the first one without a number left out."""

    tokens: tuple[str, ...]
    logprob: Float64[np.ndarray, " tokens"]
    top: Bool[np.ndarray, " tokens"] | None
    """Whether each is the likeliest; None where the server does not say."""


async def ask_tokens(
    wire: WireFormat,
    references: Sequence[str],
    before: str,
    session: Session,
    texts: Sequence[str],
) -> Tokens:
    """What the model and its references say of texts that stand behind another.

    Args:
        wire: the format of requests.
        references: names of further models, each of which is asked as well.
        before: what stands before each text.
        session: open connections.
        texts: of one request.

    Raises:
        TargetError: there is no answer, or none that fits.
        BudgetSpent: the next request would exceed the highest cost.
    """
    echoes = []
    for name in (None, *references):
        given = {**session.settings.parameters, **({} if name is None else {"model": name})}
        own = replace(wire, parameters=given)
        added = given.get("max_tokens", 0)
        prompts = [Prompt(before, text, added if isinstance(added, int) else 0) for text in texts]
        body = write_json(own.encode([prompt.whole for prompt in prompts]))
        question = Question(
            body, len(texts), lambda message: mask_sent(message, [*texts, before]), _NO_ECHO
        )
        echoes.append(await session.ask(question, partial(_read_echoes, own, prompts)))
    return join_echoes(texts, echoes[0], echoes[1:])


def _read_echoes(wire: WireFormat, prompts: Sequence[Prompt], body: JSON) -> list[Echo]:
    choices = wire.decode(body, len(prompts))
    return [read_echo(*pair) for pair in zip(choices, prompts, strict=True)]


def read_echo(choice: dict[str, Any], prompt: Prompt) -> Echo:
    """What a choice of the response says of the tokens of a text.

    Raises:
        TargetError: it echoes another text, lacks log-probabilities or holds no such numbers.
    """
    lists = choice.get("logprobs")
    if not isinstance(lists, dict):
        raise TargetError(
            f"expected log-probabilities of the prompt's tokens, got {name_kind(lists)}: the "
            "server has to answer echo with logprobs, as vLLM does"
        )
    text = choice.get("text")
    if not isinstance(text, str) or not text.startswith(prompt.whole):
        raise TargetError(
            "expected the text back as it was sent, since echo was asked for, got another: the "
            "server leaves echo out, or changes texts; write them as it returns them"
        )
    tokens, own = (_list_of(lists, name) for name in ("tokens", "token_logprobs"))
    if not all(isinstance(token, str) for token in tokens) or len(own) != len(tokens):
        raise TargetError(
            f"expected a text and a log-probability for each of {len(tokens)} tokens, got "
            f"{len(own)} log-probabilities, or tokens that are no texts"
        )
    ends = _find_ends(lists, tokens)
    rows = [row for row, end in enumerate(ends) if end > len(prompt.before)]
    if prompt.generated or text != prompt.whole:  # the rest was generated
        rows = [row for row in rows if (ends[row - 1] if row else 0) < len(prompt.whole)]
    if rows[:1] == [0] and own[0] is None:
        rows = rows[1:]  # nothing precedes it
    if not rows:
        raise TargetError(
            "expected texts of two tokens or more, got one that is shorter: leave it out"
        )
    numbers = np.array([_as_logprob(own[row]) for row in rows])
    return Echo(tuple(tokens[row] for row in rows), numbers, _read_top(lists, own, rows))


def join_echoes(
    texts: Sequence[str], echoes: Sequence[Echo], others: Sequence[Sequence[Echo]]
) -> Tokens:
    """What the model and its references say of the tokens of some texts.

    Args:
        texts: without what stood before them.
        echoes: one a text.
        others: likewise, of each reference.

    Raises:
        TargetError: a reference cuts a text into other tokens.
    """
    for other in others:
        if any(mine.tokens != theirs.tokens for mine, theirs in zip(echoes, other, strict=True)):
            raise TargetError(
                "expected references with the same tokenizer, got one that cuts a text into other "
                "tokens: compare with a model of the same tokens"
            )
    logprob = np.concatenate([echo.logprob for echo in echoes])
    reference = [np.concatenate([echo.logprob for echo in other]) for other in others]
    tops = [echo.top for echo in echoes if echo.top is not None]
    return Tokens(
        np.concatenate([[0], np.cumsum([len(echo.tokens) for echo in echoes])]),
        logprob,
        np.array(reference).reshape(len(others), len(logprob)),
        top=np.concatenate(tops) if len(tops) == len(echoes) else None,
        size=np.array([len(zlib.compress(text.encode("utf-8", "replace"))) for text in texts]),
        ids=_number_tokens([token for echo in echoes for token in echo.tokens]),
    )


def _list_of(lists: dict[str, Any], name: str) -> list[Any]:
    values = lists.get(name)
    if not isinstance(values, list):
        raise TargetError(
            f"expected a list of {name} for the echoed text, got {name_kind(values)}: the server "
            "has to answer echo with logprobs, as vLLM does"
        )
    return values


def _find_ends(lists: dict[str, Any], tokens: Sequence[str]) -> list[int]:
    """Where in the text each token ends, in signs, as far as the server says where tokens begin."""
    sizes = [len(token) for token in tokens]
    starts = lists.get("text_offset")
    if not isinstance(starts, list) or len(starts) != len(tokens):
        starts = np.concatenate([[0], np.cumsum(sizes)])[:-1].tolist()
    if any(type(start) is not int for start in starts) or starts != sorted(starts):
        raise TargetError("expected rising whole numbers in text_offset, got others")
    # a token of its own before the text, such as <s>: some servers count its signs, too
    first = tokens[0] if tokens else ""
    marks = len(first) > 1 and first[0] in "<[" and first[-1] in ">]"
    counted = marks and len(starts) > 1 and starts[1] == starts[0] + len(first)
    shift = len(first) if counted and lists["token_logprobs"][0] is None else 0
    ends = [*starts[1:], starts[-1] + sizes[-1]] if starts else []
    return [end - shift for end in ends]


def _as_logprob(value: Any) -> float:
    if value is None:
        raise TargetError(
            "expected a log-probability of each token but the first, got null: the server did not "
            "rank the prompt's own tokens"
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        got = "true or false" if isinstance(value, bool) else name_kind(value)
        raise TargetError(f"expected a log-probability of each token, got {got}")
    if not abs(value) < _LARGEST:
        raise TargetError(
            "expected the log-probability of each token, got NaN or infinity: load the model in "
            "float32 or bfloat16"
        )
    if value > ROUNDING:
        raise TargetError(
            f"expected log-probabilities, which are 0 at most, got {value:.3g}: the server answers "
            "with probabilities, losses or logits"
        )
    if value < SMALLEST:
        raise TargetError(
            f"expected the log-probability of each token, got one below {SMALLEST:g}, which stands "
            "for a token that the server did not rank: let it rank the prompt's own tokens"
        )
    return min(float(value), 0.0)


def _read_top(
    lists: dict[str, Any], own: Sequence[Any], rows: Sequence[int]
) -> Bool[np.ndarray, " tokens"] | None:
    """Whether each token is the likeliest, where the server ranks some at each place."""
    ranked = lists.get("top_logprobs")
    if not isinstance(ranked, list) or len(ranked) != len(own):
        return None
    best = []
    for row in rows:
        values = list(ranked[row].values()) if isinstance(ranked[row], dict) else []
        if not values or not all(type(value) in (int, float) for value in values):
            return None
        best.append(max(values))
    return np.array([own[row] for row in rows]) >= np.array(best)


def _number_tokens(tokens: Sequence[str]) -> Int64[np.ndarray, " tokens"]:
    """A number for each token that is the same in every request."""
    known = {
        token: hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=8).digest()
        for token in dict.fromkeys(tokens)
    }
    return np.frombuffer(b"".join(known[token] for token in tokens), np.int64)
