"""Baselines that Decaf is compared with infer class shares from an update, too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64
from scipy.optimize import nnls

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.observed_round import (
    ClientChange,
    ObservedRound,
    RoundGuess,
    combine_rounds,
    first_rounds,
    null_classes,
)
from divulge.core import Need, Proportions, UpdateView
from divulge.errors import NotApplicable, SpecError

Method = Literal["llg", "ilrg", "rlu", "ranking", "uniform", "random"]
Counts = Float64[np.ndarray, " classes"]


@check_arguments
@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Class shares by a simpler or older method; all rounds count alike.

    Over T steps of rate η the output biases change by ηT (s - Pᵀ s), for shares s and mean answers
    P on records of each class. ``ilrg`` and ``rlu`` solve that for s.

    Args:
        method: ``llg`` takes one label after another by the sign and size of the last layer's
            gradient; ``ilrg`` solves the biases with the answers of the model sent out; ``rlu``
            with non-negative shares and the mean answers of both models; ``ranking`` takes the
            sensitivity of each class's weights as its share, which is meant to find the commonest
            class; ``uniform`` guesses equal shares of the classes that Decaf's rule does not
            declare null; ``random`` guesses any shares.
        rounds: largest number of rounds, the first ones.

    References:
        Wainakh et al. (2022), User-level label leakage from gradients in federated learning (LLG).
        Ma et al. (2023), Instance-wise batch label restoration via gradients in federated learning
        (iLRG). Chen and Vikalo (2024), Recovering labels from local updates in federated learning
        (RLU; its sampling of answers along the training is left out). Zhou et al. (2023), PPA:
        Preference profiling attack against federated learning (its ranking alone).
    """

    method: Method = "uniform"
    rounds: int = 3

    name: ClassVar[str] = "label-counts"
    paper: ClassVar[str] = "Wainakh et al. 2022; Ma et al. 2023; Chen and Vikalo 2024"
    needs: ClassVar[Need] = Need.UPDATES | Need.REFERENCE

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise SpecError(f"expected rounds from 1, got {self.rounds}: look at one or more")

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Proportions:
        """The shares of one client."""
        return self.many((view,), rng)[0]

    def many(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> tuple[Proportions, ...]:
        """The shares of several clients of one federation; the model sent out is queried once.

        Raises:
            NotApplicable: network, records or local training are not known, or the last layer has
                no biases where the method reads those.
        """
        guesses: list[list[RoundGuess]] = [[] for _ in views]
        for stage, victims in first_rounds(views, self.rounds).values():
            for victim in victims:
                sight = stage.observe_client(views[victim].victim)
                counts = np.maximum(_METHODS[self.method](stage, sight, rng), 0.0)
                share = (
                    counts / counts.sum() if counts.sum() else np.full(len(counts), 1 / len(counts))
                )
                guesses[victim].append(RoundGuess(share, share == 0))
        return tuple(combine_rounds(each, self.method) for each in guesses)


def llg(stage: ObservedRound, sight: ClientChange, rng: np.random.Generator) -> Counts:
    """Infer label after label: each takes the impact of one record off the class that shows most.

    The impact is the mean over records of what pushes weights up, raised by one part in as many as
    there are classes; first every class with a positive sum gets one record.
    """
    del rng
    shown = sight.weight.sum(axis=1)
    records = sight.steps * stage.recipe.batch_size
    counts: Counts = (shown > 0).astype(np.float64)
    # LLG's impact of one record, and its 1 + 1/n for what other classes take off
    impact = float(np.maximum(shown, 0).sum()) / records * (1 + 1 / len(shown))
    if impact <= 0:
        return np.full(len(shown), 1.0)
    left = shown - counts * impact
    for _ in range(max(0, records - int(counts.sum()))):
        most = int(left.argmax())
        counts[most] += 1
        left[most] -= impact
    return counts


def ilrg(stage: ObservedRound, sight: ClientChange, rng: np.random.Generator) -> Counts:
    """Solve the balance of the biases at the model sent out, by the pseudo-inverse."""
    del rng
    bias, balance = _bias_balance(stage, sight, stage.before)
    # pseudo-inverse: the columns of two classes that the model is sure of are equal
    counts: Counts = np.linalg.pinv(balance) @ np.append(bias, 1.0)
    return counts


def rlu(stage: ObservedRound, sight: ClientChange, rng: np.random.Generator) -> Counts:
    """Solve the balance of the biases at the mean of both models, by non-negative least squares."""
    del rng
    bias, balance = _bias_balance(stage, sight, (stage.before + stage.after(sight.change)) / 2)
    counts: Counts = nnls(balance, np.append(bias, 1.0))[0]
    return counts


def ranking(stage: ObservedRound, sight: ClientChange, rng: np.random.Generator) -> Counts:
    """Take how far training moved the weights of each class towards it for its count."""
    del stage, rng
    counts: Counts = np.maximum(sight.weight.sum(axis=1), 0.0)
    return counts


def uniform(stage: ObservedRound, sight: ClientChange, rng: np.random.Generator) -> Counts:
    """Give the same share to every class that the published rule does not declare null."""
    del stage, rng
    counts: Counts = (~null_classes(sight.weight)).astype(np.float64)
    return counts


def random(stage: ObservedRound, sight: ClientChange, rng: np.random.Generator) -> Counts:
    """Draw shares at random, with all shares equally likely."""
    del sight
    # a flat Dirichlet is uniform on the simplex
    counts: Counts = rng.dirichlet(np.ones(stage.classes))
    return counts


_METHODS: dict[str, Callable[[ObservedRound, ClientChange, np.random.Generator], Counts]] = {
    "llg": llg,
    "ilrg": ilrg,
    "rlu": rlu,
    "ranking": ranking,
    "uniform": uniform,
    "random": random,
}


def _bias_balance(
    stage: ObservedRound, sight: ClientChange, answers: Float64[np.ndarray, "references classes"]
) -> tuple[Counts, Float64[np.ndarray, "equations classes"]]:
    """Change of the biases per step, and the equations of the shares with their sum of 1."""
    if sight.bias is None:
        raise NotApplicable("expected output biases, got none: this method reads nothing else")
    # Δb = ηT (s - Pᵀ s), one row a class, and the row of ones for Σ s = 1
    balance = np.eye(stage.classes) - stage.class_means(answers).T
    return sight.bias / sight.steps, np.vstack([balance, np.ones(stage.classes)])
