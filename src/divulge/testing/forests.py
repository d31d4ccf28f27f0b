"""Small worlds with a known truth: forests that memorised the members, or never saw them."""

import dataclasses
from collections.abc import Sequence
from functools import cache

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from divulge.core import Game, Membership, ModelView, Need, Records, Shadows
from divulge.metrics import signals
from divulge.metrics.softened import softened_log_probability
from divulge.targets.outputs import to_probabilities
from divulge.targets.sklearn import SklearnTarget

SIZE = 300
SHADOWS = 6
CLASSES = 3


def draw(records: int, seed: int) -> Records:
    """Records of one population; a quarter of the labels is noise that only memory can fit."""
    rng = np.random.default_rng([seed, 1])
    x = rng.normal(size=(records, 8))
    y = np.argmax(x[:, :CLASSES], axis=1)
    noisy = rng.random(records) < 0.25
    y[noisy] = rng.integers(0, CLASSES, noisy.sum())
    return Records(x, y.astype(np.int64))


class _Smooth:
    """A forest whose answers hardly ever tie."""

    def __init__(self, trained_on: Records, seed: int) -> None:
        self.forest = SklearnTarget(
            RandomForestClassifier(20, random_state=seed).fit(trained_on.x, trained_on.y)
        )

    @property
    def offers(self) -> Need:
        return self.forest.offers

    def predict(self, x: np.ndarray) -> np.ndarray:
        wiggle = 1e-4 * (1 + np.sin(1e3 * x[:, :CLASSES]))  # depends on the record alone
        p = self.forest.predict(x) + wiggle
        return to_probabilities(p / p.sum(axis=1, keepdims=True), "probabilities", len(x))


def nudged(records: Records) -> Records:
    """The same records seen otherwise: every feature a little larger."""
    return Records(records.x + 0.05, records.y)


@cache
def _models(seed: int) -> list[_Smooth]:
    """Shadows, each trained on its own random half of the candidates."""
    candidates = draw(2 * SIZE, seed)
    return [_Smooth(candidates.take(half), seed + k) for k, half in enumerate(_halves(seed).T)]


def _halves(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 3]).random((2 * SIZE, SHADOWS)) < 0.5


def _phi(seed: int, records: Records) -> np.ndarray:
    return _answers(_models(seed), records)


def _softened(models: Sequence[_Smooth], records: Records) -> np.ndarray:
    answers = (model.predict(records.x) for model in models)
    return np.stack([softened_log_probability(p, records.y) for p in answers], axis=1)


def _answers(models: Sequence[_Smooth], records: Records) -> np.ndarray:
    columns = [
        signals.compute_signal("scaled_logit", model.predict(records.x), records.y)
        for model in models
    ]
    return np.stack(columns, axis=1)


@dataclasses.dataclass(frozen=True)
class FurtherForests:
    """Trains further shadows on halves of the candidates, given who of some is a member."""

    seed: int
    shown: np.ndarray
    """Numbers of the candidates in the view, in its order."""
    ways: int = 1
    """In how many ways the candidates are asked about."""

    def __call__(self, inside: np.ndarray, outside: np.ndarray) -> Shadows:
        """See `divulge.core.ConditionalShadows`."""
        candidates, reference = draw(2 * SIZE, self.seed), draw(SIZE, self.seed + 1000)
        member = np.random.default_rng([self.seed, 4]).random((2 * SIZE, SHADOWS)) < 0.5
        member[self.shown[inside]], member[self.shown[outside]] = True, False
        models = [_Smooth(candidates.take(half), 50 + k) for k, half in enumerate(member.T)]
        ways = (candidates, nudged(candidates))[: self.ways]
        first, *others = [_answers(models, way)[self.shown] for way in ways]
        softened = tuple(_softened(models, way)[self.shown] for way in ways)
        answers = _answers(models, reference)
        return Shadows(first, member[self.shown], answers, tuple(others), softened=softened)

    def fewer(self) -> "FurtherForests":
        """Itself: forests are cheap."""
        return self


def part(view: ModelView, chosen: np.ndarray) -> ModelView:
    """The same view of some candidates, or of all in another order."""
    shadows = view.shadows and dataclasses.replace(
        view.shadows,
        phi=view.shadows.phi[chosen],
        member=view.shadows.member[chosen],
        augmented_phi=tuple(phi[chosen] for phi in view.shadows.augmented_phi),
        softened=tuple(matrix[chosen] for matrix in view.shadows.softened),
    )
    further = view.conditional
    if isinstance(further, FurtherForests):
        further = dataclasses.replace(further, shown=further.shown[chosen])
    return dataclasses.replace(
        view,
        conditional=further,
        records=view.records.take(chosen),
        augmented=tuple(records.take(chosen) for records in view.augmented),
        shadows=shadows,
        known=None if view.known is None else view.known[chosen],
        loss_trace=None if view.loss_trace is None else view.loss_trace[chosen],
    )


def two_ways(challenge: Game[ModelView, Membership], seed: int) -> Game[ModelView, Membership]:
    """The same challenge with every model asked about the candidates in a second way."""
    view = challenge.view
    assert view.shadows is not None
    other = nudged(view.records)
    softened = (*view.shadows.softened, _softened(_models(seed), other))
    shadows = dataclasses.replace(
        view.shadows, augmented_phi=(_phi(seed, other),), softened=softened
    )
    further = FurtherForests(seed, np.arange(2 * SIZE), ways=2)
    view = dataclasses.replace(view, augmented=(other,), shadows=shadows, conditional=further)
    return dataclasses.replace(challenge, view=view)


def _challenge(seed: int, *, trained: bool) -> Game[ModelView, Membership]:
    candidates, reference = draw(2 * SIZE, seed), draw(SIZE, seed + 1000)
    member = np.random.default_rng([seed, 2]).permutation(2 * SIZE) < SIZE
    training = candidates.take(member) if trained else draw(SIZE, seed + 2000)
    softened = (_softened(_models(seed), candidates),)
    phi, reference_phi = _phi(seed, candidates), _phi(seed, reference)
    shadows = Shadows(phi, _halves(seed), reference_phi, softened=softened)
    further = FurtherForests(seed, np.arange(2 * SIZE))
    model = _Smooth(training, seed)
    view = ModelView(model, candidates, reference, shadows, conditional=further)
    return Game(view, Membership(member))


@cache
def with_known_members(seed: int = 0, *, trained: bool) -> Game[ModelView, Membership]:
    """The same with members that the attacker knows, on which the model was trained in any case."""
    challenge = _challenge(seed, trained=trained)
    view, truth = challenge.view, challenge.truth
    known = draw(SIZE // 2, seed + 3000)
    training = view.records.take(truth.member) if trained else draw(SIZE, seed + 2000)
    target = _Smooth(training.joined(known), seed)
    view = dataclasses.replace(
        view, target=target, shadows=None, conditional=None, known_members=known
    )
    return Game(view, truth)


@cache
def leaky(seed: int = 0) -> Game[ModelView, Membership]:
    """The model was trained on the members."""
    return _challenge(seed, trained=True)


@cache
def silent(seed: int = 0) -> Game[ModelView, Membership]:
    """The model was trained on neither members nor non-members."""
    return _challenge(seed, trained=False)
