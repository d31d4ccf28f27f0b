"""A grammar of small networks: layers of every kind, weights that are shared, frozen or hooked."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import dropout, linear
from torch.nn.utils.parametrizations import weight_norm

WIDTH, CLASSES = 6, 3


class Tied(nn.Module):
    """Uses the weights of another layer in functions, or its own twice."""

    def __init__(self, first: nn.Linear, how: str) -> None:
        super().__init__()
        self.first, self.how = first, how
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.first.weight
        answers: torch.Tensor = self.first(x)
        if self.how == "function":
            answers = linear(x, weight)
        if self.how == "transposed":
            answers = linear(x, weight.t())
        if self.how == "gated":  # nothing, until weights are random
            answers = x + self.gate * linear(x, weight)
        if self.how == "small":
            answers = 1e-3 * answers + linear(x, weight)
        return answers


class Shaped(nn.Module):
    """A layer that takes other shapes than rows of numbers."""

    def __init__(self, shape: tuple[int, ...], layer: nn.Module) -> None:
        super().__init__()
        self.shape, self.layer = shape, layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = x.reshape(len(x), *self.shape)
        several = (given,) * (3 if isinstance(self.layer, nn.MultiheadAttention) else 1)
        answers = self.layer(*several)
        first: torch.Tensor = answers[0] if isinstance(answers, tuple) else answers
        return x + first.flatten(1)


class Coded(nn.Module):
    """An embedding of the signs of its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words: torch.Tensor = self.table((x > 0).long())
        return x + words.mean(1)


class Function(nn.Module):
    """Something without weights."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "dropout":
            return dropout(x, 0.5, self.training)
        if self.how == "gradient divided by that of its batch" and x.requires_grad:
            x = x * 1
            x.register_hook(divide_by_batch)  # type: ignore[no-untyped-call]
        return x * x if self.how == "square" else x


def divide_by_batch(gradient: torch.Tensor) -> torch.Tensor:
    return gradient / gradient.abs().sum()


def times_hundred(gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 100


def hooked() -> nn.Module:
    layer = nn.Linear(WIDTH, WIDTH)
    layer.weight.register_hook(times_hundred)  # type: ignore[no-untyped-call]
    return layer


def frozen() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH).requires_grad_(False)


def half_frozen() -> nn.Module:
    layer = nn.Linear(WIDTH, WIDTH)
    layer.bias.requires_grad_(False)
    return layer


def changed_answers() -> nn.Module:
    layer = nn.Linear(WIDTH, WIDTH)
    layer.register_forward_hook(lambda _, __, answers: 50 * answers)
    return layer


def same_weight(first: nn.Linear) -> nn.Module:
    layer = nn.Linear(WIDTH, WIDTH)
    layer.weight = first.weight
    return layer


PARTS: dict[str, Any] = {
    "linear": lambda _: nn.Linear(WIDTH, WIDTH),
    "no bias": lambda _: nn.Linear(WIDTH, WIDTH, bias=False),
    "relu": lambda _: nn.ReLU(),
    "tanh": lambda _: nn.Tanh(),
    "layer norm": lambda _: nn.LayerNorm(WIDTH),
    "group norm": lambda _: nn.GroupNorm(2, WIDTH),
    "prelu": lambda _: nn.PReLU(),
    "dropout layer": lambda _: nn.Dropout(0.5),
    "dropout": lambda _: Function("dropout"),
    "mixed gradients": lambda _: Function("gradient divided by that of its batch"),
    "positions": lambda _: Shaped((3, 2), nn.Linear(2, 2)),
    "convolution": lambda _: Shaped((2, 3), nn.Conv1d(2, 2, 3, padding=1)),
    "groups": lambda _: Shaped((2, 3), nn.Conv1d(2, 2, 3, padding=1, groups=2)),
    "images": lambda _: Shaped((1, 2, 3), nn.Conv2d(1, 1, 3, padding=1)),
    "attention": lambda _: Shaped((3, 2), nn.MultiheadAttention(2, 1, batch_first=True)),
    "embedding": lambda _: Coded(),
    "hook": lambda _: hooked(),
    "changed answers": lambda _: changed_answers(),
    "frozen": lambda _: frozen(),
    "half frozen": lambda _: half_frozen(),
    "weight norm": lambda _: weight_norm(nn.Linear(WIDTH, WIDTH)),
    "recurrent": lambda _: Shaped((3, 2), nn.LSTM(2, 2, batch_first=True)),
    "tied": same_weight,
    "function": lambda first: Tied(first, "function"),
    "transposed": lambda first: Tied(first, "transposed"),
    "again": lambda first: Tied(first, "again"),
    "gated": lambda first: Tied(first, "gated"),
    "small": lambda first: Tied(first, "small"),
    "square": lambda _: Function("square"),
}


@dataclass(frozen=True)
class Built:
    """A network of these parts, for a recipe."""

    parts: tuple[str, ...]

    def __call__(self) -> nn.Module:
        first = nn.Linear(WIDTH, WIDTH)
        return nn.Sequential(
            first, *(PARTS[part](first) for part in self.parts), nn.Linear(WIDTH, CLASSES)
        )
