"""What one client can change is bounded, whatever it has: two rounds that differ in one client."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from divulge._util.norms import euclidean_norm
from divulge.core import (
    ClientContext,
    ClientUpdates,
    Message,
    RoundContext,
    Update,
    UpdateDefence,
    UpdateSum,
)
from divulge.defences.noise import SecureNoise, SeededNoise
from divulge.defences.updates import dp_fedavg, protocol
from divulge.defences.updates.compose import chain
from divulge.defences.updates.compression import Sign, TopK
from divulge.defences.updates.dp_fedavg import DPFedAvg, NoiseBy
from divulge.defences.updates.local_dp import LocalNoise, Mechanism
from divulge.defences.updates.own_last_layer import OwnLastLayer
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, SpecError

from . import rounds

CLIENTS = 4
SHAPES = {"bias": (3,), "scale": (), "weight": (2, 3)}
ENTRIES = 10

numbers = st.one_of(
    st.builds(lambda sign, size: sign * 10.0**size, st.sampled_from([-1, 1]), st.floats(-320, 308)),
    st.builds(lambda sign, size: sign * 10.0**size, st.sampled_from([-1, 1]), st.floats(-46, 38.5)),
    st.floats(-10, 10),
    st.sampled_from([0.0, 3e38, -3e38, 1e20, 1e-30, 5e-324, math.nan, math.inf, -math.inf]),
)
tensors = st.fixed_dictionaries({
    name: st.tuples(
        st.sampled_from([np.float16, np.float32, np.float64, np.longdouble]),
        st.lists(numbers, min_size=math.prod(shape), max_size=math.prod(shape)),
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


def alike(value: float, dtype: Any = np.float32) -> Update:
    with np.errstate(over="ignore"):
        return {name: np.full(shape, value, dtype) for name, shape in SHAPES.items()}


def silent(update: Update) -> Update:
    return {name: np.zeros_like(value) for name, value in update.items()}


def vector(update: Update) -> np.ndarray:
    return np.concatenate([np.asarray(update[name], float).ravel() for name in sorted(update)])


def mean(defence: UpdateDefence, sent: list[Update]) -> np.ndarray:
    view = rounds.play(defence, dict(enumerate(sent)))
    assert isinstance(view, UpdateSum)
    assert all(np.isfinite(value).all() for value in view.total.values())
    return vector(view.total)


def coarseness(update: Update) -> np.ndarray:
    """The largest relative error of rounding each entry to its own type, and to float64."""
    each = [
        np.full(update[name].size, max(np.finfo(update[name].dtype).eps, 2.0**-52)) / 2
        for name in sorted(update)
    ]
    return np.concatenate(each)


@settings(max_examples=150)
@given(
    st.lists(updates, min_size=CLIENTS, max_size=CLIENTS),
    st.floats(-3, 1.9).map(lambda power: 10.0**power),
    st.sampled_from(["server", "clients"]),
    st.booleans(),
)
@example([alike(3e38)] * CLIENTS, 1.0, "server", True)
@example([alike(1e-30, np.float64)] * CLIENTS, 1e-3, "server", False)
@example([alike(6e4, np.float16)] * CLIENTS, 50.0, "clients", True)
@example([alike(math.nan)] * CLIENTS, 1.0, "clients", True)
def test_one_client_moves_the_mean_by_its_share_of_the_clip(
    sent: list[Update], clip: float, noise_by: NoiseBy, summed: bool
) -> None:
    """By ``clip / n`` where its update becomes zeros, the noise being the same in both rounds."""
    defence: UpdateDefence = DPFedAvg(1.0, clip, 1e-5, noise_by)
    if summed or noise_by == "clients":
        defence = chain(defence, SecureSum())
    here, without = mean(defence, sent), mean(defence, [silent(sent[0]), *sent[1:]])
    bound = clip / CLIENTS
    if noise_by == "clients":
        # the noisy update is rounded to its type and to fixed point, in both rounds
        reach = clip * (1 + 10 / math.sqrt(CLIENTS))
        rounding = float(np.linalg.norm(2 * coarseness(sent[0]) * reach)) / CLIENTS
        rounding += math.sqrt(ENTRIES) * 2.0**-32
    else:  # sums and noise in float64, of entries of some clips
        rounding = 20 * CLIENTS * math.sqrt(ENTRIES) * clip * 2.0**-52
    assert euclidean_norm(here - without) <= bound + rounding
    if noise_by == "server":
        own = vector(sent[0]) if np.isfinite(vector(sent[0])).all() else np.zeros(ENTRIES)
        length = float(euclidean_norm(own))
        # an update that is shorter than the clip arrives, less what is rounded to fixed point
        kept = min(length, clip) / CLIENTS * (1 - 2.0**-10)  # half precision rounds by so much
        narrow = math.sqrt(ENTRIES) * (2.0**-24 / CLIENTS + 2.0**-32)  # its step around zero
        assert euclidean_norm(here - without) >= kept - narrow - rounding


@settings(max_examples=150)
@given(
    updates,
    updates,
    st.floats(-3, 1).map(lambda power: 10.0**power),
    st.sampled_from(["analytic-gaussian", "laplace"]),
)
@example(alike(1e-30), alike(3e38), 1.0, "analytic-gaussian")
@example(alike(math.inf), alike(-3e38), 1.0, "laplace")
@example(alike(1e200, np.float64), alike(-1e200, np.float64), 1.0, "analytic-gaussian")
def test_two_updates_of_a_client_are_as_far_apart_as_the_noise_is_made_for(
    one: Update, other: Update, clip: float, mechanism: Mechanism
) -> None:
    """In the norm that they are clipped to, of what is sent with the same noise."""
    defence = LocalNoise(10.0, 0.0 if mechanism == "laplace" else 1e-5, clip, mechanism)
    sent = []
    for update in (one, other):
        message = protocol.send(defence, update, rounds.begin(defence, like=update)[0])
        assert all(np.isfinite(value).all() for value in message.values.values())
        sent.append(vector(message.values))
    errors = sum(
        coarseness(update) * np.abs(found) + (2.0**-25 + 2.0**-52 * np.abs(found))
        for update, found in zip((one, other), sent, strict=True)
    )
    order = 1 if mechanism == "laplace" else 2
    apart = np.linalg.norm(sent[0] - sent[1], ord=order)
    # a norm that is rounded ten times over is off by some ten units in the last place
    assert apart <= 2 * clip * (1 + 20 * 2.0**-52) + np.linalg.norm(np.asarray(errors), ord=order)


def test_clipping_by_squares_in_single_precision_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault that these tests are for: 1e-30 squared is 0, and 1e20 squared is infinite."""

    def naive(values: np.ndarray, clip: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            norm = np.sqrt((values.astype(np.float32) ** 2).sum())
            return np.asarray(values * min(1.0, clip / max(float(norm), 1e-300)))

    defence, others = DPFedAvg(1.0, 1e-32, 1e-5), [alike(0.0)] * (CLIENTS - 1)
    bound = 1e-32 / CLIENTS
    moved = [mean(defence, [alike(size), *others]) for size in (1e-30, 0.0)]
    assert euclidean_norm(moved[0] - moved[1]) <= bound * (1 + 1e-6)
    monkeypatch.setattr(dp_fedavg, "clip_to_norm", naive)
    moved = [mean(defence, [alike(size), *others]) for size in (1e-30, 0.0)]
    assert euclidean_norm(moved[0] - moved[1]) > 100 * bound


@pytest.mark.parametrize("before", [Sign(5.0), TopK(0.5), OwnLastLayer()], ids=lambda d: d.name)
@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38, -1e20, 1e-40])
def test_what_stands_before_the_noise_refuses_nothing(before: UpdateDefence, value: float) -> None:
    """Also where a part in front, such as the sign times five, cannot hold its own result."""
    others = [alike(0.01)] * (CLIENTS - 1)
    for noise in (DPFedAvg(1.0, 0.5, 1e-5), LocalNoise(10.0, 1e-5, 0.5)):
        view = rounds.play(chain(before, noise), dict(enumerate([alike(value), *others])))
        assert isinstance(view, UpdateSum | ClientUpdates)
    with pytest.raises(DataError, match="empty"):  # no number is to blame for that
        chain(before, LocalNoise(10.0, 1e-5, 0.5)).on_client(
            {}, rounds.begin(before, like=alike(0.0))[0]
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("clip", [1e-9, 3e-8, 1e-3, 1.0, 7e4])
def test_a_narrow_type_does_not_lengthen_a_clipped_update(dtype: Any, clip: float) -> None:
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        update = {"w": (rng.normal(size=10_000) * 10.0 ** rng.uniform(-4, 4, 10_000)).astype(dtype)}
    update["w"][~np.isfinite(update["w"])] = 1
    defence = DPFedAvg(1.0, clip, 1e-5)
    sent = defence.on_client(update, rounds.begin(defence, like=update)[0])
    assert sent["w"].dtype == dtype
    assert euclidean_norm(sent["w"]) <= clip * (1 + 1e4 * 2.0**-52)


def test_a_client_that_sends_what_it_should_not_counts_as_zeros_or_is_clipped() -> None:
    defence = DPFedAvg(1.0, 0.5, 1e-5)
    contexts = rounds.begin(defence, CLIENTS, like=alike(0.0))
    honest = [protocol.send(defence, alike(0.01), contexts[k]) for k in range(1, CLIENTS)]
    quiet = protocol.send(defence, alike(0.0), contexts[0])

    def total(messages: list[Message]) -> np.ndarray:
        noise = SeededNoise(np.random.default_rng(1))
        view = protocol.receive(defence, messages, replace(contexts[0].round, noise=noise))
        assert isinstance(view, UpdateSum)
        return vector(view.total)

    silence = total([quiet, *honest])
    np.testing.assert_array_equal(total(honest), silence)  # one that is missing
    for value in (math.nan, math.inf):
        broken = Message(quiet.round, 0, quiet.session, alike(value))
        np.testing.assert_array_equal(total([broken, *honest]), silence)
    loud = Message(quiet.round, 0, quiet.session, alike(3e38))
    assert np.linalg.norm(total([loud, *honest]) - silence) == pytest.approx(0.5 / CLIENTS)


def test_a_sum_is_noisy_enough_whatever_weight_a_client_was_given() -> None:
    """By shares of the records one client would count more than the noise hides."""
    defence = chain(DPFedAvg(1e-9, 1.0, 1e-5), SecureSum())
    shares = {0: 0.97, 1: 0.01, 2: 0.01, 3: 0.01}
    contexts = protocol.begin_round(defence, 0, alike(0.0), shares, 0)
    sent = [protocol.send(defence, alike(9.0 * (k == 0)), c) for k, c in contexts.items()]
    view = protocol.receive(defence, sent, contexts[0].round)
    assert isinstance(view, UpdateSum)
    assert np.linalg.norm(vector(view.total)) == pytest.approx(1 / CLIENTS, abs=1e-6)


@pytest.mark.parametrize("behind", [TopK(), Sign(2.0), LocalNoise(1.0, 1e-5, 1.0)])
def test_nothing_but_a_secure_sum_changes_what_the_promise_is_for(behind: UpdateDefence) -> None:
    for noise_by in ("server", "clients"):
        with pytest.raises(SpecError, match=f"put {behind.name} before dp-fedavg"):
            chain(DPFedAvg(1.0, 1.0, 1e-5, noise_by), behind)
    assert chain(behind, DPFedAvg(1.0, 1.0, 1e-5)).promises


@pytest.mark.parametrize(
    ("noise", "behind"),
    [
        (DPFedAvg(1.0, 1.0, 1e-5, "clients"), SecureSum(1024.0, 0)),  # all noise is rounded away
        (DPFedAvg(1.0, 1.0, 1e-5, "clients"), SecureSum(1.0, 32)),  # noise does not fit
        (DPFedAvg(1.0, 50.0, 1e-5), SecureSum(1.0, 32)),  # a clipped update does not fit
    ],
)
def test_a_secure_sum_that_cannot_hold_the_noise_is_refused_whatever_is_sent(
    noise: DPFedAvg, behind: SecureSum
) -> None:
    defence = chain(noise, behind)
    for value in (0.0, 1e-30, 40.0, math.nan):
        update = alike(value)
        with pytest.raises(SpecError, match="expected entries of secure-sum"):
            protocol.send(defence, update, rounds.begin(defence, like=update)[0])


def test_a_type_that_cannot_hold_a_clients_noise_is_refused_whatever_is_sent() -> None:
    for clip, multiplier in ((6e4, 1.0), (1.0, 1e-3)):
        defence = DPFedAvg(multiplier, clip, 1e-5, "clients")
        for value in (0.0, math.nan, 1e-7):
            update = alike(value, np.float16)
            with pytest.raises(SpecError, match="expected numbers of float16"):
                defence.on_client(update, rounds.begin(defence, like=update)[0])


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38, 1e5])
def test_a_secure_sum_alone_refuses_what_would_wrap(value: float) -> None:
    contexts = rounds.begin(SecureSum(), like=alike(0.0))
    with pytest.raises(DataError, match=r"finite|entries up to"):
        protocol.send(SecureSum(), alike(value), contexts[0])


@pytest.mark.parametrize("source", [SeededNoise(np.random.default_rng(0)), SecureNoise()])
def test_a_client_by_itself_sends_noise_where_its_training_diverged(source: Any) -> None:
    """As in a program of its own, without a round of the simulation."""
    update = alike(math.nan)
    about = RoundContext(0, (7,), {name: value.shape for name, value in update.items()})
    sent = LocalNoise(10.0, 1e-5, 1.0).on_client(update, ClientContext(about, 7, source))
    assert np.isfinite(vector(sent)).all()
    assert len(np.unique(vector(sent))) == ENTRIES
