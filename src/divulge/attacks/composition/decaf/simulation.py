"""Virtual clients are simulated in the rounds of real ones, to learn to read real updates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float64

from divulge._util.random import stream
from divulge.attacks.composition.decaf import regression
from divulge.attacks.composition.decaf.class_regression import fit_classes
from divulge.attacks.composition.decaf.regression import (
    CombinedFit,
    RegressionFit,
    RegressionInput,
)
from divulge.attacks.composition.decaf.shadow_clients import (
    ShadowClients,
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
from divulge.core import Proportions, Records, Tensors, UpdateDefence, UpdateView
from divulge.training.cluster import RayCluster
from divulge.training.recipe import RaggedRows, Recipe

if TYPE_CHECKING:
    from divulge.training.engine.remote_clients import TrainClients

T = TypeVar("T")


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
        before = 0 if self._cast is None else len(self._cast.rows)
        rng = stream(self._seed, "mixes", before)
        if near is None:
            more = draw_shadow_clients(self._pool, self._sizes, many, rng)
        else:
            more = draw_near_guesses(self._pool, self._sizes, near, many, rng)
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

    def guesses(self, null_error: float) -> tuple[Proportions, ...]:
        """Guess what the victims hold, from all virtual clients so far.

        Rounds count by the inverse of their mean squared error on virtual clients, each guessed
        by the others.

        Args:
            null_error: how often a class that is there may be declared null.
        """
        assert self._cast is not None
        shown = {number: stack_features(rows) for number, rows in self._shown.items()}
        coarse, presence = self._fit_classes(shown)
        fits = _RoundFits(self._fit_rest(shown, coarse), coarse, presence)
        return tuple(self._guess(k, fits, null_error) for k in range(len(self._views)))

    def _fit_classes(
        self, shown: Mapping[int, UpdateFeatures]
    ) -> tuple[dict[int, RegressionFit], dict[int, RegressionFit]]:
        """Fit, for each round, one regression for all classes: of shares, and of presence.

        Guessed are the victims and, after them, the virtual clients with even mixes: as these
        teach nothing, no mix is favoured.
        """
        assert self._cast is not None
        even = self._cast.even
        holds = self._cast.shares[~even], self._cast.presence[~even]
        shares, presence = {}, {}
        for number, rows in shown.items():
            guessed = np.concatenate([self._victims[number].classes, rows.classes[even]])
            shares[number], presence[number] = fit_classes(rows.classes[~even], holds, guessed)
        return shares, presence

    def _fit_rest(
        self, shown: Mapping[int, UpdateFeatures], coarse: Mapping[int, RegressionFit]
    ) -> dict[int, RegressionFit]:
        """Fit, for each round, what tensors say about class shares beyond a first estimate."""
        assert self._cast is not None
        even, fits = self._cast.even, {}
        for number, rows in shown.items():
            guessed = stack_features([self._victims[number], rows])
            others = np.append(np.ones(len(self._victims[number].classes), np.bool_), even)
            fits[number] = regression.fit_shares(
                RegressionInput(tuple(a[~even] for a in rows.tensors), coarse[number].left_out),
                self._cast.shares[~even],
                RegressionInput(tuple(a[others] for a in guessed.tensors), coarse[number].guess),
            )
        return fits

    def _guess(self, victim: int, fits: "_RoundFits", null_error: float) -> Proportions:
        assert self._cast is not None
        mine = [number for number, (_, victims) in self._rounds.items() if victim in victims]
        places = [self._rounds[number][1].index(victim) for number in mine]

        def guess(by_round: Mapping[int, RegressionFit]) -> CombinedFit:
            attacked = [len(self._rounds[n][1]) for n in mine]
            return regression.combine_fits([by_round[n] for n in mine], places, attacked)

        shares, coarse, presence = map(guess, fits)
        rare = self._cast.rare[~self._cast.even]
        # shares and presence on one scale: each in its own errors, then added
        signs = [fit.guess / fit.error**0.5 for fit in (shares, presence)]
        known = [fit.left_out / fit.error**0.5 for fit in (shares, presence)]
        null = regression.absent_classes(np.sum(signs, 0), np.sum(known, 0), rare, null_error)
        return Proportions(
            regression.project_shares(shares.guess, null),
            null,
            even=regression.evenness_p_value(coarse.guess, coarse.others),
            how=f"{len(self._cast.rows)} virtual clients, rounds {', '.join(map(str, mine))}",
        )

    def _client_workers(self, recipe: Recipe, pool: Records) -> Any:
        key = recipe, id(pool)
        if key not in self._prepared:
            self._prepared[key] = self._make_client_workers(recipe, pool)
        return self._prepared[key]

    def _make_client_workers(self, recipe: Recipe, pool: Records) -> Any:
        from divulge.training.engine.clients import ClientWorkers
        from divulge.training.engine.remote_clients import RemoteClientWorkers

        if self._cluster is not None:
            make = partial(_train_one_by_one, recipe, pool, self._private)
            return RemoteClientWorkers(self._cluster, make)
        if self._private is None:
            return ClientWorkers(recipe, pool)
        return _PrivateClientWorkers(recipe, pool, self._private)


def _train_one_by_one(
    recipe: Recipe, pool: Records, private: tuple[float, float] | None
) -> "TrainClients":
    """What trains virtual clients in one process."""
    from divulge.training.engine.clients import ClientWorkers

    if private is None:
        return ClientWorkers(recipe, pool, 1).one_by_one
    return _PrivateClientWorkers(recipe, pool, private).one_by_one


class _PrivateClientWorkers:
    """Trains as `divulge.training.ClientWorkers` does, but by DP-SGD."""

    def __init__(self, recipe: Recipe, pool: Records, private: tuple[float, float]) -> None:
        from divulge.defences.training.dp_sgd.trainer import DPSGD

        noise, norm = private
        # the promise is not asked for, so δ is of no account
        self._trainer = DPSGD(recipe, 1e-5, noise_multiplier=noise, max_grad_norm=norm, jobs=1)
        self._pool = pool

    def each(
        self,
        start: Tensors,
        rows: Sequence[RaggedRows],
        seeds: Sequence[int],
        use: Callable[[int, dict[str, np.ndarray]], T],
    ) -> list[T]:
        """What a function makes of each network's state after its training."""
        return [use(k, state) for k, state in enumerate(self.one_by_one(start, rows, seeds))]

    def one_by_one(
        self, start: Tensors, rows: Sequence[RaggedRows], seeds: Sequence[int]
    ) -> Iterator[dict[str, np.ndarray]]:
        """The state dictionary of each network after its training."""
        from divulge.training.weights import as_arrays, as_tensors

        first = as_tensors(start)
        for mine, seed in zip(rows, seeds, strict=True):
            own, every = self._pool.take(mine), np.ones((1, len(mine)), np.bool_)
            (network,) = self._trainer.networks(own, every, [seed], first)
            yield as_arrays(network.state_dict())


class _RoundFits(NamedTuple):
    """Regressions, each by the number of its round."""

    shares: Mapping[int, RegressionFit]
    """Regressions of class shares on tensors, from those on class numbers."""
    coarse: Mapping[int, RegressionFit]
    """Regressions of class shares on class numbers alone. These do not tell records apart, so
    that virtual clients, whose records the others have too, err as victims do."""
    presence: Mapping[int, RegressionFit]
    """Regressions of the presence of each class on class numbers alone."""
