"""Train over-fitted models, and build the view of an attacker who knows parts of each record."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.random import stream
from divulge.core import ModelView, Need, Records, ShadowModel, Shadows, Target, Trainer
from divulge.data import partial_records
from divulge.data.known_features import Fill, KnownFeatures
from divulge.metrics import membership, signals
from divulge.targets.cache import CachedTarget
from divulge.targets.torch import TorchTarget
from divulge.training.recipe import Recipe
from divulge_papers.papers.mrad.records import GRIDS, Data, load_records
from divulge_papers.table import Size

Model = Literal["perceptron", "resnet", "vit"]
Phi = Float64[np.ndarray, "records models"]

DRAWS = 16
"""Number of completions of a record where several are drawn."""

_SIZE = 500  # records that each model is trained on
_SHADOWS: Mapping[Size, Mapping[Model, int]] = {
    "small": {"perceptron": 4, "resnet": 2, "vit": 2},
    "paper": {"perceptron": 32, "resnet": 4, "vit": 16},
}
"""Number of shadow models of a network; of perceptrons twice as many but on CIFAR-10."""
_DELTA = 1e-4
FILLS: tuple[Fill, ...] = ("zero", "global-mean", "mean", "neighbours", "gaussian")
"""Fills among which shadow models choose; on CIFAR-10 without the last, which takes too long."""


class AuditedModel(NamedTuple):
    """Choice of the model under attack."""

    data: Data
    model: Model = "perceptron"
    size: Size = "small"
    """Size of the experiment: of images, of the residual network, and number of shadows."""
    standardised: bool = False
    """Whether each channel of images, or else each feature, has mean 0 and deviation 1; otherwise
    inputs are from 0 to 1."""
    epsilon: float | None = None
    """Privacy budget of training by DP-SGD at δ = 0.0001; None trains without privacy."""

    @property
    def fills(self) -> tuple[Fill, ...]:
        """Fills among which its shadows choose."""
        return FILLS[:-1] if self.data == "cifar10" else FILLS


class RecordParts(NamedTuple):
    """Records by role, with all their features."""

    candidates: Records
    own: Records
    """Records that the attacker knows with all features, to fill in others and to calibrate."""
    pool: Records
    """Records that the shadow models are trained on."""


@dataclass(frozen=True, slots=True)
class TrainedTarget:
    """One target model, and which candidates it was trained on."""

    parts: RecordParts
    model: Target
    """The model itself."""
    target: Target
    """The model as attacks query it: they and their controls often ask about the same records."""
    member: Bool[np.ndarray, " candidates"]

    def accuracy(self) -> float:
        """Accuracy of the target on records that it was not trained on."""
        return self._accuracy_on(~self.member)

    def training_accuracy(self) -> float:
        """Accuracy of the target on the records that it was trained on."""
        return self._accuracy_on(self.member)

    def _accuracy_on(self, rows: Bool[np.ndarray, " candidates"]) -> float:
        some = self.parts.candidates.take(rows)
        return float((self.target.predict(some.x).argmax(axis=1) == some.y).mean())


class _ShadowPool(NamedTuple):
    """Shadow models, and which records of the pool each was trained on."""

    models: tuple[Target, ...]
    member: Bool[np.ndarray, "models pool"]


# Rows take all seeds in turn, so that caches with fewer entries than seeds train models anew for
# each row. Targets of both kinds of input fit in; the shadows, many a seed, of one kind alone.
@functools.lru_cache(maxsize=12)
def train_target(seed: int, audited: AuditedModel) -> TrainedTarget:
    """Train the target on half of the candidates."""
    parts = _split_records(seed, audited)
    member = np.arange(2 * _SIZE) < _SIZE
    (target,) = _trainer(audited).many(parts.candidates, member[None], [seed])
    return TrainedTarget(parts, target, CachedTarget(target), member)


@functools.lru_cache(maxsize=6)
def _train_shadows(seed: int, audited: AuditedModel) -> _ShadowPool:
    count = _SHADOWS[audited.size][audited.model]
    if audited.model == "perceptron" and audited.data != "cifar10":
        count *= 2
    drawn = stream(seed, "halves of the pool")
    halves = np.stack([drawn.permutation(2 * _SIZE) < _SIZE for _ in range(count)])
    pool = _split_records(seed, audited).pool
    models = _trainer(audited).many(pool, halves, range(1000, 1000 + count))
    return _ShadowPool(tuple(map(CachedTarget, models)), halves)


def attacker_view(
    seed: int, audited: AuditedModel, known: KnownFeatures, needs: Need, shadows: int | None = None
) -> ModelView:
    """Build the attacker's view, without values of features that it does not know.

    Args:
        seed: seed of every random choice.
        audited: model under attack.
        known: known features of each record, and how the others are filled in.
        needs: needs of the attack, without which it gets no shadow models or reference records.
        shadows: number of shadow models that the attacker has; all, unless given.
    """
    there, shown = train_target(seed, audited), _hide_unknown_features(seed, audited, known)
    first, *others = shown.candidates
    return ModelView(
        there.target,
        first,
        shown.reference if Need.REFERENCE in needs else None,
        _query_shadows(seed, audited, known, needs, shadows) if Need.SHADOWS in needs else None,
        tuple(others),
        known=shown.known,
        own=there.parts.own,
    )


def white_box_shadow(seed: int, audited: AuditedModel, known: KnownFeatures) -> ShadowModel:
    """Build white-box access to the first shadow model, with records of known membership."""
    shown, crowd = _hide_pool_features(seed, audited, known), _train_shadows(seed, audited)
    return ShadowModel(crowd.models[0], shown.candidates[0], crowd.member[0], shown.known)


@functools.lru_cache(maxsize=8)
def rebuild(seed: int, audited: AuditedModel, known: KnownFeatures, rate: float) -> Records:
    """Rebuild the candidates' unknown features by matching the target's gradients.

    Args:
        seed: seed of every random choice.
        audited: model under attack.
        known: known features of each record, and how the others are filled in first.
        rate: rate of the descent.
    """
    from divulge_papers.papers.mrad.dlg import match_gradients

    shown = _hide_unknown_features(seed, audited, known)
    model = train_target(seed, audited).model
    assert isinstance(model, TorchTarget)
    return match_gradients(model.module, shown.candidates[0], shown.known, rate)


@functools.lru_cache(maxsize=8)
def choose_fill(
    seed: int, audited: AuditedModel, known: KnownFeatures, *, near: bool = False
) -> KnownFeatures:
    """Choose the fill by which calibrated scores tell a shadow's members best, on average.

    Every shadow is attacked in turn, on the pool, with those of the others that were not trained
    on a record: nothing about the target is used.

    Args:
        seed: seed of every random choice.
        audited: model under attack.
        known: known features of each record; how they are filled in does not matter.
        near: whether ``local`` is among the fills, with one completion and with `DRAWS`.
    """
    fills = [replace(known, fill=fill, completions=1) for fill in audited.fills]
    if near:
        fills += [replace(known, fill="local", completions=count) for count in (1, DRAWS)]
    return max(fills, key=lambda fill: _rehearse(seed, audited, fill))


def _rehearse(seed: int, audited: AuditedModel, known: KnownFeatures) -> float:
    """Mean AUC of calibrated scores over shadows."""
    crowd = _train_shadows(seed, audited)
    ways = _hide_pool_features(seed, audited, known).candidates
    phi = np.mean([_phi(crowd.models, way) for way in ways], axis=0)
    outside = np.where(crowd.member.T, np.nan, phi)
    aucs = []
    for k, member in enumerate(crowd.member):
        others = np.delete(outside, k, axis=1)
        some = ~np.isnan(others).all(axis=1)
        score = phi[some, k] - np.nanmean(others[some], axis=1)
        aucs.append(membership.auc(score, member[some]).value)
    return float(np.mean(aucs))


@functools.lru_cache(maxsize=36)
def _hide_unknown_features(
    seed: int, audited: AuditedModel, known: KnownFeatures
) -> partial_records.PartialRecords:
    candidates, own, _ = _split_records(seed, audited)
    known = replace(known, grid=GRIDS.get((audited.data, audited.size), ()))
    return partial_records.hide_and_impute(candidates, own, None, known, (), seed)


@functools.lru_cache(maxsize=8)
def _hide_pool_features(
    seed: int, audited: AuditedModel, known: KnownFeatures
) -> partial_records.PartialRecords:
    _, own, pool = _split_records(seed, audited)
    known = replace(known, grid=GRIDS.get((audited.data, audited.size), ()))
    return partial_records.hide_and_impute(pool, own, None, known, (), seed + 1)


def _query_shadows(
    seed: int, audited: AuditedModel, known: KnownFeatures, needs: Need, count: int | None
) -> Shadows:
    first, *further = (phi[:, :count] for phi in _phi_of_candidates(seed, audited, known))
    models = _train_shadows(seed, audited).models[:count]
    own = (
        _hide_unknown_features(seed, audited, known).reference if Need.REFERENCE in needs else None
    )
    reference = np.empty((0, len(models))) if own is None else _phi(models, own)
    return Shadows(first, np.zeros(first.shape, np.bool_), reference, tuple(further))


@functools.lru_cache(maxsize=36)
def _phi_of_candidates(seed: int, audited: AuditedModel, known: KnownFeatures) -> tuple[Phi, ...]:
    models = _train_shadows(seed, audited).models
    shown = _hide_unknown_features(seed, audited, known)
    return tuple(_phi(models, way) for way in shown.candidates)


@functools.lru_cache(maxsize=4)
def _split_records(seed: int, audited: AuditedModel) -> RecordParts:
    records = load_records(audited.data, audited.size, audited.standardised)
    order = stream(seed, "parts").permutation(len(records))[: 6 * _SIZE]
    return RecordParts(*(records.take(part) for part in np.split(order, [2 * _SIZE, 4 * _SIZE])))


def _phi(models: tuple[Target, ...], records: Records) -> Phi:
    columns = [
        signals.compute_signal("scaled_logit", model.predict(records.x), records.y)
        for model in models
    ]
    return np.stack(columns, axis=1)


def _trainer(audited: AuditedModel) -> Trainer:
    from divulge.defences.training.dp_sgd.trainer import DPSGD
    from divulge.training.fleet import Fleet

    recipe = _recipe(audited)
    if audited.epsilon is None:
        return Fleet(recipe, way="one-by-one", workers=1)
    return DPSGD(recipe, _DELTA, epsilon=audited.epsilon, jobs=1)


def _recipe(audited: AuditedModel) -> Recipe:
    """Recipe that memorises the records, as far as DP-SGD allows."""
    from divulge_papers import networks

    data, model, size, _, epsilon = audited
    paper = size == "paper"
    if model == "resnet":
        net = networks.resnet18(10) if paper else networks.resnet((8, 16, 32), 10)
        # at 0.1 a ResNet18's loss is twice that of guessing after an epoch, and 225 steps are left
        rate = 0.01 if paper else 0.1
        return Recipe(net, lr=rate, momentum=0.9, epochs=25, batch_size=50, schedule="cosine")
    if model == "vit":
        side = 32 if paper else 16
        return Recipe(networks.vit(side, 4, 32, 2, 10), "adam", lr=2e-3, epochs=40, batch_size=50)
    if data == "cifar10":
        net = networks.perceptron(3072 if paper else 768, 256, 10)
        return Recipe(net, "adam", lr=3e-3, epochs=100, batch_size=50)
    if data == "fashion_mnist":
        net = networks.perceptron(784 if paper else 196, 256, 64, 10)
        return Recipe(net, "adam", lr=1e-3, epochs=150, batch_size=50)
    sides = (600, 100) if data == "retail100" else (446, 30)
    net = networks.perceptron(sides[0], 128, sides[1])
    if epsilon is not None:
        return Recipe(net, lr=1.0, epochs=40, batch_size=100)
    return Recipe(net, lr=0.1, momentum=0.9, epochs=60, batch_size=50)
