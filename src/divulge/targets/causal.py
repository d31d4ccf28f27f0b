"""Ask a causal language model in memory for the log-probability of every token of texts."""

import contextlib
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Float64

from divulge._util.arguments import Count, check_arguments
from divulge.core import Need
from divulge.core.tokens import Tokens, join_tokens
from divulge.errors import NotApplicable, TargetError
from divulge.targets.batching import translate_model_errors
from divulge.targets.causal_passes import (
    Beneath,
    Text,
    TokenIds,
    gradient_norm,
    longest_input,
    run,
    tokenise,
)
from divulge.targets.torch import evaluation_mode
from divulge.targets.transformers import as_plain_texts

if TYPE_CHECKING:
    import torch

TASK = "text-generation"
"""The task of pipelines whose model is a causal one."""


@check_arguments
@dataclass(frozen=True, slots=True, eq=False)
class CausalTarget:
    """A text-generation pipeline: texts in, the log-probability of each of their tokens out.

    Each text is read once, for all attacks together, as long as nothing stands before it. The model
    beneath the adapters of PEFT is a reference by itself. Tokens that the tokenizer adds are not
    scored, and neither is a first token that nothing precedes. Texts have to be written as the
    model was trained on them, with the chat template if it had one.

    Args:
        pipeline: what ``transformers.pipeline("text-generation", model=..., tokenizer=...)``
            returns, with any model of ``AutoModelForCausalLM`` or of PEFT.
        references: pipelines of further models with the same tokenizer, such as the base model.
        numbers: how many logits are held at a time, which bounds memory: four bytes each, in a few
            copies.
        lowercase: read each text that has capital letters once more in lower case, for
            ``token-threshold(signal="lowercase")``; cut where the model reads no more.
        gradients: one pass backward a text, for an attacker who has the weights, by
            ``token-threshold(signal="gradient-norm")``. The gradient is by the weights that are
            trained: those that require one; where none does, those of adapters, or else all.

    Raises:
        TargetError: it is a pipeline of another task.
    """

    pipeline: Any
    references: tuple[Any, ...] = ()
    numbers: Count = 2**25
    lowercase: bool = False
    gradients: bool = False

    def __post_init__(self) -> None:
        for pipeline in (self.pipeline, *self.references):
            task = getattr(pipeline, "task", type(pipeline).__name__)
            if task != TASK:
                raise TargetError(
                    f"expected a {TASK} pipeline, got {task}: pass "
                    f'transformers.pipeline("{TASK}", model=..., tokenizer=...)'
                )

    @property
    def offers(self) -> Need:
        """The tokens, one number a text, and an answer to any text, also behind others."""
        return Need.TOKENS | Need.SCORES | Need.FEATURES | Need.PREFIX | Need.UNMETERED

    def predict(self, x: Any) -> Float[np.ndarray, "records 1"]:
        """The mean log-probability of each text, in nats.

        Raises:
            TargetError: the records are no texts, one is too short or too long, or the model
                failed.
        """
        tokens = self._read_texts(as_plain_texts(x))
        return tokens.average(tokens.logprob)[:, None]

    def tokens(self, x: Any, after: Any = None) -> Tokens:
        """What the models say of the tokens of these texts.

        Args:
            x: texts.
            after: texts that stand before each of them, with a space between; the first of them
                are left out where a model cannot read as much.

        Raises:
            TargetError: as of `predict`.
            NotApplicable: not one text can stand before the longest.
        """
        texts = as_plain_texts(x)
        tokens = self._read_texts(texts, after)
        if after is not None:
            return tokens
        with _translated_errors(), evaluation_mode(self.pipeline.model):
            if self.lowercase:
                tokens = replace(tokens, lowercase=self._read_lower_case(texts, tokens))
            if self.gradients:
                tokens = replace(tokens, gradient_norm=self._measure_gradients(texts))
        return tokens

    def _read_texts(self, texts: Sequence[str], after: Any = None) -> Tokens:
        distinct = {text: self._cut(text) for text in texts}
        cut = list(distinct.values())
        if after is not None:
            before = self._fit(as_plain_texts(after), max(len(text.ids) for text in cut))
            cut = [text.behind(before) for text in cut]
        with _translated_errors():
            read = dict(self._read(cut))
        _refuse_infinite([_is_finite(answer) for answer in read.values()])
        place = {text: at for at, text in enumerate(distinct)}
        return join_tokens([read[place[text]] for text in texts])

    def _read_lower_case(
        self, texts: Sequence[str], tokens: Tokens
    ) -> Float64[np.ndarray, " texts"]:
        """The mean log-probability of each text in lower case; of one that is so, its own."""
        forms = {text: text.lower() for text in texts}
        written = list(dict.fromkeys(form for text, form in forms.items() if form != text))
        cut, means = [self._cut_lower_case(form) for form in written], {}
        for rows in self._batches(cut):
            (logprob,) = run(self.pipeline.model, [cut[row] for row in rows], only=True)
            for own, row in zip(logprob, rows, strict=True):
                scored = cut[row].scored[1:]
                means[written[row]] = float(own[: len(scored)][scored].mean())
        _refuse_infinite([math.isfinite(mean) for mean in means.values()])
        own = zip(texts, tokens.average(tokens.logprob).tolist(), strict=True)
        return np.array([mean if forms[text] == text else means[forms[text]] for text, mean in own])

    def _cut_lower_case(self, form: str) -> Text:
        most = longest_input(self.pipeline)
        ids, special = tokenise(self.pipeline.tokenizer, form)
        return _as_text(ids[:most], special[:most], form, "texts in lower case")

    def _measure_gradients(self, texts: Sequence[str]) -> Float64[np.ndarray, " texts"]:
        cut = {text: self._cut(text) for text in texts}
        norms = {text: gradient_norm(self.pipeline.model, each) for text, each in cut.items()}
        _refuse_infinite([math.isfinite(norm) for norm in norms.values()])
        return np.array([norms[text] for text in texts])

    def _fit(self, before: Sequence[str], longest: int) -> TokenIds:
        """The tokens of the last of these texts, as many as a model reads before the longest."""
        room = self._room - longest
        for first in range(len(before)):
            ids, special = tokenise(self.pipeline.tokenizer, " ".join(before[first:]))
            while len(special) and special[-1]:  # no end stands in the middle
                ids, special = ids[:-1], special[:-1]
            if len(ids) <= room:
                return ids
        raise NotApplicable(
            f"expected room for another text before one of {longest:,} tokens, got a model that "
            f"reads {self._room:,}: cut texts, those of members and of others alike"
        )

    @property
    def _room(self) -> int:
        """How many tokens all models read at most."""
        return min(map(longest_input, (self.pipeline, *self.references)))

    def _cut(self, text: str) -> Text:
        ids, special = tokenise(self.pipeline.tokenizer, text)
        for other in self.references:
            if not np.array_equal(tokenise(other.tokenizer, text)[0], ids):
                raise TargetError(
                    "expected references with the same tokenizer, got one that cuts a text into "
                    "other tokens: compare with a model of the same tokens"
                )
        if len(ids) > self._room:
            raise TargetError(
                f"expected texts of at most {self._room:,} tokens, got {len(ids):,}: cut long "
                "texts as for training, those of members and of others alike"
            )
        return _as_text(ids, special, text)

    def _read(self, texts: Sequence[Text]) -> Iterator[tuple[int, Tokens]]:
        """What the models say, with the position of each text."""
        with contextlib.ExitStack() as evaluating:
            for pipeline in (self.pipeline, *self.references):
                evaluating.enter_context(evaluation_mode(pipeline.model))
            for rows in self._batches(texts):
                batch = [texts[row] for row in rows]
                answer = run(self.pipeline.model, batch)
                others = [run(model, batch, only=True) for model in self._other_models()]
                for row, position in enumerate(rows):
                    scored = batch[row].scored[1:]
                    logprob, mean, sd, top = (part[row, : len(scored)][scored] for part in answer)
                    reference = [other[0][row, : len(scored)][scored] for other in others]
                    yield (
                        position,
                        Tokens(
                            np.array([0, len(logprob)]),
                            logprob,
                            np.array(reference).reshape(len(others), len(logprob)),
                            mean,
                            sd,
                            top.astype(bool),
                            np.array([batch[row].size]),
                            ids=batch[row].ids[batch[row].scored],
                        ),
                    )

    def _batches(self, texts: Sequence[Text]) -> Iterator[list[int]]:
        """Positions of texts of much the same length, as many as memory allows."""
        width = int(self.pipeline.model.config.vocab_size)
        rows: list[int] = []
        # the longest first: what does not fit into memory fails at once
        for position in sorted(range(len(texts)), key=lambda at: -len(texts[at].ids)):
            longest = len(texts[rows[0]].ids) if rows else 0
            if rows and (len(rows) + 1) * longest * width > self.numbers:
                yield rows
                rows = []
            rows.append(position)
        if rows:
            yield rows

    def _other_models(self) -> Iterator["torch.nn.Module | Beneath"]:
        if hasattr(self.pipeline.model, "disable_adapter"):
            yield Beneath(self.pipeline.model)
        for pipeline in self.references:
            yield pipeline.model


def _as_text(
    ids: TokenIds, special: Bool[np.ndarray, " ids"], text: str, what: str = "texts"
) -> Text:
    scored = ~special
    scored[:1] = False
    if not scored.any():
        raise TargetError(
            f"expected {what} of two tokens or more, got one that is shorter: leave it out"
        )
    packed = zlib.compress(text.encode("utf-8", "replace"))
    return Text(ids, scored, int(np.argmin(special)), len(packed))


def _translated_errors() -> contextlib.AbstractContextManager[None]:
    return translate_model_errors(
        "the language model to read texts", "ask it about a few texts yourself"
    )


def _is_finite(answer: Tokens) -> bool:
    parts = (answer.logprob, answer.reference, answer.mean, answer.sd)
    return all(np.isfinite(part).all() for part in parts if part is not None)


def _refuse_infinite(finite: Sequence[bool]) -> None:
    """Refuse what is said of texts if it is no number, or of impossible tokens."""
    if broken := len(finite) - sum(finite):
        raise TargetError(
            f"expected a finite log-probability of every token, got others in {broken:,} of "
            f"{len(finite):,} texts: load the model in float32 or bfloat16, and its whole "
            "vocabulary"
        )
