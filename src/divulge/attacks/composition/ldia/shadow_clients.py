"""Shadow clients of LDIA hold the attacker's records in known mixes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from divulge.attacks.shared.observed_round import ObservedRound
from divulge.core import UpdateView
from divulge.training.recipe import RaggedRows

Counts = Int[np.ndarray, "clients classes"]


def draw_counts(sizes: Sequence[int], classes: int, rng: np.random.Generator) -> Counts:
    """Numbers of records of each class of shadow clients, as many as there are sizes.

    Equally many clients, but for what is left over, have records of up to 1, 2, and so on up to
    all of the classes. Which ones is drawn; so are the cuts between them, from 1 to all records.
    """
    counts = np.zeros((len(sizes), classes), np.int64)
    for k, size in enumerate(sizes):
        there = 1 + k * classes // len(sizes)
        cuts = np.sort(rng.integers(1, size + 1, there - 1))
        parts = np.diff(np.concatenate([[0], cuts, [size]]))
        counts[k, np.sort(rng.permutation(classes)[:there])] = parts
    return counts


class LabelledShadows(NamedTuple):
    """Shadow clients, and how many records of each class they hold."""

    counts: Counts
    rows: tuple[RaggedRows, ...]
    """Positions of their records among the attacker's."""


def draw_shadow_clients(
    stages: dict[int, tuple[ObservedRound, list[int]]],
    views: Sequence[UpdateView],
    many: int,
    rng: np.random.Generator,
) -> LabelledShadows:
    """Shadow clients, as large as the victims, each of them as often."""
    stage = next(iter(stages.values()))[0]
    stage.class_means(stage.before)  # refuses a class without records
    victim_sizes = _victim_sizes(stages, views)
    sizes = rng.permutation(np.resize(rng.permutation(np.sort(victim_sizes)), many))
    counts = draw_counts(sizes.tolist(), stage.classes, rng)
    return _draw_rows(stage, counts, max(victim_sizes), rng)


def draw_even_clients(
    stages: dict[int, tuple[ObservedRound, list[int]]],
    views: Sequence[UpdateView],
    many: int,
    rng: np.random.Generator,
) -> LabelledShadows:
    """Shadow clients with equally many records of each class."""
    stage = next(iter(stages.values()))[0]
    victim_sizes = _victim_sizes(stages, views)
    sizes = np.resize(rng.permutation(np.sort(victim_sizes)), many)
    counts = np.tile(sizes[:, None] // stage.classes, stage.classes)
    for row, size in zip(counts, sizes, strict=True):
        row[rng.permutation(stage.classes)[: size % stage.classes]] += 1
    return _draw_rows(stage, counts, max(victim_sizes), rng)


def _victim_sizes(
    stages: dict[int, tuple[ObservedRound, list[int]]], views: Sequence[UpdateView]
) -> list[int]:
    return [
        observed.records(views[v].victim) for observed, victims in stages.values() for v in victims
    ]


def _draw_rows(
    stage: ObservedRound, counts: Counts, largest: int, rng: np.random.Generator
) -> LabelledShadows:
    """Records of shadow clients.

    Records of a class are repeated until there are as many as the largest client has, and drawn
    without replacement from these.
    """
    label = stage.reference.y
    pools = []
    for k in range(stage.classes):
        own = np.flatnonzero(label == k)
        pools.append(np.resize(rng.permutation(own), max(largest, len(own))))
    rows = tuple(
        rng.permutation(np.concatenate([
            rng.permutation(pool)[:count] for pool, count in zip(pools, each, strict=True)
        ]))
        for each in counts.tolist()
    )  # fmt: skip
    return LabelledShadows(counts, rows)
