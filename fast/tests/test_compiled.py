"""Native code trains what the tutorial trains; everything else is left to PyTorch."""

import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from divulge.core import Records
from divulge.errors import SpecError, TargetError
from divulge.training.engine import choose
from divulge.training.fleet import Fleet
from divulge.training.losses import Loss
from divulge.training.recipe import Recipe
from divulge.training.trainers import trainer_identity
from divulge_fast import pool, threads
from divulge_fast.layout import native_layout
from tests.training.twin import (
    SEEDS,
    assert_close,
    brief,
    by_hand,
    dropout,
    linear,
    pool_for,
    subsets,
    trained,
)

numba = pytest.importorskip("numba")
kernels = pytest.importorskip("divulge_fast.kernels")


def one_layer() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 3, bias=False))


def deep() -> nn.Module:
    inner = nn.Sequential(nn.Linear(20, 17, bias=False), nn.Sigmoid(), nn.Linear(17, 5))
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 20), nn.Tanh(), inner, nn.Linear(5, 3))


def pooled() -> nn.Module:
    first = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    second = [nn.Conv2d(4, 9, 3, padding="same"), nn.MaxPool2d((2, 2))]
    return nn.Sequential(first, *second, nn.Flatten(), nn.Linear(36, 3))


def unusual() -> nn.Module:
    """Kernels of even and of large width, windows of three, no biases, no pooling."""
    first = [nn.Conv2d(2, 5, 5, padding=2, bias=False), nn.MaxPool2d(3), nn.ReLU()]
    second = [nn.Conv2d(5, 8, 2, padding="valid"), nn.Sigmoid()]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(8, 3))


def narrow() -> nn.Module:
    """A kernel wider than its image, whose padding makes up for it."""
    return nn.Sequential(nn.Conv2d(2, 3, 9, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))


NETWORKS = (linear, one_layer, deep, pooled, unusual, narrow)


def tied(pool: Records) -> Records:
    """Most entries zero and the others alike: records with few entries, and windows with ties."""
    return Records((pool.x > 1.2).astype(np.float32), pool.y)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("prepare", [lambda pool: pool, tied], ids=["dense", "tied"])
def test_native_code_trains_what_the_tutorial_trains(
    network: Callable[[], nn.Module], prepare: Callable[[Records], Records]
) -> None:
    pool, recipe = prepare(pool_for(network)), brief(network)
    assert_close(trained(Fleet(recipe, "compiled", workers=2), pool), by_hand(recipe, pool))


def test_vectors_of_features_are_trained_as_well() -> None:
    rng = np.random.default_rng(0)
    pool = Records(rng.normal(size=(60, 7)).astype(np.float32), rng.integers(0, 3, 60))
    recipe = brief(lambda: nn.Sequential(nn.Linear(7, 40), nn.ReLU(), nn.Linear(40, 3)))
    assert_close(trained(Fleet(recipe, "compiled"), pool), by_hand(recipe, pool))


@pytest.mark.parametrize(
    "settings",
    [
        {"optimiser": "sgd", "schedule": "cosine"},
        {"optimiser": "adam"},
        {"optimiser": "adamw", "schedule": "cosine"},
        {"optimiser": "sgd", "momentum": 0.9, "patience": 2, "held_out": 0.2, "epochs": 6},
    ],
    ids=lambda settings: settings["optimiser"] + "-patient" * ("patience" in settings),
)
def test_recipes_are_followed(settings: dict[str, Any]) -> None:
    recipe = Recipe(linear, **{"lr": 0.01, "weight_decay": 1e-2, "epochs": 2, **settings})
    recipe = replace(recipe, batch_size=8)
    assert_close(trained(Fleet(recipe, "compiled")), by_hand(recipe, pool_for(linear)))


def test_weights_from_which_training_starts_are_kept() -> None:
    start = linear().state_dict()
    recipe, pool = brief(linear), pool_for(linear)
    models = Fleet(recipe, "compiled").networks(pool, subsets(), SEEDS, start)
    assert_close([model.state_dict() for model in models], by_hand(recipe, pool, start))


@pytest.mark.parametrize("network", [linear, unusual])
def test_models_are_the_same_bit_for_bit_in_any_number_of_threads(
    network: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    before, fleet = torch.get_rng_state(), Fleet(brief(network), "compiled", workers=1)
    first, again, shared = trained(fleet), trained(fleet), trained(replace(fleet, workers=3))
    for one, *others in zip(first, again, shared, strict=True):
        assert all(torch.equal(one[name], other[name]) for other in others for name in one)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_training_that_diverges_ends_as_pytorchs_does() -> None:
    recipe = replace(brief(linear, lr=1e30), weight_decay=0.0)
    for states in (trained(Fleet(recipe, "compiled")), by_hand(recipe, pool_for(linear))):
        assert not any(torch.isfinite(state["1.weight"]).all() for state in states)


def test_classes_that_a_network_has_not_are_refused() -> None:
    pool = pool_for(linear)
    more = Records(pool.x, pool.y + 1)
    with pytest.raises(TargetError, match="classes from 0 to 2, got 1 to 3"):
        trained(Fleet(brief(linear), "compiled"), more)


def test_what_nobody_waits_for_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(*arguments: Any) -> None:
        calls.append(1)
        kernels.train_epochs(*arguments)

    counting = ModuleType("counting")
    counting.__dict__["train_epochs"] = count
    monkeypatch.setattr(threads, "load_kernels", lambda: counting)
    monkeypatch.setattr(threads, "_RECORDS_PER_CALL", 1)
    models, epochs = 50, 200
    fleet = Fleet(replace(brief(linear), epochs=epochs), "compiled", workers=1)
    many = np.repeat(subsets()[:1], models, axis=0)
    trained_ones = fleet.networks(pool_for(linear), many, range(models))
    next(trained_ones)
    assert isinstance(trained_ones, Generator)
    trained_ones.close()
    for thread in threading.enumerate():
        if thread.name.startswith("divulge-training"):
            thread.join()
    assert epochs <= len(calls) < models * epochs / 2


def test_what_is_compiled_is_kept_in_the_users_cache_and_not_beside_the_source() -> None:
    kept = Path(kernels._trainer(False, False, False).stats.cache_path)
    assert Path(kernels.__file__).parent not in kept.parents
    assert not list(Path(kernels.__file__).parent.rglob("kernels._trainer*.nbi"))


def test_exponentials_are_right_to_the_last_places() -> None:
    z = np.concatenate([np.linspace(-87, 87, 4000), [0.0, -0.0]]).astype(np.float32)
    found, bits = z.copy(), np.empty(len(z), np.int32)
    at, n = np.uint64(0), np.uint64(len(z))
    kernels._exponentials(found, at, n, bits, bits.view(np.float32))
    np.testing.assert_allclose(found, np.exp(z.astype(np.float64)), rtol=2.5e-7)


class Sub(nn.Linear):
    """Somebody else's layer."""


def hooked() -> nn.Module:
    module = linear()
    next(iter(module.children())).register_forward_hook(lambda *_: None)
    return module


def shared() -> nn.Module:
    layer = nn.Linear(128, 128)
    return nn.Sequential(nn.Flatten(), layer, layer, nn.Linear(128, 3))


def frozen() -> nn.Module:
    module = linear()
    next(module.parameters()).requires_grad_(False)
    return module


def conv(**settings: Any) -> nn.Module:
    layer = nn.Conv2d(2, 4, **{"kernel_size": 3, "padding": 1, **settings})
    return nn.Sequential(layer, nn.Flatten(), nn.LazyLinear(3))


OTHERS: dict[str, nn.Module] = {
    "dropout": dropout(),
    "hooks": hooked(),
    "shared weights": shared(),
    "frozen weights": frozen(),
    "subclass": nn.Sequential(nn.Flatten(), Sub(128, 3)),
    "parametrised": nn.Sequential(nn.Flatten(), parametrizations.weight_norm(nn.Linear(128, 3))),
    "double precision": linear().double(),
    "module of its own": nn.Sequential(nn.Flatten(), nn.Identity(), nn.Linear(128, 3)),
    "another width": nn.Sequential(nn.Flatten(), nn.Linear(7, 3)),
    "images as rows": nn.Sequential(nn.Linear(8, 3)),
    "part of a record": nn.Sequential(nn.Flatten(2), nn.Linear(64, 3)),
    "activation at the end": nn.Sequential(nn.Flatten(), nn.Linear(128, 3), nn.ReLU()),
    "two activations": nn.Sequential(
        nn.Flatten(), nn.Linear(128, 9), nn.ReLU(), nn.Tanh(), nn.Linear(9, 3)
    ),
    "stride": conv(stride=2),
    "dilation": conv(dilation=2),
    "groups": conv(groups=2),
    "reflection": conv(padding_mode="reflect"),
    "oblong kernel": conv(kernel_size=(3, 1)),
    "oblong padding": conv(padding=(1, 0)),
    "lopsided padding": conv(kernel_size=4, padding="same"),
    "average": nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    ),
    "overlapping windows": nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.MaxPool2d(3, 1), nn.Flatten(), nn.Linear(64, 3)
    ),
    "padded windows": nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.MaxPool2d(2, padding=1), nn.Flatten(), nn.Linear(64, 3)
    ),
    "too small": nn.Sequential(nn.Conv2d(2, 4, 9), nn.Flatten(), nn.Linear(4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_other_networks_are_left_to_pytorch(what: str) -> None:
    assert native_layout(OTHERS[what], (2, 8, 8)) is None


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_are_packed_without_loss(network: Callable[[], nn.Module]) -> None:
    module, other = network(), network()
    layout = native_layout(module, (2, 8, 8))
    assert layout is not None
    packed = layout.pack(module)
    assert packed.ctypes.data % 64 == 0
    numbers = sum(p.numel() for p in module.parameters())
    assert np.count_nonzero(packed) == sum(int(p.count_nonzero()) for p in module.parameters())
    assert layout.size >= numbers
    layout.unpack(packed, other)
    assert all(map(torch.equal, module.parameters(), other.parameters()))


def test_what_it_cannot_train_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match="dense or simple convolutional"):
        trained(Fleet(brief(dropout), "compiled"))

    def loss(logits: torch.Tensor, y: torch.Tensor, epoch: int) -> torch.Tensor:
        return nn.functional.cross_entropy(logits, y) * (epoch + 1)

    assert isinstance(loss, Loss)
    with pytest.raises(SpecError, match="no loss of its own"):
        trained(Fleet(replace(brief(linear), loss=loss), "compiled"))
    with pytest.raises(SpecError, match="sgd, adam or adamw"):
        trained(Fleet(Recipe(linear, "adamax"), "compiled"))
    with pytest.raises(SpecError, match='device="cpu" with compiled'):
        Fleet(brief(linear), "compiled", device="cuda")


def test_it_is_chosen_for_small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_MIN_WORK_SECONDS", 0.0)
    settled = Fleet(brief(linear), workers=2).settled(pool_for(linear), subsets())
    assert settled.chosen == "compiled (2): native code is faster for small networks"


def test_a_trial_decides_for_large_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_MIN_WORK_SECONDS", 0.0)
    monkeypatch.setattr(choose, "_TRIAL_SECONDS", 0.001)
    monkeypatch.setattr(threads, "_SMALL_WEIGHTS", 0)
    settled = Fleet(brief(linear), workers=2).settled(pool_for(linear), subsets())
    assert "compiled (2) " in settled.why
    assert "one-by-one (1) " in settled.why


def test_what_is_large() -> None:
    assert not threads.is_large(nn.Sequential(nn.Conv2d(3, 32, 3), nn.Linear(600, 256)))
    assert threads.is_large(nn.Sequential(nn.Conv2d(3, 33, 3)))
    assert threads.is_large(nn.Linear(1000, 1000))


@pytest.mark.slow
def test_without_numba_it_is_not_chosen() -> None:
    program = """
import sys
sys.modules["numba"] = None  # importing it fails
from divulge.errors import MissingExtra
from divulge.training.engine import choose
from divulge.training.fleet import Fleet
from tests.training.twin import brief, linear, pool_for, subsets
choose._MIN_WORK_SECONDS = 0.0
choose._TRIAL_SECONDS = 0.001
print(Fleet(brief(linear), workers=1).settled(pool_for(linear), subsets()).way)
try:
    list(Fleet(brief(linear), "compiled").networks(pool_for(linear), subsets(), range(4)))
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    way, said = done.stdout.splitlines()
    assert way in ("one-by-one", "stacked")
    assert said.startswith("expected the package 'numba' to be installed")
    assert "pip install . ./fast" in said


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(70, 40), nn.ReLU(), nn.Linear(40, 3))


def half_zero() -> Records:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 70)) * (rng.random((60, 70)) < 0.5)
    return Records(x.astype(np.float32), rng.integers(0, 3, 60))


def halved(numbers: np.ndarray) -> np.ndarray:
    """Rounded to bfloat16."""
    return torch.from_numpy(numbers).bfloat16().float().numpy()


def paired_rows(numbers: np.ndarray) -> np.ndarray:
    """Rows 2l and 2l + 1 as a row of pairs."""
    bits = halved(numbers).view(np.uint32)
    return np.ascontiguousarray(bits[::2] >> 16 | bits[1::2])


def test_rows_are_paired_and_rounded_as_pytorch_rounds() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(8, 48)).astype(np.float32)
    numbers[0, :5] = [1 + 2**-8, 1 + 3 * 2**-8, np.inf, -np.inf, -0.0]  # ties, and others
    goal, u = np.zeros((4, 48), np.uint32), np.uint64
    kernels._pair_rows(goal.ravel(), numbers.ravel(), u(0), u(4), u(48))
    np.testing.assert_array_equal(goal, paired_rows(numbers))
    numbers[1] = np.nan
    kernels._pair_rows(goal.ravel(), numbers.ravel(), u(0), u(4), u(48))
    assert np.isnan((goal[0] & np.uint32(0xFFFF0000)).view(np.float32)).all()


def test_pairs_of_features_become_pairs_of_records() -> None:
    numbers = np.random.default_rng(0).normal(size=(6, 32)).astype(np.float32)
    source, u = pool._pair_features(numbers, 32), np.uint64
    goal = np.zeros((3, 32), np.uint32)
    kernels._pair_records(goal.ravel(), np.ascontiguousarray(source).ravel(), u(3), u(16))
    np.testing.assert_array_equal(goal, paired_rows(numbers))


PRODUCTS = {
    "on any processor": kernels._add_products_of_widened_pairs,
    "by the processor": kernels._add_products_of_pairs,
}


@pytest.mark.parametrize("how", PRODUCTS)
def test_products_of_pairs_are_those_of_rounded_numbers(how: str) -> None:
    if how == "by the processor" and not kernels.HAS_BFLOAT16:
        pytest.skip("this processor has no AVX512-BF16: its products are not tested")
    add = numba.njit(call_of(kernels._tile_adder(4, 1, PRODUCTS[how])))
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 10), (10, 16)))
    start = rng.normal(size=(4, 16)).astype(np.float32)
    goal, shares, u = start.copy(), paired_rows(left.T), np.uint64
    add(goal.ravel(), shares.ravel(), paired_rows(right).ravel(), np.arange(5, dtype=u) * u(16))
    expected = start + halved(left).astype(np.float64) @ halved(right)
    np.testing.assert_allclose(goal, expected, rtol=1e-5, atol=1e-5)


def call_of(adder: Any) -> Callable[..., None]:
    """A call for a goal of 4 rows of 16, shares of which lie by row, as Numba compiles it."""
    u = np.uint64
    zero, one, four, stride = u(0), u(1), u(4), u(16)

    def call(goal: Any, share: Any, right: Any, rows: Any) -> None:
        adder(goal, zero, stride, share, zero, one, four, right, rows, zero)

    return call


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processor cannot, it is computed in another way, with the same rounding."""
    monkeypatch.setattr(kernels, "HAS_BFLOAT16", True)


def by_naive_twin(recipe: Recipe, pool: Records) -> list[dict[str, torch.Tensor]]:
    """Plain PyTorch that rounds what the first layer multiplies, and nothing else."""

    class Rounding(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.bfloat16().float() @ w.bfloat16().float().T

        @staticmethod
        def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return None, slopes[0].bfloat16().float().T @ x.bfloat16().float()

    class Rounded(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            product: torch.Tensor = Rounding.apply(x, self.weight)  # type: ignore[no-untyped-call]
            return product + self.bias

    def network() -> nn.Module:
        module = recipe.network()
        assert isinstance(module, nn.Sequential)
        module[0].__class__ = Rounded
        return module

    return by_hand(replace(recipe, network=network), pool)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize(
    "settings",
    [
        {"momentum": 0.9},
        {"optimiser": "adam", "lr": 1e-3},
        {"batch_size": 7},
        {"patience": 2, "held_out": 0.2, "momentum": 0.9},
    ],
    ids=["momentum", "adam", "odd batches", "patience"],
)
def test_in_bfloat16_only_the_first_layers_products_are_rounded(settings: dict[str, Any]) -> None:
    recipe = Recipe(wide, **{"lr": 0.05, "epochs": 3, "batch_size": 16, **settings})
    pool = half_zero()
    found = trained(Fleet(recipe, workers=2, precision="bfloat16"), pool)
    assert_close(found, by_naive_twin(recipe, pool))
    for one, other in zip(found, trained(Fleet(recipe, "compiled"), pool), strict=True):
        assert not torch.allclose(one["0.weight"], other["0.weight"], rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("bfloat16")
def test_bfloat16_gives_the_same_bits_in_any_number_of_threads_and_when_settled() -> None:
    pool, fleet = half_zero(), Fleet(brief(wide), precision="bfloat16")
    settled = fleet.settled(pool, subsets())
    assert (settled.way, settled.precision) == ("compiled", "bfloat16")
    assert settled.why == "it multiplies in bfloat16"
    first, *others = (trained(one, pool) for one in (fleet, settled, replace(fleet, workers=1)))
    for other in others:
        assert all(torch.equal(a[k], b[k]) for a, b in zip(first, other, strict=True) for k in a)


def test_stored_models_are_of_one_precision() -> None:
    fleet = Fleet(brief(wide))
    assert trainer_identity(replace(fleet, precision="bfloat16")) != trainer_identity(fleet)
    assert "precision" not in trainer_identity(fleet)  # models stored before it came stay valid


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize(
    ("fleet", "pool", "why"),
    [
        (Fleet(Recipe(wide, "adamax")), half_zero(), "not a dense network that native code"),
        (Fleet(brief(pooled)), pool_for(pooled), "not a dense network"),
        (Fleet(brief(linear)), tied(pool_for(linear)), "most entries of the records are zero"),
    ],
    ids=["optimiser", "images", "zeros"],
)
def test_what_gains_nothing_by_bfloat16_is_refused(fleet: Fleet, pool: Records, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        trained(replace(fleet, precision="bfloat16"), pool)


def test_bfloat16_is_refused_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "HAS_BFLOAT16", False)
    with pytest.raises(SpecError, match="no AVX512-BF16: leave the precision out"):
        trained(Fleet(brief(wide), precision="bfloat16"), half_zero())
    for way in ("processes", "stacked"):
        with pytest.raises(SpecError, match='way="auto", "compiled" or "one-by-one"'):
            Fleet(brief(wide), way, precision="bfloat16")
    with pytest.raises(SpecError, match="after some of their epochs"):
        list(Fleet(brief(wide), precision="bfloat16").stages(half_zero(), subsets(), SEEDS, [1]))
