"""Ask a causal language model of transformers about a few texts: passes forward, and backward."""

import contextlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

if TYPE_CHECKING:
    import torch

TokenIds = Int64[np.ndarray, " ids"]


class Text(NamedTuple):
    """A text as its tokenizer cuts it."""

    ids: TokenIds
    scored: Bool[np.ndarray, " ids"]
    """Which tokens count: neither the first one nor those that the tokenizer adds."""
    begun: int
    """How many tokens the tokenizer has added before it."""
    size: int
    """Bytes of the text, packed by zlib."""

    def behind(self, before: TokenIds) -> "Text":
        """The same text with other tokens, which do not count, before its own."""
        ids, scored = self.ids[self.begun :], self.scored[self.begun :]
        return self._replace(
            ids=np.concatenate([before, ids]),
            scored=np.concatenate([np.zeros(len(before), bool), scored]),
        )


class Beneath(NamedTuple):
    """The model beneath the adapters of PEFT."""

    adapted: Any


def tokenise(tokenizer: Any, text: str) -> tuple[TokenIds, Bool[np.ndarray, " ids"]]:
    """The tokens of a text, and which of them the tokenizer has added."""
    cut = tokenizer(text, return_special_tokens_mask=True, truncation=False, verbose=False)
    return (
        np.array(cut["input_ids"], np.int64),
        np.array(cut["special_tokens_mask"], bool),
    )


def longest_input(pipeline: Any) -> int:
    """How many tokens a model reads at most."""
    config = pipeline.model.config
    own = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    limits = [pipeline.tokenizer.model_max_length, *(limit for limit in own if limit)]
    return int(min(limits))


def run(model: Any, batch: Sequence[Text], *, only: bool = False) -> list[np.ndarray]:
    """Of every token but the first, its log-probability, and unless ``only`` that is wanted more.

    These are its mean and standard deviation over the vocabulary, and whether the token is the
    likeliest.
    """
    import torch

    beneath = isinstance(model, Beneath)
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
        logits = logits[:, :-1].float()
        wanted = ids[:, 1:, None]
        if only:
            log_p = logits.log_softmax(dim=-1).gather(2, wanted)[..., 0]
            return [log_p.clamp(max=0.0).double().cpu().numpy()]
        # text by text: what is computed on the way then fits the processor's cache
        parts = [
            torch.stack(_describe(row.log_softmax(dim=-1), token))
            for row, token in zip(logits, wanted, strict=True)
        ]
        return list(torch.stack(parts, dim=1).double().cpu().numpy())


def _describe(log_p: "torch.Tensor", wanted: "torch.Tensor") -> "list[torch.Tensor]":
    """Of each place: log p of its token, mean and deviation over all, and 1 where it is likeliest.

    Overwrites ``log_p``, of shape (places, vocabulary).
    """
    import torch

    own = log_p.gather(1, wanted)[:, 0].clamp(max=0.0)
    first = log_p.argmax(dim=-1) == wanted[:, 0]
    p = log_p.exp()
    # 0 times minus infinity: a token that a model forbids adds nothing
    log_p.masked_fill_(p == 0, 0.0)
    mean = torch.linalg.vecdot(p, log_p)
    # about the mean: a difference of squares would lose half of float32's digits
    square = torch.linalg.vecdot(p, log_p.sub_(mean[:, None]).square_())
    return [own, mean, square.sqrt(), first.to(own.dtype)]


def gradient_norm(model: Any, text: Text) -> float:
    """The Euclidean norm of the gradient of a text's loss, the mean of its tokens, by the weights.

    These are the weights that are trained: those that require a gradient; where none does, as in a
    model that was loaded for inference, those of its adapters, or else all.
    """
    import torch

    weights = _trained_weights(model)
    flags = [weight.requires_grad for weight in weights]
    device = weights[0].device
    ids, scored = (torch.from_numpy(part)[None].to(device) for part in (text.ids, text.scored))
    try:
        for weight in weights:
            weight.requires_grad = True
        with torch.enable_grad():
            logits = model(
                input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
            ).logits
            log_p = logits[:, :-1].float().log_softmax(dim=-1)
            loss = -log_p.gather(2, ids[:, 1:, None])[..., 0][scored[:, 1:]].mean()
            # experts that no token has reached have no gradient
            parts: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
                loss, weights, allow_unused=True
            )
    finally:
        for weight, flag in zip(weights, flags, strict=True):
            weight.requires_grad = flag
    # one number each: a model may stand on several devices
    return math.hypot(*(float(part.float().norm()) for part in parts if part is not None))


def _trained_weights(model: Any) -> "list[torch.nn.Parameter]":
    named = {
        name: weight for name, weight in model.named_parameters() if weight.is_floating_point()
    }
    trained = [weight for weight in named.values() if weight.requires_grad]
    # by this PEFT tells its own weights from the others
    prefix = getattr(getattr(model, "base_model", None), "prefix", None)
    adapters = [weight for name, weight in named.items() if prefix and prefix in name]
    return trained or adapters or list(named.values())
