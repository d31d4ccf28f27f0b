"""Virtual clients train in one round, and send their updates as real clients do."""

import functools
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from divulge._util.random import stream
from divulge.attacks.composition.decaf.shadow_clients import ShadowClients
from divulge.attacks.composition.decaf.update_features import (
    UpdateFeatures,
    stack_features,
    update_features,
)
from divulge.attacks.shared.observed_round import ObservedRound
from divulge.core import Tensors, UpdateDefence
from divulge.defences.updates import protocol

_MEDIAN_OF_SQUARES = 0.4549
"""Median of the square of a standard normal number."""

_TRIAL = 8
"""Number of virtual clients whose changes noise is compared with."""


def simulate_round(
    stage: ObservedRound,
    client_workers: Any,
    cast: ShadowClients,
    noise: float,
    seed: int,
    first: int = 0,
    defence: UpdateDefence | None = None,
) -> UpdateFeatures:
    """Train virtual clients in a round, and compute the features of their updates.

    Args:
        stage: the round.
        client_workers: a `divulge.training.ClientWorkers` of its recipe and records.
        cast: the clients.
        noise: standard deviation of the noise that a defence adds to every number of an update.
        seed: fixes the training; the same seed and round give the same result.
        first: the number of clients that were simulated before them.
        defence: update defence that they send through.
    """
    numbers = range(first, first + len(cast.rows))
    each = [_stream_of(seed, stage, k) for k in numbers]
    seeds = [int(rng.integers(2**31)) for rng in each]
    sizes = [len(rows) for rows in cast.rows]
    sends = None if defence is None else _Sender(defence, max(1, len(stage.round.clients)), seed)
    see = functools.partial(_see_client, stage.without_updates(), noise, seed, first, sizes, sends)
    return stack_features(client_workers.each(stage.round.sent, cast.rows, seeds, see))


def _stream_of(seed: int, stage: ObservedRound, number: int) -> np.random.Generator:
    return stream(seed, "virtual client", stage.round.number, number)


def _see_client(
    stage: ObservedRound,
    noise: float,
    seed: int,
    first: int,
    sizes: Sequence[int],
    sends: "_Sender | None",
    k: int,
    state: Tensors,
) -> UpdateFeatures:
    """The features of a virtual client's update, where it was trained."""
    rng = _stream_of(seed, stage, first + k)
    rng.integers(2**31)  # the seed of its training
    change: Tensors = stage.change_to(state)
    if sends is not None:
        change = sends.through(stage, change, first + k)
    return update_features(stage, stage.observe_change(_add_noise(change, noise, rng), sizes[k]))


class _Sender(NamedTuple):
    """Sends updates of virtual clients through a defence."""

    defence: UpdateDefence
    clients: int
    """Number of clients in the round: some defences share their noise among them."""
    seed: int

    def through(self, stage: ObservedRound, change: Tensors, number: int) -> Tensors:
        """What the virtual client with this number sends of its change."""
        floats = {n: array for n, array in stage.round.sent.items() if array.dtype.kind == "f"}
        own = int(stream(self.seed, "defence of a virtual client", number).integers(2**31))
        shares = dict.fromkeys(range(self.clients), 1.0 / self.clients)
        context = protocol.begin_round(self.defence, stage.round.number, floats, shares, own)[0]
        return protocol.send(self.defence, change, context).values


def estimate_noise(
    stage: ObservedRound,
    client_workers: Any,
    cast: ShadowClients,
    victims: Iterable[str],
    seed: int,
) -> float:
    """Estimate the standard deviation of noise in victims' updates that training cannot explain.

    The median of squares of all numbers of an update, beside that of virtual clients: noise moves
    every weight, training mostly some. Below four times the largest of the virtual ones it is
    taken for none.
    """
    some = cast.rows[:_TRIAL]
    move = functools.partial(_trained_median_square, stage.without_updates())
    explained = client_workers.each(stage.round.sent, some, range(seed, seed + len(some)), move)
    there = float(np.median([_median_square(stage.round.change(name)) for name in victims]))
    # so far training alone may explain it: virtual clients train much, not exactly, alike
    if there <= 4 * max(explained):
        return 0.0
    # variances add: what training explains is taken off before the root
    return float(np.sqrt((there - np.median(explained)) / _MEDIAN_OF_SQUARES))


def _trained_median_square(stage: ObservedRound, k: int, state: Tensors) -> float:
    del k
    return _median_square(stage.change_to(state))


def _median_square(change: Tensors) -> float:
    floats = (a.ravel() for a in change.values() if a.dtype.kind == "f")
    return float(np.median(np.concatenate(list(chain(floats))).astype(np.float64) ** 2))


def _add_noise(change: Tensors, noise: float, rng: np.random.Generator) -> Tensors:
    if not noise:
        return change
    return {n: (a + rng.normal(0.0, noise, a.shape)).astype(a.dtype) for n, a in change.items()}
