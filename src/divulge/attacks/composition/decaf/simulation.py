"""Virtual clients are simulated in the rounds of real ones, to learn to read real updates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from divulge._util.random import stream
from divulge.attacks.composition.decaf import regression
from divulge.attacks.composition.decaf.class_regression import fit_classes
from divulge.attacks.composition.decaf.client_workers import make_client_workers
from divulge.attacks.composition.decaf.regression import (
    ClientShares,
    CombinedFit,
    RegressionFit,
)
from divulge.attacks.composition.decaf.shadow_clients import (
    ShadowClients,
    draw_even_clients,
    draw_near_guesses,
    draw_shadow_clients,
)
from divulge.attacks.composition.decaf.simulated_round import estimate_noise, simulate_round
from divulge.attacks.composition.decaf.update_features import (
    UpdateFeatures,
    stack_features,
    update_features,
)
from divulge.attacks.shared.observed_round import ObservedRound
from divulge.attacks.shared.simulated_errors import (
    evenness_p_value,
    likeness_p_values,
    log_lengths,
)
from divulge.core import Proportions, Records, UpdateDefence, UpdateView
from divulge.training.cluster import RayCluster
from divulge.training.recipe import Recipe


class ShadowClientSimulation:
    """A simulation of virtual clients; it grows with each `add`, and trains each client once.

    Args:
        rounds: each round by number, with the positions of the victims attacked in it.
        pools: the records that virtual clients are made of, as the network of each round sees
            them: the same records in the same order.
        views: one view a victim.
        seed: fixes the virtual clients.
        private: noise multiplier and clipping norm of the DP-SGD by which clients train.
        defence: update defence that clients were told to use; None if they were told of none.
        cluster: where virtual clients are trained; on this machine unless given.
    """

    def __init__(
        self,
        rounds: Mapping[int, tuple[ObservedRound, list[int]]],
        pools: Mapping[int, Records],
        views: Sequence[UpdateView],
        seed: int,
        private: tuple[float, float] | None = None,
        defence: UpdateDefence | None = None,
        cluster: RayCluster | None = None,
    ) -> None:
        self._cluster = cluster
        self._rounds, self._views, self._seed, self._private = rounds, views, seed, private
        self._defence = defence
        self._pools, self._pool = pools, next(iter(pools.values()))
        self._sizes = sorted(
            {stage.records(views[v].victim) for stage, victims in rounds.values() for v in victims}
        )
        self._cast: ShadowClients | None = None
        self._noise: dict[int, float] = {}
        self._prepared: dict[tuple[Recipe, int], Any] = {}
        self._shown: dict[int, list[UpdateFeatures]] = {number: [] for number in rounds}
        self._victims = {
            number: stack_features(
                [update_features(stage, stage.observe_client(views[v].victim)) for v in victims]
            )
            for number, (stage, victims) in rounds.items()
        }

    def add(self, many: int, near: Float64[np.ndarray, "victims classes"] | None = None) -> None:
        """Train more virtual clients in every round.

        Args:
            many: the number of further clients.
            near: guesses of class shares near which their mixes are drawn; None draws all kinds.
        """
        rng = stream(self._seed, "mixes", self._trained)
        if near is None:
            self._train(draw_shadow_clients(self._pool, self._sizes, many, rng))
        else:
            self._train(draw_near_guesses(self._pool, self._sizes, near, many, rng))

    def add_even(self, many: int) -> None:
        """Train more virtual clients with even mixes: no guess is learned from them."""
        rng = stream(self._seed, "even mixes", self._trained)
        self._train(draw_even_clients(self._pool, self._sizes, many, rng))

    @property
    def _trained(self) -> int:
        return 0 if self._cast is None else len(self._cast.rows)

    def _train(self, more: ShadowClients) -> None:
        before = self._trained
        for number, (stage, victims) in self._rounds.items():
            client_workers = self._client_workers(stage.recipe, self._pools[number])
            if self._defence is not None:
                self._noise[number] = 0.0  # it adds its own
            if number not in self._noise:
                names = [self._views[v].victim for v in victims]
                self._noise[number] = estimate_noise(
                    stage, client_workers, more, names, self._seed % 2**31
                )
            noise = self._noise[number]
            shown = simulate_round(
                stage, client_workers, more, noise, self._seed, before, self._defence
            )
            self._shown[number].append(shown)
        self._cast = more if self._cast is None else self._cast.concatenate(more)

    def guesses(self, null_error: float, *, judged: bool = False) -> tuple[Proportions, ...]:
        """Guess what the victims hold, from all virtual clients so far.

        Rounds count by the inverse of their mean squared error on virtual clients, each guessed
        by the others.

        Args:
            null_error: how often a class that is there may be declared null.
            judged: whether guesses say how far off such guesses about virtual clients are, and
                how likely an even mix is.
        """
        assert self._cast is not None
        shown = {number: stack_features(rows) for number, rows in self._shown.items()}
        fits = self._fit(shown, whole=True)
        guesses = [self._guess(k, fits, null_error) for k in range(len(self._views))]
        if judged:
            guesses = self._judge(guesses, shown, fits, null_error)
            guesses = self._compare_with_even(guesses, self._fit(shown, whole=False))
        return tuple(guesses)

    def _compare_with_even(
        self, guesses: Sequence[Proportions], fits: "_RoundFits"
    ) -> list[Proportions]:
        """The guesses, with p-values of an even mix by class numbers alone.

        These do not tell records apart, so that virtual clients, whose records the others have,
        too, err as victims do.
        """
        coarse = [self._read(victim, fits).shares for victim in range(len(guesses))]
        return [
            replace(guess, even=evenness_p_value(fit.guess, fit.others))
            for guess, fit in zip(guesses, coarse, strict=True)
        ]

    def _judge(
        self,
        guesses: Sequence[Proportions],
        shown: Mapping[int, UpdateFeatures],
        fits: "_RoundFits",
        null_error: float,
    ) -> list[Proportions]:
        """The guesses, with the errors of guesses about virtual clients in the same rounds."""
        assert self._cast is not None
        uneven, judged = ~self._cast.even, list(guesses)
        by_rounds: dict[tuple[int, ...], list[int]] = {}
        for victim in range(len(self._views)):
            by_rounds.setdefault(self._rounds_of(victim), []).append(victim)
        for mine, victims in by_rounds.items():
            reading = self._read(victims[0], fits)  # of virtual clients the same for all of them
            rare, shares = self._cast.rare[uneven], self._cast.shares[uneven]
            raw, signs = reading.shares.left_out, reading.signs
            left_out = regression.guess_left_out(raw, signs, rare, shares, null_error)
            lengths, own = self._lengths(mine, victims, shown)
            share = np.array([guesses[victim].share for victim in victims])
            even = regression.project_all(reading.shares.others)
            like = likeness_p_values(
                np.concatenate([left_out.share, even]),
                np.concatenate([lengths[uneven], lengths[~uneven]]),
                share,
                own,
            )
            for victim, p_value in zip(victims, like.tolist(), strict=True):
                errors = left_out.errors_like(guesses[victim], p_value)
                judged[victim] = replace(guesses[victim], errors=errors)
        return judged

    def _lengths(
        self, rounds: Sequence[int], victims: Sequence[int], shown: Mapping[int, UpdateFeatures]
    ) -> tuple[Float64[np.ndarray, "virtual _"], Float64[np.ndarray, "victims _"]]:
        """Logarithms of how far a step moves each tensor, of virtual clients and of victims."""
        own = []
        for number in rounds:
            places = [self._rounds[number][1].index(victim) for victim in victims]
            own += [kind[places] for kind in self._victims[number].tensors]
        theirs = [kind for number in rounds for kind in shown[number].tensors]
        return log_lengths(theirs), log_lengths(own)

    def _rounds_of(self, victim: int) -> tuple[int, ...]:
        return tuple(number for number, (_, victims) in self._rounds.items() if victim in victims)

    def _fit(self, shown: Mapping[int, UpdateFeatures], *, whole: bool) -> "_RoundFits":
        """Fit, for each round, one regression for all classes: of shares, and of presence.

        Guessed are the victims and, after them, the virtual clients with even mixes: as these
        teach nothing, no mix is favoured.

        Args:
            shown: what updates of virtual clients show in each round.
            whole: whether guesses by single tensors are among the numbers of a class.
        """
        assert self._cast is not None
        taught = ~self._cast.even
        content = self._cast.shares[taught], self._cast.presence[taught]
        shares, presence = {}, {}
        for number, rows in shown.items():
            mine, others = rows.take(taught), rows.take(~taught)
            guessed = stack_features([self._victims[number], others])
            numbers, own = mine.classes, guessed.classes
            if whole:
                tensors = regression.guess_by_tensor(mine.tensors, content[0], guessed.tensors)
                numbers = np.concatenate([numbers, tensors.left_out], axis=2)
                own = np.concatenate([own, tensors.guess], axis=2)
            shares[number], presence[number] = fit_classes(numbers, content, own)
        return _RoundFits(shares, presence)

    def _guess(self, victim: int, fits: "_RoundFits", null_error: float) -> Proportions:
        assert self._cast is not None
        reading, rare = self._read(victim, fits), self._cast.rare[~self._cast.even]
        null = regression.absent_classes(reading.sign, reading.signs, rare, null_error)
        rounds = ", ".join(map(str, self._rounds_of(victim)))
        return Proportions(
            regression.project_shares(reading.shares.guess, null),
            null,
            how=f"{len(self._cast.rows)} virtual clients, rounds {rounds}",
        )

    def _read(self, victim: int, fits: "_RoundFits") -> "_Reading":
        mine = self._rounds_of(victim)
        places = [self._rounds[number][1].index(victim) for number in mine]

        def combine(by_round: Mapping[int, RegressionFit]) -> CombinedFit:
            attacked = [len(self._rounds[n][1]) for n in mine]
            return regression.combine_fits([by_round[n] for n in mine], places, attacked)

        shares, presence = map(combine, fits)
        # shares and presence on one scale: each in its own errors, then added
        both = shares, presence
        sign = np.sum([fit.guess / fit.error**0.5 for fit in both], 0)
        signs = np.sum([fit.left_out / fit.error**0.5 for fit in both], 0)
        return _Reading(shares, sign, signs)

    def _client_workers(self, recipe: Recipe, pool: Records) -> Any:
        key = recipe, id(pool)
        if key not in self._prepared:
            private, cluster = self._private, self._cluster
            self._prepared[key] = make_client_workers(recipe, pool, private, cluster)
        return self._prepared[key]


class _RoundFits(NamedTuple):
    """Regressions, each by the number of its round."""

    shares: Mapping[int, RegressionFit]
    presence: Mapping[int, RegressionFit]


class _Reading(NamedTuple):
    """What the regressions of a victim's rounds say together, of it and of virtual clients."""

    shares: CombinedFit
    sign: Float64[np.ndarray, " classes"]
    """A score of each class at the victim, larger for classes that it holds."""
    signs: ClientShares
    """Scores at virtual clients, each by a fit without it."""
