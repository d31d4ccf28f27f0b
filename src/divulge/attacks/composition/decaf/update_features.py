"""Features of a client's update, in numbers that do not depend on how long it trained."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int8

from divulge.attacks.composition.decaf.regression import FeatureKinds
from divulge.attacks.shared.observed_round import ClientChange, ObservedRound
from divulge.federation.output_layer import shares_of_biases

_WIDTH = 512
"""Size of a sketch of a tensor: squared distances err by about 1 in 16."""


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


def update_features(stage: ObservedRound, sight: ClientChange) -> UpdateFeatures:
    """Features of one update, as one row, in numbers that do not grow with the steps."""
    changes = (a for a in sight.change.values() if a.dtype.kind == "f")
    moved = [_sketch(a.ravel().astype(np.float64) / sight.steps) for a in changes]
    before, after = stage.before, stage.after(sight.change)
    # 1e-12: a saturated answer must not outweigh all other features
    log = np.log(np.maximum(after, 1e-12)) - np.log(np.maximum(before, 1e-12))
    mean = np.log(np.maximum(after.mean(axis=0), 1e-12))
    own, risen = np.diagonal(stage.class_means(after)), np.diagonal(stage.class_means(log))
    grew = sight.weight > 0
    # Decaf's null rule (algorithm 1), as a feature rather than a verdict
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
        for kinds in zip(*((row.tensors, row.classes) for row in shown), strict=True)
    )
    return UpdateFeatures(tensors, classes, np.concatenate([row.first for row in shown]))


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
