"""A small transformer on characters, trained from scratch and fine-tuned, whole or by adapters."""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from divulge.core.tokens import Tokens

LONGEST, WIDTH, HEADS, LAYERS = 80, 64, 4, 2
_SIGNS = 97
_BEGIN, FILL = 0, 1
RANK = 4


class Block(nn.Module):
    """Attention to what precedes, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.read: nn.Module = nn.Linear(WIDTH, 3 * WIDTH)
        self.write: nn.Module = nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Numbers of each place of each text, and what they become."""
        texts, places, _ = x.shape
        split = self.read(self.before(x)).view(texts, places, 3, HEADS, WIDTH // HEADS)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.write(seen.transpose(1, 2).reshape(texts, places, WIDTH))
        deeper: torch.Tensor = self.think(self.between(x))
        return x + deeper


class Adapter(nn.Module):
    """A linear layer that stays, and a product of two small matrices that is learned (LoRA)."""

    def __init__(self, inner: nn.Linear, rank: int) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Parameter(torch.randn(rank, inner.in_features) / inner.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(inner.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both, added."""
        whole: torch.Tensor = self.inner(x)
        return whole + functional.linear(functional.linear(x, self.down), self.up)


class GPT(nn.Module):
    """A transformer with 0.1 million weights.

    Args:
        longest: how many signs it reads at most.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        super().__init__()
        self.signs, self.places = nn.Embedding(_SIGNS, WIDTH), nn.Embedding(longest, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.out = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, _SIGNS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the next sign at each place."""
        said: torch.Tensor = self.out(self.blocks(self.signs(x) + self.places.weight[: x.shape[1]]))
        return said

    @property
    def longest(self) -> int:
        """How many signs it reads at most."""
        return len(self.places.weight)


def adapted(base: GPT, rank: int = RANK) -> GPT:
    """A copy of which adapters of its attention alone are learned."""
    model = copy.deepcopy(base).requires_grad_(requires_grad=False)
    for block in model.blocks:
        assert isinstance(block, Block)
        for name in ("read", "write"):
            inner = getattr(block, name)
            setattr(block, name, Adapter(inner, rank))
    return model


def encode(texts: Sequence[str]) -> torch.Tensor:
    """Numbers of signs, each text begun and filled up to the longest; printable ASCII alone."""
    found = np.full((len(texts), max(map(len, texts)) + 1), FILL)
    for row, text in enumerate(texts):
        found[row, : len(text) + 1] = [_BEGIN, *(ord(sign) - 30 for sign in text)]
    return torch.tensor(found)


class Steps(NamedTuple):
    """What each step of the training looks at."""

    batch: int = 32
    """Texts."""
    goldfish: int = 0
    """Every so many-th sign counts for nothing in the loss (Hans et al. 2024, static mask); 0
    leaves none out."""


USUAL = Steps()
"""Batches of 32, and every sign counts."""


def train(
    model: GPT,
    texts: Sequence[str],
    rate: float,
    seed: int,
    epochs: Sequence[int],
    steps: Steps = USUAL,
) -> list[GPT]:
    """The model after so many epochs each, in rising order."""
    torch.manual_seed(seed)
    x, kept = encode(texts), []
    wanted = x[:, 1:].clone()
    if steps.goldfish:
        wanted[:, steps.goldfish - 1 :: steps.goldfish] = FILL
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(learned, rate)
    for epoch in range(1, max(epochs) + 1):
        order = torch.randperm(len(x))
        for rows in (order[at : at + steps.batch] for at in range(0, len(x), steps.batch)):
            said = model(x[rows, :-1]).flatten(0, 1)
            loss = functional.cross_entropy(said, wanted[rows].flatten(), ignore_index=FILL)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        if epoch in epochs:
            kept.append(copy.deepcopy(model))
    return kept


def read(model: GPT, base: GPT, texts: Sequence[str], size: np.ndarray) -> Tokens:
    """What the model and its base say of each sign.

    Args:
        model: fine-tuned.
        base: before that.
        texts: of one sign less than they read, at most.
        size: bytes of each, packed.
    """
    x = encode(texts)
    real = (x[:, 1:] != FILL).numpy()
    with torch.no_grad():
        logp, before = (network(x[:, :-1]).log_softmax(-1) for network in (model, base))
        own, p = x[:, 1:, None], logp.exp()
        mean = (p * logp).sum(-1)
        sd = ((p * logp**2).sum(-1) - mean**2).clamp_min(0).sqrt()
        top = logp.argmax(-1) == own[..., 0]
        said = [logp.gather(-1, own)[..., 0], before.gather(-1, own)[..., 0], mean, sd]
    flat = [values.numpy().astype(np.float64)[real] for values in said]
    start = np.concatenate([[0], np.cumsum(real.sum(axis=1))])
    signs = x[:, 1:].numpy()[real]
    return Tokens(
        start, flat[0], flat[1][None], flat[2], flat[3], top.numpy()[real], size, ids=signs
    )


def mean_logprob(model: GPT, texts: Sequence[str]) -> np.ndarray:
    """The mean log-probability of the signs of each text."""
    x = encode(texts)
    real = x[:, 1:] != FILL
    with torch.no_grad():
        said = model(x[:, :-1]).log_softmax(-1).gather(-1, x[:, 1:, None])[..., 0].double()
    return np.asarray(((said * real).sum(dim=1) / real.sum(dim=1)).numpy())


def gradient_norm(model: GPT, texts: Sequence[str], together: int = 50) -> np.ndarray:
    """The norm of the gradient of each text's mean loss, by the weights that are learned.

    Args:
        model: fine-tuned.
        texts: of one sign less than it reads, at most.
        together: how many gradients are held at a time.
    """
    learned = {name: weight.detach() for name, weight in model.named_parameters()
               if weight.requires_grad}  # fmt: skip

    def loss(weights: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
        said = functional_call(model, weights, (ids[None, :-1],))[0]
        return functional.cross_entropy(said, ids[1:], ignore_index=FILL)

    x, norms = encode(texts), []
    with sdpa_kernel(SDPBackend.MATH):  # the one that takes gradients of many texts at once
        for at in range(0, len(x), together):
            parts = vmap(grad(loss), (None, 0))(learned, x[at : at + together]).values()
            squares = [part.flatten(1).double().square().sum(dim=1) for part in parts]
            norms.append(torch.stack(squares).sum(dim=0).sqrt().numpy())
    return np.concatenate(norms)
