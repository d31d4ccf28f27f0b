"""What a client sends, whatever it has: neither refused nor weighed more."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from divulge._util.norms import euclidean_norm
from divulge.core import (
    ClientContext,
    ClientUpdates,
    Message,
    RoundContext,
    UpdateDefence,
    UpdateSum,
)
from divulge.defences.noise import SecureNoise, SeededNoise
from divulge.defences.updates import protocol
from divulge.defences.updates.compose import chain
from divulge.defences.updates.compression import Sign, TopK
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.local_dp import LocalNoise
from divulge.defences.updates.own_last_layer import OwnLastLayer
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, SpecError

from . import rounds
from .rounds import ENTRIES, alike, vector

CLIENTS = 4


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
