"""Ask a causal language model in memory for the log-probability of every token of texts."""

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from divulge._util.arguments import Count, check_arguments
from divulge.core import Need
from divulge.core.tokens import Tokens, join_tokens
from divulge.errors import NotApplicable, TargetError
from divulge.targets.batching import translate_model_errors
from divulge.targets.torch import evaluation_mode
from divulge.targets.transformers import as_plain_texts

if TYPE_CHECKING:
    import torch

TASK = "text-generation"
"""The task of pipelines whose model is a causal one."""

TokenIds = Int64[np.ndarray, " ids"]


class _Text(NamedTuple):
    """A text as its tokenizer cuts it."""

    ids: TokenIds
    scored: Bool[np.ndarray, " ids"]
    """Which tokens count: neither the first one nor those that the tokenizer adds."""
    begun: int
    """How many tokens the tokenizer has added before it."""
    size: int
    """Bytes of the text, packed by zlib."""

    def behind(self, before: TokenIds) -> "_Text":
        """The same text with other tokens, which do not count, before its own."""
        ids, scored = self.ids[self.begun :], self.scored[self.begun :]
        return self._replace(
            ids=np.concatenate([before, ids]),
            scored=np.concatenate([np.zeros(len(before), bool), scored]),
        )


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

    Raises:
        TargetError: it is a pipeline of another task.
    """

    pipeline: Any
    references: tuple[Any, ...] = ()
    numbers: Count = 2**25

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
        return Need.TOKENS | Need.SCORES | Need.FEATURES | Need.PREFIX

    def predict(self, x: Any) -> Float[np.ndarray, "records 1"]:
        """The mean log-probability of each text, in nats.

        Raises:
            TargetError: the records are no texts, one is too short or too long, or the model
                failed.
        """
        tokens = self.tokens(x)
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
        distinct = {text: self._cut(text) for text in texts}
        cut = list(distinct.values())
        if after is not None:
            before = self._fit(as_plain_texts(after), max(len(text.ids) for text in cut))
            cut = [text.behind(before) for text in cut]
        with translate_model_errors(
            "the language model to read texts", "ask it about a few texts yourself"
        ):
            read = dict(self._read(cut))
        _refuse_infinite(list(read.values()))
        place = {text: at for at, text in enumerate(distinct)}
        return join_tokens([read[place[text]] for text in texts])

    def _fit(self, before: Sequence[str], longest: int) -> TokenIds:
        """The tokens of the last of these texts, as many as a model reads before the longest."""
        room = self._room - longest
        for first in range(len(before)):
            ids, special = _tokenise(self.pipeline.tokenizer, " ".join(before[first:]))
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
        return min(map(_longest, (self.pipeline, *self.references)))

    def _cut(self, text: str) -> _Text:
        ids, special = _tokenise(self.pipeline.tokenizer, text)
        for other in self.references:
            if not np.array_equal(_tokenise(other.tokenizer, text)[0], ids):
                raise TargetError(
                    "expected references with the same tokenizer, got one that cuts a text into "
                    "other tokens: compare with a model of the same tokens"
                )
        if len(ids) > self._room:
            raise TargetError(
                f"expected texts of at most {self._room:,} tokens, got {len(ids):,}: cut long "
                "texts as for training, those of members and of others alike"
            )
        scored = ~special
        scored[:1] = False
        if not scored.any():
            raise TargetError(
                "expected texts of two tokens or more, got one that is shorter: leave it out"
            )
        packed = zlib.compress(text.encode("utf-8", "replace"))
        return _Text(ids, scored, int(np.argmin(special)), len(packed))

    def _read(self, texts: Sequence[_Text]) -> Iterator[tuple[int, Tokens]]:
        """What the models say, with the position of each text."""
        with contextlib.ExitStack() as evaluating:
            for pipeline in (self.pipeline, *self.references):
                evaluating.enter_context(evaluation_mode(pipeline.model))
            for rows in self._batches(texts):
                batch = [texts[row] for row in rows]
                answer = _run(self.pipeline.model, batch)
                others = [_run(model, batch, only=True) for model in self._other_models()]
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

    def _batches(self, texts: Sequence[_Text]) -> Iterator[list[int]]:
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

    def _other_models(self) -> Iterator["torch.nn.Module | _Beneath"]:
        if hasattr(self.pipeline.model, "disable_adapter"):
            yield _Beneath(self.pipeline.model)
        for pipeline in self.references:
            yield pipeline.model


def _refuse_infinite(answers: Sequence[Tokens]) -> None:
    """Refuse log-probabilities that are no numbers, or those of impossible tokens."""
    broken = 0
    for answer in answers:
        parts = (answer.logprob, answer.reference, answer.mean, answer.sd)
        broken += not all(np.isfinite(part).all() for part in parts if part is not None)
    if broken:
        raise TargetError(
            f"expected a finite log-probability of every token, got others in {broken:,} of "
            f"{len(answers):,} texts: load the model in float32 or bfloat16, and its whole "
            "vocabulary"
        )


class _Beneath(NamedTuple):
    """The model beneath the adapters of PEFT."""

    adapted: Any


def _tokenise(tokenizer: Any, text: str) -> tuple[TokenIds, Bool[np.ndarray, " ids"]]:
    """The tokens of a text, and which of them the tokenizer has added."""
    cut = tokenizer(text, return_special_tokens_mask=True, truncation=False, verbose=False)
    return (
        np.array(cut["input_ids"], np.int64),
        np.array(cut["special_tokens_mask"], bool),
    )


def _longest(pipeline: Any) -> int:
    """How many tokens a model reads at most."""
    config = pipeline.model.config
    own = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    limits = [pipeline.tokenizer.model_max_length, *(limit for limit in own if limit)]
    return int(min(limits))


def _run(model: Any, batch: Sequence[_Text], *, only: bool = False) -> list[np.ndarray]:
    """Of every token but the first, its log-probability, and unless ``only`` that is wanted more.

    These are its mean and standard deviation over the vocabulary, and whether the token is the
    likeliest.
    """
    import torch

    beneath = isinstance(model, _Beneath)
    running = model.adapted if beneath else model
    width = max(len(text.ids) for text in batch)
    ids = torch.zeros((len(batch), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(batch):
        # on the right, where it changes no position and no token looks
        ids[row, : len(text.ids)] = torch.from_numpy(text.ids)
        mask[row, : len(text.ids)] = 1
    device = next(running.parameters()).device
    ids, mask = ids.to(device), mask.to(device)
    with torch.inference_mode(), running.disable_adapter() if beneath else contextlib.nullcontext():
        logits = running(input_ids=ids, attention_mask=mask, use_cache=False).logits
        # in float32 whatever the weights are: bfloat16 has three digits
        log_p = logits[:, :-1].float().log_softmax(dim=-1)
        wanted = ids[:, 1:, None]
        parts = [log_p.gather(2, wanted)[..., 0].clamp(max=0.0)]
        if not only:
            p = log_p.exp()
            # 0 times minus infinity: a token that a model forbids adds nothing
            mean = torch.where(p > 0, p * log_p, 0.0).sum(dim=-1)
            # about the mean: a difference of squares would lose half of float32's digits
            square = p * (log_p - mean[..., None]) ** 2
            parts += [mean, torch.where(p > 0, square, 0.0).sum(dim=-1).sqrt()]
            parts += [log_p.argmax(dim=-1) == wanted[..., 0]]
        return [part.double().cpu().numpy() for part in parts]
