"""Small worlds of regression with a known truth: trees that memorised the members, or never did."""

from functools import cache
from typing import ClassVar

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from divulge.attacks import catalog
from divulge.core import Game, Membership, ModelView, Records, Shadows
from divulge.metrics import signals
from divulge.targets.sklearn import SklearnRegressor
from divulge.testing.membership import Models, gives_one_finite_score_a_record
from divulge.testing.properties import GameSet, Property

SIZE = 120
SHADOWS = 6


def draw(records: int, seed: int) -> Records:
    """Records of one population; the noise in the true values only memory can fit."""
    rng = np.random.default_rng([seed, 1])
    x = rng.normal(size=(records, 4))
    return Records(x, 3 * x[:, 0] + rng.normal(size=records) * (0.5 + np.abs(x[:, 1])))


def fit(trained_on: Records, seed: int) -> SklearnRegressor:
    """A tree whose answers about members are near the true values, and not these themselves."""
    tree = DecisionTreeRegressor(min_samples_leaf=2, max_features=2, random_state=seed)
    return SklearnRegressor(tree.fit(trained_on.x, trained_on.y))


@cache
def _models(seed: int) -> list[SklearnRegressor]:
    candidates = draw(2 * SIZE, seed)
    return [fit(candidates.take(half), seed + k) for k, half in enumerate(_halves(seed).T)]


def _halves(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 3]).random((2 * SIZE, SHADOWS)) < 0.5


def _phi(seed: int, records: Records) -> np.ndarray:
    columns = [signals.compute_phi(one.predict(records.x), records) for one in _models(seed)]
    return np.stack(columns, axis=1)


@cache
def game(seed: int = 0, *, trained: bool = True) -> Game[ModelView, Membership]:
    """The model was trained on the members, or on neither members nor non-members."""
    candidates, reference = draw(2 * SIZE, seed), draw(SIZE, seed + 1000)
    member = np.random.default_rng([seed, 2]).permutation(2 * SIZE) < SIZE
    training = candidates.take(member) if trained else draw(SIZE, seed + 2000)
    shadows = Shadows(_phi(seed, candidates), _halves(seed), _phi(seed, reference))
    return Game(ModelView(fit(training, seed), candidates, reference, shadows), Membership(member))


class Regressions(Models):
    """Games on regression trees that memorised the members, or never saw them."""

    honest = catalog.attack("residual")
    own: ClassVar[tuple[Property, ...]] = (gives_one_finite_score_a_record,)

    def leaky(self, seed: int = 0) -> GameSet:
        posed = game(seed)
        return GameSet((posed.view,), (posed.truth,))

    def silent(self, seed: int) -> GameSet:
        posed = game(seed, trained=False)
        return GameSet((posed.view,), (posed.truth,))
