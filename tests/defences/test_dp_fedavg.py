"""Noise on the mean of clipped updates: its size, its promise, and who counts how much."""

import math

import numpy as np
import pytest

from divulge.core import ClientUpdates, RoundContext, UpdateDefence
from divulge.defences.updates import protocol
from divulge.defences.updates.compose import chain
from divulge.defences.updates.dp_fedavg import DPFedAvg, NoiseBy
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import SpecError
from divulge.federation.server import exchange_updates
from divulge.metrics.epsilon.curves import gaussian_epsilon

SENT = {"w": np.zeros(4000)}


def mean(defence: UpdateDefence, size: float = 0.0, number: int = 0) -> np.ndarray:
    """What five clients with 1, 2, 3, 4 and 5 records come to; the first sends another update."""
    results = {k: {"w": np.zeros(4000)} for k in range(5)}
    results[0]["w"][0] = size
    sizes = {k: k + 1 for k in range(5)}
    received, masked = exchange_updates(
        defence, number, SENT, results, sizes, dict.fromkeys(range(5)), 1
    )
    assert not received
    assert masked is not None
    return np.asarray(masked.tensors["w"])


@pytest.mark.parametrize("noise_by", ["server", "clients"])
@pytest.mark.parametrize("summed", [False, True])
def test_the_mean_has_the_noise_that_is_stated(noise_by: NoiseBy, summed: bool) -> None:
    defence = DPFedAvg(3.0, 0.5, 1e-5, noise_by)
    if noise_by == "clients" and not summed:
        view = ClientUpdates({0: SENT})  # the promise is for a sum that nobody makes here
        assert defence.on_server(view, RoundContext(0, (0,), {})) is view
        return
    whole = chain(defence, SecureSum()) if summed else defence
    found = mean(whole)
    stated = 3.0 * 0.5 / 5
    # four standard errors of a deviation of 4,000 normal numbers
    assert np.std(found) == pytest.approx(stated, rel=4 / math.sqrt(2 * 4000))
    assert abs(mean(whole, number=1) - found).max() > 0


def test_updates_are_clipped_and_count_the_same_whatever_the_number_of_records() -> None:
    for size in (0.2, 0.5, 1e6):
        for defence in (DPFedAvg(1e-9, 0.5, 1e-5), chain(DPFedAvg(1e-9, 0.5, 1e-5), SecureSum())):
            assert mean(defence, size)[0] == pytest.approx(min(size, 0.5) / 5, abs=1e-8)


def test_the_promise_is_that_of_one_gaussian() -> None:
    defence = DPFedAvg(2.0, 1.0, 1e-5)
    for count in (1, 10, 64):
        promised = defence.guarantee(count)
        exact = gaussian_epsilon(math.sqrt(count) / 2.0, 1e-5)
        assert promised.epsilon == pytest.approx(exact, rel=1e-6)
        assert promised.noise == "gaussian"
    with pytest.raises(SpecError, match="one round or more"):
        defence.guarantee(0)


@pytest.mark.parametrize("odd", [{"noise_multiplier": 0.0}, {"clip": math.inf}, {"delta": 0.0}])
def test_settings_without_a_promise_are_refused(odd: dict[str, float]) -> None:
    with pytest.raises(SpecError):
        DPFedAvg(**({"noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5} | odd))  # type: ignore[arg-type]


def test_a_server_without_noise_of_its_own_is_refused() -> None:
    defence = DPFedAvg(1.0, 1.0, 1e-5)
    contexts = protocol.begin_round(defence, 0, SENT, {0: 0.5, 1: 0.5}, 0)
    bare = RoundContext(0, (0, 1), contexts[0].round.shapes)
    with pytest.raises(SpecError, match="a source of noise for the server"):
        defence.on_server(ClientUpdates({0: SENT, 1: SENT}), bare)
