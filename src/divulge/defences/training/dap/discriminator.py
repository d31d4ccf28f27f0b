"""Train DAP's discriminator, which tells members from shadows' predictions, labels and losses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import nn

from divulge.core import Records
from divulge.errors import DataError
from divulge.training.engine.loop import temporary_seed
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge.training.tensors import cast_to_precision

Samples = Literal["misclassified", "all"]
_MIN_SAMPLES = 10
"""The fewest members, and the fewest non-members, from which a discriminator can learn."""


def evidence(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The discriminator's inputs: probabilities, one-hot label and cross-entropy of each record."""
    chances = logits.log_softmax(dim=1)
    label = torch.zeros_like(logits).scatter_(1, y[:, None], 1.0)
    # section 3: prediction, ground truth and loss of each sample
    return torch.cat([chances.exp(), label, -chances.gather(1, y[:, None])], dim=1)


class FastDropout(nn.Dropout):
    """PyTorch's own, to the bit on a CPU, in two thirds of the time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Some of the values left out, and the others made up for it, in training alone."""
        if not self.training:
            return x
        keep_rate = 1 - self.p
        coins = torch.rand_like(x, dtype=torch.float64)  # which it draws one by one, and slowly
        return x * (coins < keep_rate).to(x.dtype).div_(keep_rate)


class DiscriminatorBlock(nn.Module):
    """Three layers of batch normalisation, ReLU and weights, beside a linear way round them."""

    def __init__(self, inside: int, width: int) -> None:
        super().__init__()
        widths = [inside, width, width]
        layers = [
            (nn.BatchNorm1d(size), nn.ReLU(), nn.Linear(size, width), FastDropout(0.2))
            for size in widths
        ]
        self.layers = nn.Sequential(*(part for layer in layers for part in layer))
        self.around = nn.Linear(inside, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both ways."""
        out: torch.Tensor = self.layers(x) + self.around(x)
        return out


class Discriminator(nn.Module):
    """Residual: standardised evidence, three blocks, and one logit for each of the two answers."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, mean: torch.Tensor, deviation: torch.Tensor, width: int = 128) -> None:
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("deviation", deviation.clone())
        sizes = [len(mean), width, width]
        self.blocks = nn.Sequential(
            *(DiscriminatorBlock(size, width) for size in sizes), nn.Linear(width, 2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of "was not trained on", and of "was"."""
        out: torch.Tensor = self.blocks((x - self.mean) / self.deviation)
        return out


@dataclass(frozen=True)
class MembershipEvidence:
    """The discriminator's training set: evidence of shadows on records, and who trained on them."""

    evidence: Float[np.ndarray, "samples features"]
    member: Bool[np.ndarray, " samples"]


def collect_evidence(
    shadows: Sequence[nn.Module],
    subsets: Bool[np.ndarray, "models records"],
    public: Records,
    samples: Samples,
) -> MembershipEvidence:
    """The evidence of all shadows, of those records that they classify wrongly or of all.

    Raises:
        DataError: there are too few members or non-members among them.
    """
    parts, member = [], []
    x, y = map(torch.tensor, cast_to_precision(public, shadows[0]))
    for shadow, subset in zip(shadows, subsets, strict=True):
        with torch.no_grad():
            logits = shadow.cpu()(x)
        # section 3: only what a shadow model classifies wrongly is kept
        chosen = (logits.argmax(dim=1) != y) | (samples == "all")
        parts.append(evidence(logits, y)[chosen].numpy())
        member.append(subset[chosen.numpy()])
    collected = MembershipEvidence(np.concatenate(parts).astype(np.float32), np.concatenate(member))
    inside = int(collected.member.sum())
    if min(inside, len(collected.member) - inside) < _MIN_SAMPLES:
        raise DataError(
            f"expected {_MIN_SAMPLES} members and {_MIN_SAMPLES} non-members that shadows classify "
            f"wrongly, got {inside} and {len(collected.member) - inside}: give more shadows or "
            'records, train them for fewer epochs, or use samples="all"'
        )
    return collected


def train_discriminator(data: MembershipEvidence, seed: int) -> Discriminator:
    """A discriminator that has learned from this evidence, with frozen weights.

    A fifth of the samples is held out, by whose loss the epoch is chosen.
    """
    recipe = Recipe(
        _network_factory(data),
        lr=0.01,
        momentum=0.9,
        weight_decay=5e-4,
        epochs=40,
        batch_size=128,
        schedule="cosine",
        patience=10,
        held_out=0.2,
    )
    pool = Records(data.evidence, data.member.astype(np.int64))
    everything = np.ones((1, len(pool)), np.bool_)
    (module,) = Fleet(recipe, "one-by-one", 1).networks(pool, everything, [seed])
    assert isinstance(module, Discriminator)
    return module.requires_grad_(requires_grad=False)


def random_discriminator(data: MembershipEvidence, seed: int) -> Discriminator:
    """One that has learned nothing but the scale of the evidence: the control."""
    with temporary_seed(seed, torch.device("cpu")):
        return _network_factory(data)().eval().requires_grad_(requires_grad=False)


def _network_factory(data: MembershipEvidence) -> Callable[[], Discriminator]:
    mean, deviation = data.evidence.mean(axis=0), data.evidence.std(axis=0)
    return partial(
        Discriminator, torch.from_numpy(mean), torch.from_numpy(np.maximum(deviation, 1e-6))
    )
