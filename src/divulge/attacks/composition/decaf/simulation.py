"""Virtual clients are simulated in the rounds of real ones, to learn to read real updates."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from divulge._util.random import stream
from divulge.attacks.composition.decaf import regression, shadow_clients
from divulge.attacks.composition.decaf.regression import ClientShares, FeatureKinds, RegressionFit
from divulge.attacks.composition.decaf.shadow_clients import ShadowClients, UpdateFeatures
from divulge.attacks.shared.observed_round import ObservedRound
from divulge.core import Proportions, UpdateView
from divulge.training.recipe import Recipe


class ShadowClientSimulation:
    """A simulation of virtual clients; it grows with each `add`, and trains each client once.

    Args:
        rounds: each round by number, with the positions of the victims attacked in it.
        views: one view a victim.
        seed: fixes the virtual clients.
    """

    def __init__(
        self,
        rounds: Mapping[int, tuple[ObservedRound, list[int]]],
        views: Sequence[UpdateView],
        seed: int,
    ) -> None:
        self._rounds, self._views, self._seed = rounds, views, seed
        self._reference = next(iter(rounds.values()))[0].reference
        self._sizes = sorted(
            {stage.records(views[v].victim) for stage, victims in rounds.values() for v in victims}
        )
        self._cast: ShadowClients | None = None
        self._noise: dict[int, float] = {}
        self._crews: dict[Recipe, object] = {}
        self._shown: dict[int, list[UpdateFeatures]] = {number: [] for number in rounds}
        self._victims = {
            number: shadow_clients.stack_features(
                [
                    shadow_clients.update_features(stage, stage.observe_client(views[v].victim))
                    for v in victims
                ]
            )
            for number, (stage, victims) in rounds.items()
        }

    def add(self, many: int, near: Float64[np.ndarray, "victims classes"] | None = None) -> None:
        """Train more virtual clients in every round.

        Args:
            many: the number of further clients.
            near: guesses of class shares near which their mixes are drawn; None draws all kinds.
        """
        before = 0 if self._cast is None else len(self._cast.rows)
        rng = stream(self._seed, "mixes", before)
        if near is None:
            more = shadow_clients.draw_shadow_clients(self._reference, self._sizes, many, rng)
        else:
            more = shadow_clients.draw_near_guesses(self._reference, self._sizes, near, many, rng)
        for number, (stage, victims) in self._rounds.items():
            crew = self._crew(stage)
            if number not in self._noise:
                names = [self._views[v].victim for v in victims]
                self._noise[number] = shadow_clients.estimate_noise(
                    stage, crew, more, names, self._seed % 2**31
                )
            noise = self._noise[number]
            shown = shadow_clients.simulate_round(stage, crew, more, noise, self._seed, before)
            self._shown[number].append(shown)
        self._cast = more if self._cast is None else self._cast.concatenate(more)

    def guesses(self, null_error: float) -> tuple[Proportions, ...]:
        """Guess what the victims hold, from all virtual clients so far.

        Rounds count by the inverse of their mean squared error on virtual clients, each guessed
        by the others.

        Args:
            null_error: how often a class that is there may be declared null.
        """
        assert self._cast is not None
        shown = {
            number: shadow_clients.stack_features(rows) for number, rows in self._shown.items()
        }
        fits = _RoundFits(
            self._fits(shown, self._cast.shares, whole=True),
            self._fits(shown, self._cast.shares),
            self._fits(shown, self._cast.presence),
        )
        return tuple(self._guess(k, fits, null_error) for k in range(len(self._views)))

    def _fits(
        self, shown: Mapping[int, UpdateFeatures], holds: ClientShares, *, whole: bool = False
    ) -> dict[int, RegressionFit]:
        """Fit, for each round, a regression of what virtual clients hold on their update features.

        ``whole`` uses all features, and not those of classes alone.
        """

        def select_features(one: UpdateFeatures) -> FeatureKinds:
            return one.tensors + one.classes if whole else one.classes

        return {
            number: regression.fit_shares(
                select_features(rows), holds, select_features(self._victims[number])
            )
            for number, rows in shown.items()
        }

    def _guess(self, victim: int, fits: "_RoundFits", null_error: float) -> Proportions:
        assert self._cast is not None
        mine = [number for number, (_, who) in self._rounds.items() if victim in who]
        places = [self._rounds[number][1].index(victim) for number in mine]

        def together(
            by_round: Mapping[int, RegressionFit],
        ) -> tuple[Float64[np.ndarray, " classes"], ClientShares]:
            return regression.combine_fits([by_round[n] for n in mine], places)

        null = regression.absent_classes(*together(fits.presence), self._cast.rare, null_error)
        coarse, others = together(fits.coarse)
        return Proportions(
            regression.project_shares(together(fits.shares)[0], null),
            null,
            even=regression.evenness_p_value(coarse, others[self._cast.even]),
            how=f"{len(self._cast.rows)} virtual clients, rounds {', '.join(map(str, mine))}",
        )

    def _crew(self, stage: ObservedRound) -> object:
        from divulge.training.engine.clients import Crew

        if stage.recipe not in self._crews:
            self._crews[stage.recipe] = Crew(stage.recipe, stage.reference)
        return self._crews[stage.recipe]


class _RoundFits(NamedTuple):
    """Regressions, each by the number of its round."""

    shares: Mapping[int, RegressionFit]
    """Regressions of class shares on all update features."""
    coarse: Mapping[int, RegressionFit]
    """Regressions of class shares on class features alone. These do not tell records apart, so
    that virtual clients left out err as victims do."""
    presence: Mapping[int, RegressionFit]
    """Regressions of the presence of each class on class features alone."""
