"""Decaf's two cheap levels are the paper's own method and the balance of the biases.

The paper's steps, decomposition and shares, are functions on arrays.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float64
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from divulge._util.random import stream
from divulge.attacks.shared.observed_round import (
    ClientChange,
    LayerChange,
    ObservedRound,
    RoundGuess,
    combine_rounds,
    null_classes,
)
from divulge.core import Proportions, UpdateView
from divulge.errors import NotApplicable
from divulge.federation.output_layer import shares_of_biases

Solver = Literal["nnls", "descent"]


_RIDGE = 1e-12
"""Ridge, as a part of the largest diagonal entry, that keeps the reduced system definite."""


def decompose(
    change: LayerChange, bases: Float[np.ndarray, "bases classes inputs"], solver: Solver = "nnls"
) -> Float64[np.ndarray, " bases"]:
    """Scale factors from 0 that rebuild a change from bases, best in least squares.

    ``nnls`` solves the problem exactly on its normal equations, of which there are as many as
    bases, however wide the layer; ``descent`` is the paper's 1,000 epochs of gradient descent.

    Args:
        change: the victim's change of the last layer.
        bases: the change that each class alone causes and, last, the calibrator: the change that
            all auxiliary records together cause.
        solver: the way to solve the problem.

    References:
        Dai et al. (2024), Decaf, equations 19 and 20.
    """
    columns = bases.reshape(len(bases), -1).T.astype(np.float64)
    right = change.ravel().astype(np.float64)
    return (
        _solve_by_descent(columns, right) if solver == "descent" else _solve_exactly(columns, right)
    )


def decomposition_loss(
    change: LayerChange,
    bases: Float[np.ndarray, "bases classes inputs"],
    scales: Float[np.ndarray, " bases"],
) -> float:
    """The mean squared error that `decompose` makes small.

    References:
        Dai et al. (2024), Decaf, equation 20.
    """
    return float(((np.tensordot(scales, bases, 1) - change) ** 2).mean())


def class_shares(scales: Float64[np.ndarray, " bases"]) -> Float64[np.ndarray, " _"]:
    """Shares of the classes that are there, from the scale factors of all bases.

    The calibrator holds about one of every basis, so its factor counts for each class. Where all
    factors are 0, nothing tells the classes apart: equal shares.

    References:
        Dai et al. (2024), Decaf, equation 21.

    Examples:
        >>> class_shares(np.array([0.0, 1.0, 0.5])).tolist()
        [0.25, 0.75]
    """
    # eq. 21, θ_i + θ_u: the calibrator is about the sum of all bases, so it adds to every class
    raw = scales[:-1] + scales[-1]
    total = raw.sum()
    each: np.ndarray = raw / total if total > 0 else np.full(len(raw), 1 / len(raw))
    return each


def _solve_exactly(
    columns: Float64[np.ndarray, "entries bases"], right: Float64[np.ndarray, " entries"]
) -> Float64[np.ndarray, " bases"]:
    # eq. 20 reduced to bases by bases (Cholesky): the same minimum, however wide the layer
    normal = columns.T @ columns
    normal[np.diag_indices_from(normal)] += _RIDGE * max(normal.diagonal().max(), 1e-300)
    root = cholesky(normal, lower=True)
    scales: np.ndarray = nnls(root.T, solve_triangular(root, columns.T @ right, lower=True))[0]
    return scales


def _solve_by_descent(
    columns: Float64[np.ndarray, "entries bases"],
    right: Float64[np.ndarray, " entries"],
    epochs: int = 1000,
    lr: float = 0.01,
) -> Float64[np.ndarray, " bases"]:
    """Adam (Kingma and Ba 2015, algorithm 1) from equal factors, cut off at 0 after each step.

    The paper names the epochs, and neither optimiser, rate nor start.
    """
    bases = columns.shape[1]
    scales = np.full(bases, 1 / bases)
    mean, square = np.zeros(bases), np.zeros(bases)
    for epoch in range(1, epochs + 1):
        # gradient of eq. 20, the mean squared error
        gradient = 2 / len(right) * (columns.T @ (columns @ scales - right))
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        unbiased = mean / (1 - 0.9**epoch), square / (1 - 0.999**epoch)
        scales = np.maximum(scales - lr * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8), 0.0)
    return scales


AttackedRounds = Mapping[int, tuple[ObservedRound, list[int]]]
"""Each round by its number, with the positions of the victims that are attacked in it."""


PublishedStep = Literal["none", "null removal", "calibrator"]
"""A step of the published method that can be left out."""


def infer_by_paper(
    rounds: AttackedRounds,
    views: Sequence[UpdateView],
    solver: Solver,
    threshold: float,
    seed: int,
    *,
    without: PublishedStep = "none",
) -> tuple[Proportions, ...]:
    """Guess by the published method; all rounds count alike.

    Args:
        rounds: the rounds in which the victims are attacked.
        views: one view a victim.
        solver: see `decompose`.
        threshold: see `null_classes`.
        seed: fixes the training of bases.
        without: the step to leave out: all classes are taken for present, or the bases of single
            classes stand alone.

    References:
        Dai et al. (2024), Decaf, algorithms 1 and 2; tables XIV and XV for the ablations.
    """
    by_victim: list[list[RoundGuess]] = [[] for _ in views]
    for stage, victims in rounds.values():
        bases = ClassBases(stage, seed)
        for victim in victims:
            change = stage.observe_client(views[victim].victim).weight
            # algorithm 1: a class without one positive entry is null
            null = null_classes(change, threshold)
            if null.all():
                raise NotApplicable(
                    f"expected a positive entry in the last layer's change of client "
                    f"{views[victim].victim!r}, got none above {threshold}: lower the threshold"
                )
            there = np.flatnonzero(np.ones_like(null) if without == "null removal" else ~null)
            # algorithm 2: a base for each class that is there, and the calibrator from all of them
            alone = [bases.of(stage.reference.y == k, int(k)) for k in there]
            both = bases.of(np.isin(stage.reference.y, there), *there.tolist())
            calibrator = np.zeros_like(both) if without == "calibrator" else both
            share = np.zeros(stage.classes)
            # eqs. 19 to 21, for the classes that are not null
            share[there] = class_shares(decompose(change, np.array([*alone, calibrator]), solver))
            by_victim[victim].append(RoundGuess(share, null))
    return tuple(
        combine_rounds(guesses, f"the published method, {solver}") for guesses in by_victim
    )


def infer_by_biases(rounds: AttackedRounds, views: Sequence[UpdateView]) -> tuple[Proportions, ...]:
    """Guess by the balance of the biases, with predictions before and after the local training.

    Rounds count by the inverse squares of what the balance leaves unexplained.

    Raises:
        NotApplicable: the layer has no biases, or clients do not train by plain gradient descent.
    """
    by_victim: list[list[RoundGuess]] = [[] for _ in views]
    for stage, victims in rounds.values():
        if stage.layer.bias is None or stage.recipe.optimiser != "sgd":
            has = "no" if stage.layer.bias is None else "biases"
            raise NotApplicable(
                f"expected output biases and sgd, got {has} and {stage.recipe.optimiser}: use "
                'level="virtual"'
            )
        for victim in victims:
            sight = stage.observe_client(views[victim].victim)
            by_victim[victim].append(_infer_from_biases(stage, sight))
    return tuple(combine_rounds(guesses, "the balance of the biases") for guesses in by_victim)


def _infer_from_biases(stage: ObservedRound, sight: ClientChange) -> RoundGuess:
    assert sight.bias is not None
    # the path's mean answer: the trapezoid of both ends, where iLRG takes the start alone
    answers = stage.class_means((stage.before + stage.after(sight.change)) / 2)
    null = null_classes(sight.weight)
    if null.all():  # nothing is known to be there, so nothing is taken for absent
        null = np.zeros_like(null)
    # a step of momentum m goes on as m + m² + ... of it in the steps that follow
    steps = sight.steps / (1 - stage.recipe.momentum)
    share = shares_of_biases(sight.bias, steps, answers, null)
    rest = share - answers.T @ share - sight.bias / steps
    return RoundGuess(share, null, 1 / max(float(rest @ rest), 1e-12))


class ClassBases:
    """Changes of the last layer that some of the attacker's records cause, each trained once."""

    def __init__(self, stage: ObservedRound, seed: int) -> None:
        from divulge.training.engine.client_training import ClientWorkers

        self._stage, self._seed = stage, seed
        self._client_workers = ClientWorkers(stage.recipe, stage.reference)
        self._kept: dict[tuple[int, ...], Float64[np.ndarray, "classes inputs"]] = {}

    def of(
        self, chosen: Bool[np.ndarray, " records"], *classes: int
    ) -> Float64[np.ndarray, "classes inputs"]:
        """Train on the records of these classes, as a client would, and return the change."""
        if not chosen.any():
            raise NotApplicable(
                f"expected reference records of class {classes[0]}, got none: bring some"
            )
        if classes not in self._kept:
            rng = stream(self._seed, "basis", self._stage.round.number, *classes)
            rows, seeds = [np.flatnonzero(chosen)], [int(rng.integers(2**31))]
            (change,) = self._stage.train_on(self._client_workers, rows, seeds)
            layer = self._stage.layer.weight
            # eq. 4: the change over the learning rate
            self._kept[classes] = change[layer].astype(np.float64) / self._stage.recipe.lr
        return self._kept[classes]
