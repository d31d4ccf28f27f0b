"""What one record or one client adds before the noise: at most what the noise is made for.

A mechanism promises by a bound: whoever is added, removed or replaced moves what is handed to the
source of noise by the bound at most, and the scale that is handed with it is the bound times the
noise that was asked for. Here the source keeps what it gets and adds nothing, so that both are
seen as they are. ``secure-sum`` adds no noise; its bound is the range that entries are held to.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

import dp_accounting
import numpy as np
import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from opacus.optimizers import optimizer_fast_gradient_clipping as opacus
from torch import nn

from divulge._util.norms import euclidean_norm
from divulge.core import NoiseKind, Records, Update, UpdateDefence, UpdateSum
from divulge.defences.noise import SecureNoise
from divulge.defences.training.dp_sgd.clipping import Clipping, RecordGradients, set_clipped_sum
from divulge.defences.training.dp_sgd.one_pass import OnePassGradients
from divulge.defences.training.dp_sgd.per_record import PerRecordGradients
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.defences.updates import dp_fedavg, protocol
from divulge.defences.updates.compose import chain
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.local_dp import LocalNoise
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError
from divulge.training.engine.loop import Job, build_network
from divulge.training.recipe import Recipe
from tests.defences.networks import CLASSES, PARTS, WIDTH, Built
from tests.defences.rounds import ENTRIES, SHAPES, RecordedNoise, alike, vector

ULP = 2.0**-52

# records


class Trained(NamedTuple):
    """What a step of DP-SGD hands to its source of noise, and what it publishes."""

    total: np.ndarray
    scales: set[float]
    published: np.ndarray


def flat(network: nn.Module) -> np.ndarray:
    """All weights and buffers of a network, each once."""
    tensors = [*network.parameters(), *network.buffers()]
    return np.concatenate([t.detach().double().numpy().ravel() for t in tensors])


def train(how: DPSGD, records: Records) -> Trained:
    """One step on all of these records, without noise."""
    source = RecordedNoise()

    def no_noise(std: float, reference: Any, **_: Any) -> Any:
        source.add_normal(reference.double().numpy().ravel(), std)
        return 0 * reference

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opacus, "_generate_noise", no_noise)
        patch.setattr(SecureNoise, "add_normal", lambda _, *given: source.add_normal(*given))
        patch.setattr(SecureNoise, "coins", lambda _, count, rate: np.full(count, rate == 1))
        published = flat(how.train(records, 7))
    return Trained(np.concatenate(source.values), {*source.scales}, published)


def build(parts: tuple[str, ...], clipping: Clipping, noise: NoiseKind, norm: float) -> DPSGD:
    """One step of plain gradient descent by 1, with noise of three norms."""
    recipe = Recipe(Built(parts), lr=1.0, epochs=1, batch_size=10)
    return DPSGD(recipe, 1e-5, 3.0, max_grad_norm=norm, clipping=clipping, noise=noise, jobs=1)


def step(how: DPSGD, total: np.ndarray, size: int) -> np.ndarray:
    """The weights and buffers that the network starts with, one step by this sum on."""
    network, first = build_network(how.recipe, Job(np.arange(1), 7)), 0
    for p in network.parameters():
        if p.requires_grad:
            taken = total[first : first + p.numel()].reshape(p.shape)
            p.data = p.double() - torch.from_numpy(taken) / size
            first += p.numel()
    assert first == len(total)
    return flat(network)


SINGLE = 100 * 2.0**-24
"""Rounding of a norm of some 100 numbers in single precision, and of what is multiplied by it."""

numbers = st.one_of(
    st.floats(-3, 3, width=32),
    st.builds(
        lambda sign, power, digits: float(np.float32(sign * digits * 10.0**power)),
        st.sampled_from([-1, 1]),
        st.integers(-30, 38),
        st.floats(1, 3),
    ),
    st.sampled_from([0.0, 1e-30, 1e20, -1e20, 3e38]),
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
def test_a_record_moves_a_step_of_dp_sgd_by_the_clipping_norm_at_most(
    parts: tuple[str, ...],
    record: list[float],
    label: int,
    clipping: Clipping,
    noise: NoiseKind,
    norm: float,
) -> None:
    how = build(parts, clipping, noise, norm)
    odd, y = np.array([record], np.float32), np.array([label])
    x = np.random.default_rng(0).normal(size=(4, WIDTH)).astype(np.float32)
    told = np.append(np.arange(3), y)
    alone, plain, beside, twice = (
        train(how, records)
        for records in (
            Records(odd, y),
            Records(x, np.arange(4) % CLASSES),
            Records(np.vstack([x[:3], odd]), told),
            Records(np.vstack([x[:2], odd, odd]), told[[0, 1, 3, 3]]),
        )
    )
    for one in (alone, plain, beside, twice):
        assert one.scales == {3.0 * norm}
        assert np.isfinite(one.total).all()
    assert euclidean_norm(alone.total) <= norm * (1 + SINGLE)
    # one replaced: dropout draws by the size of a batch; each of two sums has four records
    for one, other in ((plain, beside), (beside, twice)):
        assert euclidean_norm(other.total - one.total) <= 2 * norm * (1 + 8 * SINGLE)
    # and nothing else of the records is published, to the rounding of some steps in float32
    expected = step(how, beside.total, 4)
    largest = 1 + np.abs(expected).max()
    np.testing.assert_allclose(beside.published, expected, rtol=0, atol=2.0**-22 * largest)


@pytest.mark.parametrize("clipping", get_args(Clipping))
@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_record_that_pulls_far_moves_a_step_by_the_clipping_norm_and_by_no_less(
    part: str, clipping: Clipping
) -> None:
    x = np.random.default_rng(1).normal(size=(4, WIDTH)).astype(np.float32)
    x[3] *= 30
    how = build((part,), clipping, "seeded", 0.01)
    with torch.no_grad():
        network = build_network(how.recipe, Job(np.arange(1), 7)).eval()
        unlikeliest = int(network(torch.tensor(x[3:])).argmin())
    few = train(how, Records(x[:3], np.arange(3)))
    more = train(how, Records(x, np.array([0, 1, 2, unlikeliest])))
    moved = euclidean_norm(more.total - few.total)
    # a millionth is added to a norm before it is divided by: 1e-6 of norms of 0.1 and more
    assert 0.01 * (1 - 1e-4) < moved <= 0.01 * (1 + 8 * SINGLE)


@pytest.mark.parametrize("clipping", get_args(Clipping))
@pytest.mark.parametrize("size", [1e20, 3e38])
def test_a_record_without_a_finite_gradient_adds_nothing(clipping: Clipping, size: float) -> None:
    x = np.random.default_rng(2).normal(size=(4, WIDTH)).astype(np.float32)
    x[3] = size
    few, more = Records(x[:3], np.arange(3)), Records(x, np.array([0, 1, 2, 1]))
    for parts in (("square",), ("layer norm", "square"), ("square", "convolution")):
        how = build(parts, clipping, "seeded", 1.0)
        moved = euclidean_norm(train(how, more).total - train(how, few).total)
        assert moved <= 8 * SINGLE


WAYS: dict[str, Callable[[nn.Module], RecordGradients]] = {
    "one pass": OnePassGradients,
    "vectorised": lambda module: PerRecordGradients(module, vectorised=True),
    "one by one": lambda module: PerRecordGradients(module, vectorised=False),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38, 1e20, 1e-30, 0.0])
def test_every_way_to_clip_bounds_what_no_table_of_records_may_hold(way: str, value: float) -> None:
    """Records with NaN are refused before a training; clipping does not count on that."""
    for parts in (("relu",), ("layer norm", "positions"), ("convolution", "tanh")):
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            network = Built(parts)()
        compute, x = WAYS[way](network), torch.randn(4, WIDTH, generator=torch.Generator())
        sums: list[torch.Tensor] = []
        for one in (x, x.clone()):
            if sums:
                one[3] = value
            set_clipped_sum(compute, one, torch.arange(4) % CLASSES, 0.1)
            sums.append(torch.cat([p.grad.flatten() for p in compute.params if p.grad is not None]))
        assert torch.isfinite(sums[1]).all()
        assert (sums[1] - sums[0]).norm() <= 2 * 0.1 * (1 + 8 * SINGLE)


# clients

SIGMA, EPSILON, DELTA = 3.0, 0.5, 1e-5

sizes = st.one_of(
    st.builds(lambda sign, size: sign * 10.0**size, st.sampled_from([-1, 1]), st.floats(-320, 308)),
    st.builds(lambda sign, size: sign * 10.0**size, st.sampled_from([-1, 1]), st.floats(-46, 38.5)),
    st.floats(-10, 10),
    st.sampled_from([0.0, 3e38, -3e38, 1e20, 1e-30, 5e-324, math.nan, math.inf, -math.inf]),
)
tensors = st.fixed_dictionaries({
    name: st.tuples(
        st.sampled_from([np.float16, np.float32, np.float64, np.longdouble]),
        st.lists(sizes, min_size=math.prod(shape), max_size=math.prod(shape)),
    )
    for name, shape in SHAPES.items()
})  # fmt: skip


def as_update(drawn: Mapping[str, tuple[Any, list[float]]]) -> Update:
    with np.errstate(over="ignore", under="ignore"):
        return {
            name: np.array(values, dtype).reshape(SHAPES[name])
            for name, (dtype, values) in drawn.items()
        }


updates = st.builds(as_update, tensors)


def silent(update: Update) -> Update:
    return {name: np.zeros_like(value) for name, value in update.items()}


@dataclass(frozen=True)
class Mechanism:
    """A defence of clients, and what it promises by."""

    defence: Callable[[float], UpdateDefence]
    """From the clip."""
    moves: Callable[[int], float]
    """From how many clients there are: by how many clips one of them moves what noise is added to.
    """
    noise: Callable[[int], float]
    """Likewise, the scale of the noise, in units of that bound."""
    any_other: bool = False
    """Whether neighbours send any other update, not zeros alone."""
    order: int = 2
    """Of the norm."""
    by_server: bool = False
    steps: float = 0.0
    """What the fixed point of a secure sum takes off an entry."""


def local(defence: Callable[[float], UpdateDefence], noise: float, order: int = 2) -> Mechanism:
    return Mechanism(defence, lambda _: 2.0, lambda _: noise, any_other=True, order=order)


def central(defence: Callable[[float], UpdateDefence], steps: float = 0.0) -> Mechanism:
    return Mechanism(defence, lambda n: 1 / n, lambda _: SIGMA, by_server=True, steps=steps)


MECHANISMS: Mapping[str, Mechanism] = {
    "dp-fedavg": central(lambda clip: DPFedAvg(SIGMA, clip, DELTA)),
    "dp-fedavg behind a secure sum": central(
        lambda clip: chain(DPFedAvg(SIGMA, clip, DELTA), SecureSum()), 2.0**-32
    ),
    "dp-fedavg by clients": Mechanism(
        lambda clip: chain(DPFedAvg(SIGMA, clip, DELTA, "clients"), SecureSum()),
        lambda _: 1.0,
        lambda n: SIGMA / math.sqrt(n),
    ),
    "local noise": local(
        lambda clip: LocalNoise(EPSILON, DELTA, clip),
        float(dp_accounting.get_sigma_gaussian(EPSILON, DELTA)),
    ),
    "local noise by the classic formula": local(
        lambda clip: LocalNoise(EPSILON, DELTA, clip, "gaussian"),
        math.sqrt(2 * math.log(1.25 / DELTA)) / EPSILON,
    ),
    "local Laplace noise": local(
        lambda clip: LocalNoise(EPSILON, 0.0, clip, "laplace"), 1 / EPSILON, order=1
    ),
}


def hand(how: Mechanism, clip: float, sent: list[Update]) -> RecordedNoise:
    """What the source of noise gets that covers the first client, in a round of these updates."""
    defence, server = how.defence(clip), RecordedNoise()
    own = [RecordedNoise() for _ in sent]
    shares = dict.fromkeys(range(len(sent)), 1.0)
    contexts = protocol.begin_round(defence, 0, sent[0], shares, 0)
    messages = [
        protocol.send(defence, update, replace(contexts[k], noise=own[k]))
        for k, update in enumerate(sent)
    ]
    view = protocol.receive(defence, messages, replace(contexts[0].round, noise=server))
    published = [view.total] if isinstance(view, UpdateSum) else view.by_client.values()
    assert all(np.isfinite(vector(one)).all() for one in published)
    return server if how.by_server else own[0]


@settings(max_examples=120)
@given(
    st.sampled_from(sorted(MECHANISMS)),
    st.lists(updates, min_size=2, max_size=5),
    updates,
    st.floats(-3, 1).map(lambda power: 10.0**power),
)
@example("dp-fedavg", [alike(3e38)] * 4, alike(0.0), 1.0)
@example("dp-fedavg behind a secure sum", [alike(1e-30, float)] * 4, alike(0.0), 1e-3)
@example("dp-fedavg by clients", [alike(math.nan)] * 4, alike(0.0), 1.0)
@example("dp-fedavg by clients", [alike(6e4, np.float16)] * 4, alike(0.0), 10.0)
@example("dp-fedavg", [alike(7.0)], alike(0.0), 1.0)
@example("local noise", [alike(1e-30)], alike(3e38), 1.0)
@example("local noise", [alike(1e200, float)] * 4, alike(-1e200, float), 1.0)
@example("local Laplace noise", [alike(math.inf)] * 4, alike(-3e38), 1.0)
def test_a_client_moves_what_noise_is_added_to_by_what_the_noise_is_made_for(
    name: str, sent: list[Update], other: Update, clip: float
) -> None:
    how = MECHANISMS[name]
    here = hand(how, clip, sent)
    there = hand(how, clip, [other if how.any_other else silent(sent[0]), *sent[1:]])
    moves, noise = how.moves(len(sent)), how.noise(len(sent))
    bound = moves * clip
    law = "laplace" if how.order == 1 else "normal"
    assert here.laws == there.laws == [law]
    # the accountant's scale, which is approached to 1e-12 of a bound of 1; others are exact
    exact = 1e-9 if name == "local noise" else 4 * ULP
    assert here.scales == there.scales == pytest.approx([noise * bound], rel=exact)
    (one,), (two,) = here.values, there.values
    # sums in float64 of entries of a clip at most, and of what a fixed point takes off
    rounding = 20 * len(sent) * math.sqrt(ENTRIES) * clip * ULP + ENTRIES * how.steps
    moved = float(np.linalg.norm(one - two, ord=how.order))
    assert moved <= bound + rounding
    if not how.any_other:  # what is shorter than the clip arrives, but for the rounding of types
        own = vector(sent[0]) if np.isfinite(vector(sent[0])).all() else np.zeros(ENTRIES)
        whole = min(float(euclidean_norm(own)), clip) * moves
        narrow = math.sqrt(ENTRIES) * (2.0**-24 * moves + how.steps)  # half precision at zero
        assert moved >= whole * (1 - 2.0**-10) - narrow - rounding


def test_clipping_by_squares_in_single_precision_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault that these tests are for: 1e-30 squared is 0, and 1e20 squared is infinite."""

    def naive(values: np.ndarray, clip: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            norm = np.sqrt((values.astype(np.float32) ** 2).sum())
            return np.asarray(values * min(1.0, clip / max(float(norm), 1e-300)))

    def move() -> float:
        others, how = [alike(0.0)] * 3, MECHANISMS["dp-fedavg"]
        totals = [hand(how, 1e-32, [alike(size), *others]).values[0] for size in (1e-30, 0.0)]
        return float(euclidean_norm(totals[0] - totals[1]))

    assert move() <= 1e-32 / 4 * (1 + 1e-6)
    monkeypatch.setattr(dp_fedavg, "clip_to_norm", naive)
    assert move() > 100 * 1e-32 / 4


@given(updates, st.floats(-3, 3).map(lambda power: 10.0**power))
@example(alike(1e20), 1.0)
@example(alike(1e-30), 1.0)
def test_a_secure_sum_moves_by_the_update_itself_or_refuses_it(
    update: Update, limit: float
) -> None:
    """Rounded to half a step; what does not fit is refused, and not wrapped round."""
    defence, own = SecureSum(limit, 20), vector(update)
    if not np.abs(own).max() <= limit:
        with pytest.raises(DataError, match=r"finite|entries up to"):
            defence.encode(update)
        return
    moved = np.ldexp(defence.encode(update).view(np.int64), -20)
    assert np.abs(moved - own).max() <= defence.step / 2
    assert np.abs(moved).max() <= limit + defence.step / 2
