"""Decaf's two cheap levels: the paper's own method, and the balance of the biases."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from divulge.attacks.decaf_steps import Solver, decompose, null_classes, shares
from divulge.attacks.stage import Sight, Stage
from divulge.core import Proportions, UpdateView
from divulge.errors import NotApplicable
from divulge.last_layer import shares_of_biases
from divulge.randomness import stream

Rounds = Mapping[int, tuple[Stage, list[int]]]
"""By number: a round, and the positions of the victims that are attacked in it."""


Step = Literal["none", "null removal", "calibrator"]
"""A step of the published method that can be left out."""


class RoundGuess(NamedTuple):
    """What one round says of one victim."""

    share: Float64[np.ndarray, " classes"]
    null: Bool[np.ndarray, " classes"]
    weight: float = 1.0


def by_paper(
    rounds: Rounds,
    views: Sequence[UpdateView],
    solver: Solver,
    threshold: float,
    seed: int,
    *,
    without: Step = "none",
) -> tuple[Proportions, ...]:
    """The published method; all rounds count alike.

    Args:
        rounds: in which the victims are attacked.
        views: of the victims.
        solver: see `decompose`.
        threshold: see `null_classes`.
        seed: for the training of bases.
        without: this step: all classes are taken for present, or the bases of single classes
            stand alone.

    References:
        Dai et al. (2024), Decaf, algorithms 1 and 2; tables XIV and XV for the ablations.
    """
    found: list[list[RoundGuess]] = [[] for _ in views]
    for stage, victims in rounds.values():
        bases = _Bases(stage, seed)
        for victim in victims:
            change = stage.seen(views[victim].victim).weight
            null = null_classes(change, threshold)
            if null.all():
                raise NotApplicable(
                    f"expected a positive entry in the last layer's change of client "
                    f"{views[victim].victim!r}, got none above {threshold}: lower the threshold"
                )
            there = np.flatnonzero(np.ones_like(null) if without == "null removal" else ~null)
            alone = [bases.of(stage.reference.y == k, int(k)) for k in there]
            both = bases.of(np.isin(stage.reference.y, there), *there.tolist())
            calibrator = np.zeros_like(both) if without == "calibrator" else both
            share = np.zeros(stage.classes)
            share[there] = shares(decompose(change, np.array([*alone, calibrator]), solver))
            found[victim].append(RoundGuess(share, null))
    return tuple(combined(guesses, f"the published method, {solver}") for guesses in found)


def by_biases(rounds: Rounds, views: Sequence[UpdateView]) -> tuple[Proportions, ...]:
    """The balance of the biases, with the answers of both ends of the local training.

    Rounds count by the inverse squares of what the balance leaves unexplained.

    Raises:
        NotApplicable: the layer has no biases, or clients do not train by plain gradient descent.
    """
    found: list[list[RoundGuess]] = [[] for _ in views]
    for stage, victims in rounds.values():
        if stage.layer.bias is None or stage.recipe.optimiser != "sgd":
            has = "no" if stage.layer.bias is None else "biases"
            raise NotApplicable(
                f"expected output biases and sgd, got {has} and {stage.recipe.optimiser}: use "
                'level="virtual"'
            )
        for victim in victims:
            sight = stage.seen(views[victim].victim)
            found[victim].append(_balanced(stage, sight))
    return tuple(combined(guesses, "the balance of the biases") for guesses in found)


def combined(guesses: Sequence[RoundGuess], how: str) -> Proportions:
    """One guess of several rounds: the weighted mean; a class is null if no round shows it."""
    weights = np.array([guess.weight for guess in guesses])
    share = np.average([guess.share for guess in guesses], axis=0, weights=weights)
    null = np.all([guess.null for guess in guesses], axis=0)
    many = f"{len(guesses)} rounds" if len(guesses) > 1 else "1 round"
    return Proportions(share / share.sum(), null, how=f"{how}, {many}")


def _balanced(stage: Stage, sight: Sight) -> RoundGuess:
    assert sight.bias is not None
    answers = stage.by_class((stage.before + sight.answers) / 2)
    null = null_classes(sight.weight)
    if null.all():  # nothing is known to be there, so nothing is taken for absent
        null = np.zeros_like(null)
    # a step of momentum m goes on as m + m² + ... of it in the steps that follow
    steps = sight.steps / (1 - stage.recipe.momentum)
    share = shares_of_biases(sight.bias, steps, answers, null)
    rest = share - answers.T @ share - sight.bias / steps
    return RoundGuess(share, null, 1 / max(float(rest @ rest), 1e-12))


class _Bases:
    """Changes of the last layer that some of the attacker's records cause, each trained once."""

    def __init__(self, stage: Stage, seed: int) -> None:
        from divulge.training.crew import Crew

        self._stage, self._seed = stage, seed
        self._crew = Crew(stage.recipe, stage.reference)
        self._kept: dict[tuple[int, ...], Float64[np.ndarray, "classes inputs"]] = {}

    def of(
        self, chosen: Bool[np.ndarray, " records"], *classes: int
    ) -> Float64[np.ndarray, "classes inputs"]:
        """By training on the records of these classes, as a client would."""
        if not chosen.any():
            raise NotApplicable(
                f"expected reference records of class {classes[0]}, got none: bring some"
            )
        if classes not in self._kept:
            rng = stream(self._seed, "basis", self._stage.round.number, *classes)
            rows, seeds = [np.flatnonzero(chosen)], [int(rng.integers(2**31))]
            (change,) = self._stage.trained(self._crew, rows, seeds)
            layer = self._stage.layer.weight
            self._kept[classes] = change[layer].astype(np.float64) / self._stage.recipe.lr
        return self._kept[classes]
