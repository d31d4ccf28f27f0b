"""LDIA: a network learns from shadow clients to read class shares off the last layer's change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from divulge._util.arguments import check_arguments
from divulge._util.random import stream
from divulge.attacks.composition.ldia.network import Seen, read_shares, train_network
from divulge.attacks.composition.ldia.shadow_clients import (
    Counts,
    draw_even_clients,
    draw_shadow_clients,
)
from divulge.attacks.shared.observed_round import ObservedRound, first_rounds
from divulge.attacks.shared.simulated_errors import (
    SimulatedGuesses,
    evenness_p_value,
    likeness_p_values,
    log_lengths,
)
from divulge.core import Need, Proportions, Tensors, UpdateView
from divulge.errors import SpecError
from divulge.training.recipe import RaggedRows

EVEN = 10
"""One further shadow client in so many has an even mix, and teaches the network nothing."""

FOLDS = 4
"""Parts of the shadow clients, each guessed by a network that was trained on the others."""


@check_arguments
@dataclass(frozen=True, slots=True)
class LDIA:
    """Class shares by a network that was trained on shadow clients with known mixes.

    Shadow clients hold records of the attacker, of one class up to all of them, in random shares,
    and train from the weights that were sent out. The network reads how the last layer's weights
    changed in each round. A class whose share rounds to 0.000 is declared null. Victims of the same
    rounds share a network. How far off it is, further networks say, each about shadows that it was
    not trained on.

    Args:
        clients: number of shadow clients.
        rounds: largest number of rounds, the first ones of each victim.
        epochs: epochs of the network's training.

    References:
        Gu and Bai (2023), LDIA: Label distribution inference attack against federated learning in
        edge computing, as its published code has it. Departures: there each shadow client also has
        a global model of its own, the mean with the real clients' updates, and ten rounds are
        observed, before which the network has two convolutions; here shadow clients start from the
        weights that the server really sent, and the network is the code's own for fewer rounds,
        without convolutions. Shares to be learned are not rounded to two decimals.
    """

    clients: int = 1000
    rounds: int = 3
    epochs: int = 100

    name: ClassVar[str] = "ldia"
    paper: ClassVar[str] = "Gu and Bai 2023"
    needs: ClassVar[Need] = Need.UPDATES | Need.REFERENCE

    def __post_init__(self) -> None:
        if min(self.clients - 23, self.rounds, self.epochs) < 1:
            raise SpecError(
                f"expected clients from 24, rounds from 1 and epochs from 1, got {self.clients}, "
                f"{self.rounds} and {self.epochs}: change them"
            )

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Proportions:
        """The shares of one client."""
        return self.many((view,), rng)[0]

    def many(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> tuple[Proportions, ...]:
        """The shares of several clients of one federation; shadow clients are trained once.

        Raises:
            NotApplicable: network, reference records of each class, or what clients were told to
                do are not known.
        """
        stages = first_rounds(views, self.rounds)
        seed = int(rng.integers(2**63))
        shadows = draw_shadow_clients(stages, views, self.clients, stream(seed, "shadows"))
        even = draw_even_clients(stages, views, self.clients // EVEN, stream(seed, "even shadows"))
        rows = (*shadows.rows, *even.rows)
        shown = {n: _train_shadows(stage, rows, seed) for n, (stage, _) in stages.items()}
        guesses: dict[int, Proportions] = {}
        for together, victims in _same_rounds(stages, len(views)).items():
            inside = np.concatenate([shown[n] for n in together], axis=1)
            changes = np.array([
                np.concatenate([_flatten(stages[n][0], views[v].victim) for n in together])
                for v in victims
            ])  # fmt: skip
            how = f"{self.clients} shadow clients, rounds {', '.join(map(str, together))}"
            mixes = self._guess(inside, shadows.counts, changes, len(together), seed)
            guesses |= zip(victims, (replace(mix, how=how) for mix in mixes), strict=True)
        return tuple(guesses[v] for v in range(len(views)))

    def _guess(
        self,
        inside: Float[np.ndarray, "all_shadows numbers"],
        counts: Counts,
        changes: Float[np.ndarray, "victims numbers"],
        rounds: int,
        seed: int,
    ) -> list[Proportions]:
        """Guess about victims of the same rounds, and learn from shadows how far off that is.

        Args:
            inside: features of shadow clients, the even ones last.
            counts: records of each class of the others.
            changes: features of the victims.
            rounds: number of rounds that the features are of.
            seed: of the networks.
        """
        shadows, even = np.split(inside, [len(counts)])
        true_share = counts / counts.sum(axis=1, keepdims=True)
        network = train_network(shadows, true_share, self.epochs, seed)
        share = read_shares(network, np.concatenate([changes, even]))
        shares, of_even = np.split(share / share.sum(axis=1, keepdims=True), [len(changes)])
        left_out = np.empty_like(true_share)
        for part in np.array_split(stream(seed, "folds").permutation(len(true_share)), FOLDS):
            rest = np.setdiff1d(np.arange(len(true_share)), part)
            other = train_network(shadows[rest], true_share[rest], self.epochs, seed)
            left_out[part] = read_shares(other, shadows[part])
        simulated = SimulatedGuesses(
            left_out / left_out.sum(axis=1, keepdims=True), left_out == 0, true_share
        )
        lengths, own = (
            log_lengths(np.split(part.astype(np.float64), rounds, axis=1))
            for part in (inside, changes)
        )
        known = np.concatenate([simulated.share, of_even])
        like = likeness_p_values(known, lengths, shares, own)
        guesses = []
        for row, p_value in zip(shares, like.tolist(), strict=True):
            guess = Proportions(row, row == 0, even=evenness_p_value(row, of_even))
            guesses.append(replace(guess, errors=simulated.errors_like(guess, p_value)))
        return guesses


def _train_shadows(stage: ObservedRound, rows: tuple[RaggedRows, ...], seed: int) -> Seen:
    from divulge.training.engine.client_training import ClientWorkers

    client_workers = ClientWorkers(stage.recipe, stage.reference)
    drawn = stream(seed, "shadow clients", stage.round.number).integers(2**31, size=len(rows))
    changes = stage.train_on(client_workers, rows, drawn.tolist())
    return np.array([_layer_change(stage, change) for change in changes])


def _flatten(stage: ObservedRound, client: str) -> Float[np.ndarray, " numbers"]:
    return _layer_change(stage, stage.round.change(client))


def _layer_change(stage: ObservedRound, change: Tensors) -> Float[np.ndarray, " numbers"]:
    """Last layer's weights sent less those it came to, as one row."""
    return -change[stage.layer.weight].ravel().astype(np.float32)


def _same_rounds(
    stages: dict[int, tuple[ObservedRound, list[int]]], many: int
) -> dict[tuple[int, ...], list[int]]:
    """Victims by the rounds that they are attacked in."""
    together: dict[tuple[int, ...], list[int]] = {}
    for v in range(many):
        rounds = tuple(number for number, (_, victims) in stages.items() if v in victims)
        together.setdefault(rounds, []).append(v)
    return together
