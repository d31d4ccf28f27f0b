"""What one record adds to a step of DP-SGD before the noise: at most what the noise is made for.

A mechanism promises by a bound: who is added, removed or replaced moves what is handed to the
source of noise by the bound at most, and the scale that is handed with it is the bound times the
noise that was asked for. Here the source keeps what it gets and adds nothing, so that both are
seen as they are. `tests/relations/test_influence_of_clients.py` does so for clients.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opacus.optimizers import optimizer_fast_gradient_clipping as opacus
from torch import nn

from divulge._util.norms import euclidean_norm
from divulge.core import NoiseKind, Records
from divulge.defences.noise import SecureNoise
from divulge.defences.training.dp_sgd.clipping import Clipping, RecordGradients, set_clipped_sum
from divulge.defences.training.dp_sgd.one_pass import OnePassGradients
from divulge.defences.training.dp_sgd.per_record import PerRecordGradients
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.training.engine.loop import Job, build_network
from divulge.training.recipe import Recipe
from tests.defences.networks import CLASSES, PARTS, WIDTH, Built
from tests.defences.rounds import RecordedNoise


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
