"""What is clipped in one pass is the gradient of each record, as PyTorch has it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear

from divulge.defences.training.dp_sgd import layer_gradients
from divulge.defences.training.dp_sgd.clipping import UnknownUseError, set_clipped_sum
from divulge.defences.training.dp_sgd.clipping_way import choose_way
from divulge.defences.training.dp_sgd.one_pass import OnePassGradients

CLASSES = 3


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES, bias=False))


def images() -> nn.Module:
    first = [nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4, eps=0.1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(4, 5, (3, 2), stride=(1, 2), padding=(0, 1), bias=False), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(10, CLASSES))


def dilated() -> nn.Module:
    layers = [nn.Conv2d(2, 3, 3, dilation=2, padding=2, stride=3), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(3 * 9, CLASSES))


def signals() -> nn.Module:
    layers = [nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, CLASSES))


class Positions(nn.Module):
    """Linear layers at each of several positions, and normalisation of each."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, wide), nn.LayerNorm((5, wide)), nn.Linear(wide, 6))
        self.norm, self.last = nn.LayerNorm(6, eps=0.1), nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(self.norm(self.inner(x)).mean(1))
        return answers


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 64), nn.Dropout(0.5), nn.Linear(64, CLASSES))


class Words(nn.Module):
    """An embedding, some of whose words come more than once in a record."""

    def __init__(self, padding: int | None = None) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(9, 5, padding), nn.Linear(5, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(self.table(x).tanh().mean(1))
        return answers


def overwriting() -> nn.Module:
    layers = [nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, CLASSES)]
    return nn.Sequential(*layers)


KNOWN: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "dense": (dense, (6,)),
    "images": (images, (2, 6, 6)),
    "dilated": (dilated, (2, 8, 8)),
    "signals": (signals, (2, 7)),
    "positions, few weights": (lambda: Positions(3), (5, 4)),
    "positions, many weights": (lambda: Positions(40), (5, 4)),
    "dropping": (dropping, (6,)),
}


def batch(shape: tuple[int, ...], records: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(records, *shape, dtype=torch.float64), torch.arange(records) % CLASSES


def by_hand(module: nn.Module, x: torch.Tensor, y: torch.Tensor, norm: float) -> list[torch.Tensor]:
    """One record's gradient after another's, of one forward pass, whose dropout all share."""
    losses = cross_entropy(module(x), y, reduction="none")
    params = list(module.parameters())
    sums = [torch.zeros_like(p) for p in params]
    for loss in losses:
        gradients = torch.autograd.grad(loss, params, retain_graph=True)
        whole = torch.cat([g.flatten() for g in gradients]).norm()
        for total, gradient in zip(sums, gradients, strict=True):
            total += gradient * min(1.0, norm / (float(whole) + 1e-6))
    return sums


@pytest.mark.parametrize("memory", ["little", "enough"])
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("norm", [1e-3, 0.7, 1e3])  # all, some and no records are clipped
def test_a_sum_is_that_of_each_records_clipped_gradient(
    name: str, norm: float, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory == "little":  # one record at a time, and no gradient is kept
        monkeypatch.setattr(layer_gradients, "_ROOM", 1)
        monkeypatch.setattr(layer_gradients, "_KEPT", 0)
    make, shape = KNOWN[name]
    torch.manual_seed(0)
    module, (x, y) = make().double(), batch(shape)
    assert choose_way(module, x[:4], "ghost").way == "one pass"
    torch.manual_seed(2)
    expected = by_hand(module, x, y, norm)
    torch.manual_seed(2)
    set_clipped_sum(OnePassGradients(module), x, y, norm)
    for p, right in zip(module.parameters(), expected, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("memory", ["little", "enough"])
def test_an_embedding_adds_up_the_places_of_a_word(
    padding: int | None, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory == "little":
        monkeypatch.setattr(layer_gradients, "_ROOM", 1)
    module = Words(padding).double()
    draws = torch.Generator().manual_seed(0)
    x, y = torch.randint(0, 9, (7, 12), generator=draws), torch.arange(7) % CLASSES
    assert choose_way(module, x[:4], "ghost").way == "one pass"
    expected = by_hand(module, x, y, 0.1)
    set_clipped_sum(OnePassGradients(module), x, y, 0.1)
    for p, right in zip(module.parameters(), expected, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, right, rtol=1e-9, atol=1e-12)


def test_channels_may_be_last_in_memory() -> None:
    module, (x, y) = images().double(), batch((2, 6, 6))
    expected = by_hand(module, x, y, 0.7)
    module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = x.contiguous(memory_format=torch.channels_last)
    set_clipped_sum(OnePassGradients(module), x, y, 0.7)
    for p, right in zip(module.parameters(), expected, strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, right, rtol=1e-9, atol=1e-12)


class Twice(nn.Module):
    """A layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.last = nn.Linear(6, 6), nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(self.one(self.one(x)))
        return answers


class Aside(Twice):
    """Weights of a layer that are also used elsewhere."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(self.one(linear(x, self.one.weight)))
        return answers


class Never(Twice):
    """A layer that is not called."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(x)
        return answers


class Turned(nn.Module):
    """Another axis than that of the records stands in front."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.last = nn.Linear(4, 4), nn.Linear(4, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(self.one(x.transpose(0, 1)).mean(0))
        return answers


class Own(nn.Module):
    """A parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.last = nn.Parameter(torch.ones(6)), nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(x * self.scale)
        return answers


def shared() -> nn.Module:
    one, other = nn.Linear(6, 6), nn.Linear(6, 6)
    other.weight = one.weight
    return nn.Sequential(one, other, nn.Linear(6, CLASSES))


def half_frozen() -> nn.Module:
    module = dense()
    assert isinstance(module, nn.Sequential)
    module[0].bias.requires_grad_(False)
    return module


UNKNOWN: dict[str, tuple[Any, tuple[int, ...]]] = {
    "called twice": (Twice, (6,)),
    "used elsewhere": (Aside, (6,)),
    "never called": (Never, (6,)),
    "another axis in front": (Turned, (5, 4)),
    "another axis in front, as long": (Turned, (4, 4)),
    "a parameter of its own": (Own, (6,)),
    "shared": (shared, (6,)),
    "frozen in part": (half_frozen, (6,)),
    "in groups": (lambda: nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Flatten()), (2, 3, 3)),
    "overwritten": (overwriting, (2, 6, 6)),
    "a layer that is not known": (lambda: nn.Sequential(nn.Linear(6, CLASSES), nn.PReLU()), (6,)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_networks_are_clipped_per_record(name: str) -> None:
    make, shape = UNKNOWN[name]
    module, (x, _) = make().double(), batch(shape, 4)
    way = choose_way(module, x, "ghost")
    assert way.way != "one pass"
    assert way.note.startswith("per-record clipping")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("called twice", "layer 'one' is called several times"),
        ("never called", "layer 'one' is not called"),
        ("shared", "weight '0.weight' belongs to several layers"),
        ("a parameter of its own", r"weight 'scale' is of a layer of another kind \(Own\)"),
        ("in groups", r"weight '0.weight' is of a layer of another kind \(Conv2d\)"),
    ],
)
def test_a_refusal_names_the_weight_or_the_layer(name: str, reason: str) -> None:
    make, shape = UNKNOWN[name]
    x, y = batch(shape, 4)
    with pytest.raises(UnknownUseError, match=reason):
        OnePassGradients(make().double())(x, y)


def test_whole_layers_may_be_frozen() -> None:
    module, (x, y) = dense().double(), batch((6,))
    assert isinstance(module, nn.Sequential)
    module[0].requires_grad_(False)
    set_clipped_sum(OnePassGradients(module), x, y, 1e3)
    assert module[0].weight.grad is None
    (weight,) = module[2].parameters()
    (right,) = torch.autograd.grad(cross_entropy(module(x), y, reduction="sum"), weight)
    torch.testing.assert_close(weight.grad, right, rtol=1e-9, atol=1e-12)
