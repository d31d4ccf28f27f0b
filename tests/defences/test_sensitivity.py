"""One record moves a step of DP-SGD by no more than the clipping norm, in any network it trains.

Two trainings differ in one record; what is compared is what they leave, not norms that the code
computes itself.
"""

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import dropout, linear
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from divulge.core import NoiseKind, Records
from divulge.defences.training.dp_sgd.clipping import Clipping
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.errors import SpecError
from divulge.training.recipe import Recipe

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


def influence(trainer: DPSGD, before: Records | None, after: Records) -> float:
    """How far two steps on these records lie apart, times what their sums are divided by."""
    start = state(initial_network(trainer))
    steps = [
        len(records) * (start - state(trainer.train(records, 7))) if records else 0.0 * start
        for records in (before, after)
    ]
    return float((steps[1] - steps[0]).norm())


def initial_network(trainer: DPSGD) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(7)
        return trainer.recipe.network().eval()


def state(network: nn.Module) -> torch.Tensor:
    """All that is published: weights and buffers, each once, in double precision."""
    tensors = [*network.parameters(), *network.buffers()]
    return torch.cat([t.detach().double().flatten() for t in tensors])


def unlikeliest(trainer: DPSGD, x: np.ndarray) -> int:
    """The label by which a record pulls most."""
    with torch.no_grad():
        return int(initial_network(trainer)(torch.tensor(x)).argmin())


def build(parts: tuple[str, ...], clipping: Clipping, noise: NoiseKind, norm: float) -> DPSGD:
    recipe = Recipe(Built(parts), lr=1.0, epochs=1, batch_size=10)
    return DPSGD(recipe, 1e-5, 1e-6, max_grad_norm=norm, clipping=clipping, noise=noise, jobs=1)


ROUNDING = 2e-5
"""Weights of about 1 in single precision (6e-8), a hundred of them, times four records; and noise
of a millionth of the norm on each."""

numbers = st.one_of(
    st.floats(-3, 3, width=32),
    st.builds(
        lambda sign, power, digits: float(np.float32(sign * digits * 10.0**power)),
        st.sampled_from([-1, 1]),
        st.integers(-30, 38),
        st.floats(1, 3),
    ),
)


@given(
    parts=st.lists(st.sampled_from(sorted(PARTS)), max_size=3).map(tuple),
    record=st.lists(numbers, min_size=WIDTH, max_size=WIDTH),
    label=st.integers(0, CLASSES - 1),
    clipping=st.sampled_from(get_args(Clipping)),
    noise=st.sampled_from(get_args(NoiseKind)),
    norm=st.sampled_from([0.1, 1.0, 10.0]),
)
@settings(phases=[Phase.generate])
def test_a_record_moves_a_step_by_the_clipping_norm_at_most(
    parts: tuple[str, ...],
    record: list[float],
    label: int,
    clipping: Clipping,
    noise: NoiseKind,
    norm: float,
) -> None:
    how = build(parts, clipping, noise, norm)
    odd, y = np.array([record], np.float32), np.array([label])
    assert influence(how, None, Records(odd, y)) <= norm * (1 + 1e-3) + ROUNDING
    # beside others it takes the place of one: dropout draws by the size of a batch
    x = np.random.default_rng(0).normal(size=(4, WIDTH)).astype(np.float32)
    before = Records(x, np.arange(4) % CLASSES)
    after = Records(np.vstack([x[:3], odd]), np.append(before.y[:3], y))
    assert influence(how, before, after) <= 2 * norm * (1 + 1e-3) + ROUNDING


@pytest.mark.parametrize("clipping", ["ghost", "per-record"])
@pytest.mark.parametrize("part", sorted(PARTS))
def test_each_part_is_trained_and_its_gradient_clipped(part: str, clipping: Clipping) -> None:
    """A record that pulls far moves a step by the clipping norm: by no less, either."""
    x = np.random.default_rng(1).normal(size=(4, WIDTH)).astype(np.float32)
    x[3] *= 30
    how = build((part,), clipping, "seeded", 0.01)
    label = unlikeliest(how, x[3:])
    moved = influence(how, Records(x[:3], np.arange(3)), Records(x, np.array([0, 1, 2, label])))
    assert 0.0099 < moved <= 0.01 * (1 + 1e-3) + ROUNDING


@pytest.mark.parametrize("clipping", ["ghost", "per-record"])
@pytest.mark.parametrize("size", [1e20, 3e38])
def test_a_record_without_a_finite_gradient_adds_nothing(clipping: Clipping, size: float) -> None:
    x = np.random.default_rng(2).normal(size=(4, WIDTH)).astype(np.float32)
    x[3] = size
    few, more = Records(x[:3], np.arange(3)), Records(x, np.array([0, 1, 2, 1]))
    for parts in (("square",), ("layer norm", "square"), ("square", "convolution")):
        assert influence(build(parts, clipping, "seeded", 1.0), few, more) <= ROUNDING


class Averaging(nn.Linear):
    """Keeps a running mean of what it gets."""

    def __init__(self, *, saved: bool) -> None:
        super().__init__(WIDTH, CLASSES)
        self.mean: Any = torch.zeros(WIDTH)
        if saved:
            del self.mean
            self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return super().forward(x - self.mean)


class Renormed(nn.Module):
    """An embedding that shortens the rows of the words it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2, WIDTH, max_norm=0.1)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(self.table((x[:, 0] > 0).long()))
        return answers


class Detached(nn.Linear):
    """Sees the mean of its batch, without a gradient by it."""

    def __init__(self) -> None:
        super().__init__(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + x.detach().sort(0).values)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda: Averaging(saved=True), "changes 'mean'"),
        (lambda: Averaging(saved=False), "changes what it answers later"),
        (Renormed, "changes 'table.weight'"),
        (
            lambda: nn.Sequential(
                nn.Unflatten(1, (2, 3)),
                nn.InstanceNorm1d(2, track_running_stats=True),
                nn.Flatten(),
                nn.Linear(WIDTH, CLASSES),
            ),
            "changes '1.running_mean'",
        ),
        (lambda: spectral_norm(nn.Linear(WIDTH, CLASSES)), "changes 'parametrizations.*_u'"),
        (Detached, "depends on the others of its batch"),
        (lambda: nn.Linear(WIDTH, CLASSES).half(), r"'weight' \(torch.float16\)"),
    ],
)
def test_what_keeps_or_mixes_records_is_refused(network: Any, message: str) -> None:
    how = DPSGD(Recipe(network, epochs=1), 1e-5, 1.0, jobs=1)
    pool = Records(np.random.default_rng(0).normal(size=(8, WIDTH)), np.arange(8) % CLASSES)
    with pytest.raises(SpecError, match=message):
        how.check(pool)
