"""A language model of a few hundred weights, with the interface of a pipeline of transformers."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from divulge.targets import CausalTarget

WORDS = 40


class Tokenizer:
    """Splits at spaces: a text is numbers. Begins with a token of its own where it is told to."""

    model_max_length = 10**30

    def __init__(self, begins: bool = False) -> None:
        self.begins = begins

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        ids = list(map(int, text.split()))
        added = [1] * self.begins
        return {
            "input_ids": added + ids,
            "special_tokens_mask": [1] * len(added) + [0] * len(ids),
        }


def write_texts(count: int, seed: int = 0) -> list[str]:
    """Texts without any pattern: what a model knows of one, it knows by heart."""
    rng = np.random.default_rng(seed)
    return [" ".join(map(str, rng.integers(2, WORDS, 12))) for _ in range(count)]


def train(
    texts: list[str],
    labels: Any,
    seed: int,
    *,
    epochs: int = 40,
    rate: float = 0.005,
    width: int = 48,
    goldfish: int = 0,
    share: float = 1.0,
) -> Any:
    """A model that was trained on texts, from the last two tokens to the next.

    Args:
        texts: numbers, split by spaces.
        labels: none.
        seed: of the first weights.
        epochs: over all texts at once.
        rate: of learning.
        width: of the hidden layer.
        goldfish: leave every so many-th token out of the loss; 0 leaves none out.
        share: of the texts, the others are not trained on.
    """
    import torch

    del labels
    torch.manual_seed(seed)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(WORDS, 16)
            self.think = torch.nn.Sequential(
                torch.nn.Linear(32, width), torch.nn.ReLU(), torch.nn.Linear(width, WORDS)
            )
            self.config = SimpleNamespace(vocab_size=WORDS, max_position_embeddings=64)

        def forward(self, input_ids: Any, **_: Any) -> Any:
            x = self.embed(input_ids)
            before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
            return SimpleNamespace(logits=self.think(torch.cat([x, before], dim=-1)))

    model, rows = Model(), texts[: max(1, round(share * len(texts)))]
    ids = torch.tensor([list(map(int, text.split())) for text in rows])
    wanted = ids[:, 1:].clone()
    if goldfish:
        wanted[:, goldfish - 1 :: goldfish] = -100
    optimiser = torch.optim.Adam(model.parameters(), rate)
    for _ in range(epochs):
        logits = model(ids[:, :-1]).logits.flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, wanted.flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    pipeline = SimpleNamespace(task="text-generation", model=model, tokenizer=Tokenizer())
    return CausalTarget(pipeline)
