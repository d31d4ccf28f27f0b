"""Ways to fine-tune the small language model, as a user's function: for `benchmarks.remedies`."""

import copy
import json
import lzma
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks import data, tiny_gpt
from divulge._util.random import stream
from divulge.core import Need, Records
from divulge.data.records import as_records
from divulge.defences import DPSGD, TextLoss
from divulge.training import Recipe
from divulge.training.trainers import FunctionTrainer

BEFORE = 6_000
"""Verses that the model reads three times before it is fine-tuned."""

RATES = {False: 1e-3, True: 1e-2}
"""Of learning: of all weights, and of adapters."""

CHANGES: dict[str, dict[str, Any]] = {
    "fewer epochs (1 in place of 3)": {"epochs": 1},
    "larger batches (128 in place of 32)": {"batch": 128},
    "goldfish loss (every 4th token left out)": {"goldfish": 4},
    "adapters (LoRA, rank 4)": {"rank": 4},
    "adapters (LoRA, rank 1)": {"rank": 1},
    "dp-sgd (ε = 8)": {"epsilon": 8.0},
    "dp-sgd (ε = 8, LoRA of rank 4)": {"epsilon": 8.0, "rank": 4},
}
"""What is changed, by the name of the remedy."""


@cache
def verses() -> tuple[str, ...]:
    """Verses of printable ASCII, cut to what the model reads, in random order.

    Raises:
        MissingData: they are not there.
    """
    with lzma.open(data.file("texts/verses.jsonl.xz"), "rt", encoding="utf-8") as file:
        cut = {json.loads(line)["text"][: tiny_gpt.LONGEST - 1] for line in file}
    found = sorted(text for text in cut if text.isascii() and text.isprintable())
    return tuple(found[k] for k in stream(0, "verses").permutation(len(found)))


@cache
def base_model(texts: int = BEFORE, passes: int = 3, joined: int = 1) -> tiny_gpt.GPT:
    """The model before it is fine-tuned.

    Args:
        texts: how many verses it reads.
        passes: how often.
        joined: how many it reads at a time, one after the other.
    """
    read = [" ".join(verses()[k : k + joined]) for k in range(0, texts, joined)]
    torch.manual_seed(0)
    begun = tiny_gpt.GPT(joined * tiny_gpt.LONGEST)
    (model,) = tiny_gpt.train(begun, read, 3e-3, 0, (passes,))
    return model


def further_verses() -> Records:
    """Verses that the base model has not read."""
    return as_records(list(verses()[BEFORE:]), "verses")


@dataclass(frozen=True, slots=True)
class FineTune:
    """A fine-tuned model, asked about the mean log-probability of texts."""

    model: tiny_gpt.GPT

    offers = Need.SCORES | Need.TOKENS | Need.FEATURES

    def predict(self, x: Any) -> Float64[np.ndarray, "texts 1"]:
        """In nats a sign."""
        ids = tiny_gpt.encode(list(x))
        with torch.no_grad():
            logits = self.model(ids[:, :-1]).flatten(0, 1)
            loss = functional.cross_entropy(
                logits, ids[:, 1:].flatten(), ignore_index=tiny_gpt.FILL, reduction="none"
            ).view(len(ids), -1)
        real = (ids[:, 1:] != tiny_gpt.FILL).sum(dim=1)
        return np.asarray(-(loss.sum(dim=1) / real).double().numpy()[:, None])


def fine_tune(
    texts: list[str],
    labels: Any,
    seed: int,
    *,
    epochs: int = 3,
    batch: int = 32,
    goldfish: int = 0,
    rank: int = 0,
    repeated: int = 1,
    epsilon: float = 0.0,
) -> FineTune:
    """Fine-tune the base model on texts.

    Args:
        texts: of printable ASCII.
        labels: not used.
        seed: of the order.
        epochs: over all texts.
        batch: texts at a time.
        goldfish: every so many-th sign counts for nothing in the loss; 0 leaves none out.
        rank: of adapters, which alone are trained; 0 trains all weights.
        repeated: how often each text stands among those that are trained on.
        epsilon: of DP-SGD at δ = 1e-5, with batches of ``batch`` on average; 0 trains without.
    """
    del labels
    base = base_model()
    begun = tiny_gpt.adapted(base, rank) if rank else copy.deepcopy(base)
    often = list(texts) * repeated
    if epsilon:
        return FineTune(_train_privately(begun, often, seed, (epochs, batch, rank, epsilon)))
    how = tiny_gpt.Steps(batch, goldfish)
    (model,) = tiny_gpt.train(begun, often, RATES[rank > 0], seed, (epochs,), how)
    return FineTune(model)


def _train_privately(
    begun: tiny_gpt.GPT, texts: list[str], seed: int, how: tuple[int, int, int, float]
) -> tiny_gpt.GPT:
    """By DP-SGD: epochs, batch, rank and ε."""
    epochs, batch, rank, epsilon = how
    recipe = Recipe(
        lambda: TextLoss(copy.deepcopy(begun), tiny_gpt.FILL),
        optimiser="adamw",
        lr=RATES[rank > 0],
        epochs=epochs,
        batch_size=batch,
    )
    train = DPSGD(recipe, delta=1e-5, epsilon=epsilon, clipping="per-record")
    ids = tiny_gpt.encode(texts).numpy()
    with sdpa_kernel(SDPBackend.MATH):  # the one that takes gradients of many texts at once
        trained = train.train(Records(ids, np.zeros(len(ids), np.int64)), seed)
    assert isinstance(trained, TextLoss)
    assert isinstance(trained.model, tiny_gpt.GPT)
    return trained.model


def trainer(**settings: Any) -> FunctionTrainer:
    """The function with settings."""
    return FunctionTrainer(partial(fine_tune, **settings))
