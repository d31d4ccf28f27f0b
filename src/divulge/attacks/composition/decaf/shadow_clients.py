"""Virtual clients hold the attacker's records in chosen mixes, and train as real clients do."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Int8

from divulge._util.random import stream
from divulge.attacks.composition.decaf.regression import FeatureKinds
from divulge.attacks.shared.observed_round import ClientChange, ObservedRound
from divulge.core import Records, Tensors, UpdateDefence
from divulge.data.augmentation import augment
from divulge.defences.updates import protocol
from divulge.federation.output_layer import shares_of_biases
from divulge.training.recipe import RaggedRows

EVEN = 6
"""One in so many virtual clients has equally many records of each class."""

_SPREADS = (0.3, 1.0, 3.0, 10.0)
"""Concentrations of the Dirichlet distributions that mixes are drawn from."""

_FEW = 5
"""Number of images of a class below which shifted ones are added."""

_NEAR = 40.0
"""Concentration of the Dirichlet distribution around a guess."""

_MEDIAN_OF_SQUARES = 0.4549
"""Median of the square of a standard normal number."""

_WIDTH = 512
"""Size of a sketch of a tensor: squared distances err by about 1 in 16."""

_TRIAL = 8
"""Number of virtual clients whose changes noise is compared with."""


class UpdateFeatures(NamedTuple):
    """Features of clients' updates in a round, one row a client."""

    tensors: FeatureKinds
    """Mean change a step of every tensor, with wide tensors sketched. These features say most, but
    also which records a client has: virtual clients that share records guess each other's mix too
    well."""
    classes: FeatureKinds
    """A few numbers a class: mean change of the last weights and biases, the share of weights that
    grew and whether any did, and the change of the predictions on all of the attacker's records
    and on those of the class itself; besides, the number of steps."""
    first: Float64[np.ndarray, "clients classes"]
    """Shares by the balance of the output biases; equal ones where there are no biases."""


@dataclass(frozen=True, slots=True)
class ShadowClients:
    """Virtual clients; the same ones are simulated in every round."""

    counts: Int[np.ndarray, "clients classes"]
    """Number of records of each class that each client holds."""
    rows: tuple[RaggedRows, ...]
    """Positions of their records among the attacker's; some are there more than once."""
    even: Bool[np.ndarray, " clients"]
    """True for clients that were given equally many records of each class."""

    @property
    def shares(self) -> Float64[np.ndarray, "clients classes"]:
        """Class shares of each client: what is to be guessed."""
        shares: np.ndarray = self.counts / self.counts.sum(axis=1, keepdims=True)
        return shares

    @property
    def presence(self) -> Float64[np.ndarray, "clients classes"]:
        """1 for each class of which there is a record, 0 for the others."""
        held: np.ndarray = (self.counts > 0).astype(np.float64)
        return held

    @property
    def rare(self) -> Bool[np.ndarray, "clients classes"]:
        """True for each class of which a client holds records, but less than an equal share."""
        rare: np.ndarray = (self.counts > 0) & (self.shares < 1 / self.counts.shape[1])
        return rare

    def concatenate(self, other: "ShadowClients") -> "ShadowClients":
        """These virtual clients followed by the others."""
        return ShadowClients(
            np.concatenate([self.counts, other.counts]),
            self.rows + other.rows,
            np.concatenate([self.even, other.even]),
        )


def enlarge(reference: Records) -> Records:
    """Add images shifted by one pixel, in eight directions, where a class has few images.

    A virtual client that holds the same two images a hundred times overfits them, as no real one
    does. With many images of each class shifts did harm: the clients' own are not shifted.
    """
    if reference.x.ndim != 4 or np.bincount(reference.y).min() >= _FEW:
        return reference
    upright = [reference, *augment(reference, ("shift-up", "shift-down"))]
    ways = ("shift-left", "shift-right")
    every = [seen for one in upright for seen in (one, *augment(one, ways))]
    return Records(np.concatenate([one.x for one in every]), np.tile(reference.y, len(every)))


def draw_shadow_clients(
    reference: Records, sizes: Sequence[int], many: int, rng: np.random.Generator
) -> ShadowClients:
    """Draw virtual clients with mixes of all kinds; one in `EVEN` has an even mix.

    Args:
        reference: the attacker's records, of every class.
        sizes: numbers of records; each client gets one of them at random.
        many: the number of clients.
        rng: draws mixes, sizes and records.
    """
    classes = int(reference.y.max()) + 1
    counts = []
    for k in range(many):
        size = int(rng.choice(np.asarray(sizes)))
        if k % EVEN == 0:
            counts.append(_even_counts(size, classes, rng))
            continue
        there = classes if rng.random() < 0.5 else int(rng.integers(1, classes + 1))
        mix = np.zeros(classes)
        chosen = rng.permutation(classes)[:there]
        mix[chosen] = rng.dirichlet(np.full(there, rng.choice(_SPREADS)))
        counts.append(rng.multinomial(size, mix))
    return _draw_records(reference, np.array(counts), np.arange(many) % EVEN == 0, rng)


def draw_near_guesses(
    reference: Records,
    sizes: Sequence[int],
    guesses: Float64[np.ndarray, "victims classes"],
    many: int,
    rng: np.random.Generator,
) -> ShadowClients:
    """Draw virtual clients with mixes near the guesses, which are taken in turn."""
    classes = guesses.shape[1]
    counts = []
    for k in range(many):
        size = int(rng.choice(np.asarray(sizes)))
        mix = guesses[k % len(guesses)]
        # classes taken for absent come back as rare ones now and then: the guess may be wrong
        floor = np.where(rng.random(classes) < 0.2, 0.02, 1e-4)
        counts.append(rng.multinomial(size, rng.dirichlet(_NEAR * np.maximum(mix, floor))))
    return _draw_records(reference, np.array(counts), np.zeros(many, np.bool_), rng)


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


def update_features(stage: ObservedRound, sight: ClientChange) -> UpdateFeatures:
    """Features of one update, as one row, in numbers that do not grow with the steps."""
    changes = (a for a in sight.change.values() if a.dtype.kind == "f")
    moved = [_sketch(a.ravel().astype(np.float64) / sight.steps) for a in changes]
    before, after = stage.before, stage.after(sight.change)
    log = np.log(np.maximum(after, 1e-12)) - np.log(np.maximum(before, 1e-12))
    mean = np.log(np.maximum(after.mean(axis=0), 1e-12))
    own, risen = np.diagonal(stage.class_means(after)), np.diagonal(stage.class_means(log))
    grew = sight.weight > 0
    signs = np.concatenate([grew.mean(axis=1), grew.any(axis=1)])
    classes = [sight.weight.sum(axis=1) / sight.steps, signs, log.mean(axis=0), risen, mean, own]
    first = np.full(stage.classes, 1 / stage.classes)
    if sight.bias is not None:
        classes.append(sight.bias / sight.steps)
        between = stage.class_means((before + after) / 2)
        first = shares_of_biases(sight.bias, float(sight.steps), between)
    classes.append(np.log([float(sight.steps)]))
    return UpdateFeatures(
        tuple(a[None] for a in moved), tuple(a[None] for a in classes), first[None]
    )


def stack_features(shown: Sequence[UpdateFeatures]) -> UpdateFeatures:
    """Stack the rows of several clients."""
    tensors, classes = (
        tuple(np.concatenate(rows) for rows in zip(*kinds, strict=True))
        for kinds in zip(*((one.tensors, one.classes) for one in shown), strict=True)
    )
    return UpdateFeatures(tensors, classes, np.concatenate([one.first for one in shown]))


def _sketch(numbers: Float64[np.ndarray, " _"]) -> Float64[np.ndarray, " _"]:
    """Sums of numbers with random signs, which keep distances in expectation.

    References:
        Charikar, Chen and Farach-Colton (2002), Finding frequent items in data streams: the count
        sketch, here with the numbers dealt out in turn.
    """
    if len(numbers) <= _WIDTH:
        return numbers
    signed = np.zeros(-(-len(numbers) // _WIDTH) * _WIDTH)
    signed[: len(numbers)] = numbers * _signs(len(numbers))
    sums: np.ndarray = signed.reshape(-1, _WIDTH).sum(axis=0)
    return sums


@functools.lru_cache(maxsize=32)
def _signs(many: int) -> Int8[np.ndarray, " _"]:
    """Signs of a sketch: fixed, the same for every client, and no secret."""
    bits = np.random.default_rng(many).integers(0, 2, many, dtype=np.int8)
    signs: np.ndarray = 2 * bits - 1
    return signs


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
    if there <= 4 * max(explained):
        return 0.0
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


def _even_counts(size: int, classes: int, rng: np.random.Generator) -> Int[np.ndarray, " classes"]:
    counts = np.full(classes, size // classes)
    counts[rng.permutation(classes)[: size % classes]] += 1
    return counts


def _draw_records(
    reference: Records,
    counts: Int[np.ndarray, "clients classes"],
    even: Bool[np.ndarray, " clients"],
    rng: np.random.Generator,
) -> ShadowClients:
    own = [np.flatnonzero(reference.y == k) for k in range(counts.shape[1])]
    rows = []
    for row in counts:
        # A real client's records differ from the attacker's by two samples' luck, so each virtual
        # one draws from a population of its own: the attacker's records, drawn with repetition.
        populations = [rng.choice(mine, len(mine)) for mine in own]
        parts = [rng.choice(them, many) for them, many in zip(populations, row, strict=True)]
        rows.append(rng.permutation(np.concatenate(parts)))
    return ShadowClients(counts, tuple(rows), even)
