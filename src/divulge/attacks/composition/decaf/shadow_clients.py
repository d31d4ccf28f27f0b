"""Virtual clients hold the attacker's records in mixes of all kinds, or in mixes near a guess."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge.core import Records
from divulge.data.augmentation import augment
from divulge.training.recipe import RaggedRows

EVEN = 6
"""One in so many virtual clients has equally many records of each class."""

_SPREADS = (0.3, 1.0, 3.0, 10.0)
"""Concentrations of the Dirichlet distributions that mixes are drawn from."""

_FEW = 5
"""Number of images of a class below which shifted ones are added."""

_NEAR = 40.0
"""Concentration of the Dirichlet distribution around a guess."""


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
        presence: np.ndarray = (self.counts > 0).astype(np.float64)
        return presence

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
    every = [moved for rows in upright for moved in (rows, *augment(rows, ways))]
    return Records(np.concatenate([moved.x for moved in every]), np.tile(reference.y, len(every)))


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
        # half of them have every class, or null classes would look usual
        there = classes if rng.random() < 0.5 else int(rng.integers(1, classes + 1))
        mix = np.zeros(classes)
        chosen = rng.permutation(classes)[:there]
        mix[chosen] = rng.dirichlet(np.full(there, rng.choice(_SPREADS)))
        counts.append(rng.multinomial(size, mix))
    return _draw_records(reference, np.array(counts), np.arange(many) % EVEN == 0, rng)


def draw_even_clients(
    reference: Records, sizes: Sequence[int], many: int, rng: np.random.Generator
) -> ShadowClients:
    """Draw virtual clients with equally many records of each class."""
    classes = int(reference.y.max()) + 1
    counts = [_even_counts(int(size), classes, rng) for size in rng.choice(sizes, many)]
    return _draw_records(reference, np.array(counts), np.ones(many, np.bool_), rng)


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
