"""Features of a client's update, in numbers that do not depend on how long it trained."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int8

from divulge.attacks.composition.decaf.class_regression import ClassNumbers
from divulge.attacks.composition.decaf.regression import FeatureKinds
from divulge.attacks.shared.observed_round import ClientChange, ObservedRound
from divulge.federation.output_layer import shares_of_biases

ClassColumn = Float64[np.ndarray, " classes"]

_WIDTH = 512
"""Size of a sketch of a tensor: squared distances err by about 1 in 16."""


class UpdateFeatures(NamedTuple):
    """Features of clients' updates in a round, one row a client."""

    tensors: FeatureKinds
    """Mean change a step of every tensor, with wide tensors sketched. These features tell classes
    apart that look alike, but also which records a client has."""
    classes: ClassNumbers
    """The same numbers of every class, by the same rules: of the last layer's change the sum, the
    share of weights that grew and whether any did, the sums of those that grew and that shrank, the
    largest and the largest in size, and the change of the bias; of the answers on the attacker's
    records the mean change of the class's logarithm on all of them and on its own, the mean on its
    own and that of its logarithm, and the logarithm of the mean on all; the share by the balance of
    the output biases; and the number of steps."""

    def take(self, chosen: Bool[np.ndarray, " _"]) -> "UpdateFeatures":
        """The rows of some of the clients."""
        return UpdateFeatures(tuple(a[chosen] for a in self.tensors), self.classes[chosen])


def update_features(stage: ObservedRound, sight: ClientChange) -> UpdateFeatures:
    """Features of one update, as one row, in numbers that do not grow with the steps."""
    changes = (a for a in sight.change.values() if a.dtype.kind == "f")
    moved = [_sketch(a.ravel().astype(np.float64) / sight.steps) for a in changes]
    numbers = np.stack([*_of_weights(sight), *_of_answers(stage, sight)], axis=1)
    return UpdateFeatures(tuple(a[None] for a in moved), numbers[None])


def _of_weights(sight: ClientChange) -> list[ClassColumn]:
    weight = sight.weight / sight.steps
    grew = weight > 0
    return [
        weight.sum(axis=1),
        # Decaf's null rule (algorithm 1), as a number rather than a verdict
        grew.mean(axis=1),
        grew.any(axis=1).astype(np.float64),
        np.maximum(weight, 0).sum(axis=1),
        np.minimum(weight, 0).sum(axis=1),
        weight.max(axis=1),
        np.abs(weight).max(axis=1),
        np.full(len(weight), np.log(sight.steps)),
    ]


def _of_answers(stage: ObservedRound, sight: ClientChange) -> list[ClassColumn]:
    before, after = stage.before, stage.after(sight.change)
    # 1e-12: a saturated answer must not outweigh all other numbers
    logs = np.log(np.maximum(after, 1e-12))
    rise = logs - np.log(np.maximum(before, 1e-12))
    columns = [
        rise.mean(axis=0),
        np.diagonal(stage.class_means(rise)),
        np.diagonal(stage.class_means(after)),
        np.diagonal(stage.class_means(logs)),
        np.log(np.maximum(after.mean(axis=0), 1e-12)),
    ]
    if sight.bias is not None:
        between = stage.class_means((before + after) / 2)
        columns += [
            sight.bias / sight.steps,
            shares_of_biases(sight.bias, float(sight.steps), between),
        ]
    return columns


def stack_features(shown: Sequence[UpdateFeatures]) -> UpdateFeatures:
    """Stack the rows of several clients."""
    tensors = tuple(
        np.concatenate(rows) for rows in zip(*(row.tensors for row in shown), strict=True)
    )
    return UpdateFeatures(tensors, np.concatenate([row.classes for row in shown]))


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
