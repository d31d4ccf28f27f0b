"""Train over-fitted models, and build the view of an attacker who knows parts of each record."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.random import stream
from divulge.core import ModelView, Need, Records, ShadowModel, Shadows, Target, Trainer
from divulge.data import partial_records
from divulge.data.known_features import KnownFeatures
from divulge.metrics import signals
from divulge.reproduce.data import load_images, load_location_30
from divulge.reproduce.table import Size
from divulge.training.recipe import Recipe

Data = Literal["fashion_mnist", "location30", "cifar10"]
Model = Literal["perceptron", "resnet", "vit"]
Phi = Float64[np.ndarray, "records models"]

_SIZE = 500  # records that each model is trained on
_SHADOWS: Mapping[Size, int] = {"small": 8, "paper": 64}
"""Number of shadow perceptrons; half as many on CIFAR-10, a quarter for other networks."""
_DELTA = 1e-4


class AuditedModel(NamedTuple):
    """Choice of the model under attack."""

    data: Data
    model: Model = "perceptron"
    epsilon: float | None = None
    """Privacy budget of training by DP-SGD at δ = 0.0001; None trains without privacy."""


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
    target: Target
    member: Bool[np.ndarray, " candidates"]

    def accuracy(self) -> float:
        """Accuracy of the target on records that it was not trained on."""
        others = self.parts.candidates.take(~self.member)
        return float((self.target.predict(others.x).argmax(axis=1) == others.y).mean())


class _ShadowPool(NamedTuple):
    """Shadow models, and which records of the pool each was trained on."""

    models: tuple[Target, ...]
    member: Bool[np.ndarray, "models pool"]


@functools.lru_cache(maxsize=4)
def train_target(seed: int, audited: AuditedModel) -> TrainedTarget:
    """Train the target on half of the candidates."""
    parts = _split_records(seed, audited.data)
    member = np.arange(2 * _SIZE) < _SIZE
    (target,) = _trainer(audited).many(parts.candidates, member[None], [seed])
    return TrainedTarget(parts, target, member)


@functools.lru_cache(maxsize=4)
def _train_shadows(seed: int, size: Size, audited: AuditedModel) -> _ShadowPool:
    dearer = 4 if audited.model != "perceptron" else 2 if audited.data == "cifar10" else 1
    count = _SHADOWS[size] // dearer
    drawn = stream(seed, "halves of the pool")
    halves = np.stack([drawn.permutation(2 * _SIZE) < _SIZE for _ in range(count)])
    pool = _split_records(seed, audited.data).pool
    models = _trainer(audited).many(pool, halves, range(1000, 1000 + count))
    return _ShadowPool(tuple(models), halves)


def attacker_view(
    seed: int, size: Size, audited: AuditedModel, known: KnownFeatures, needs: Need
) -> ModelView:
    """Build the attacker's view, without values of features that it does not know.

    Args:
        seed: seed of every random choice.
        size: size of the experiment, which sets the number of shadow models.
        audited: model under attack.
        known: known features of each record, and how the others are filled in.
        needs: needs of the attack; shadow models and reference records are left out unless
            it needs them.
    """
    there, shown = train_target(seed, audited), _hide_unknown_features(seed, audited.data, known)
    first, *others = shown.candidates
    return ModelView(
        there.target,
        first,
        shown.reference if Need.REFERENCE in needs else None,
        _query_shadows(seed, size, audited, known, needs) if Need.SHADOWS in needs else None,
        tuple(others),
        known=shown.known,
        own=there.parts.own,
    )


def white_box_shadow(
    seed: int, size: Size, audited: AuditedModel, known: KnownFeatures
) -> ShadowModel:
    """Build white-box access to the first shadow model, with records of known membership."""
    _, own, pool = _split_records(seed, audited.data)
    shown = partial_records.hide_and_impute(pool, own, None, known, (), seed + 1)
    crowd = _train_shadows(seed, size, audited)
    return ShadowModel(crowd.models[0], shown.candidates[0], crowd.member[0], shown.known)


@functools.lru_cache(maxsize=36)
def _hide_unknown_features(
    seed: int, data: Data, known: KnownFeatures
) -> partial_records.PartialRecords:
    candidates, own, _ = _split_records(seed, data)
    return partial_records.hide_and_impute(candidates, own, None, known, (), seed)


def _query_shadows(
    seed: int, size: Size, audited: AuditedModel, known: KnownFeatures, needs: Need
) -> Shadows:
    first, *further = _phi_of_candidates(seed, size, audited, known)
    models = _train_shadows(seed, size, audited).models
    own = (
        _hide_unknown_features(seed, audited.data, known).reference
        if Need.REFERENCE in needs
        else None
    )
    reference = np.empty((0, len(models))) if own is None else _phi(models, own)
    return Shadows(first, np.zeros(first.shape, np.bool_), reference, tuple(further))


@functools.lru_cache(maxsize=36)
def _phi_of_candidates(
    seed: int, size: Size, audited: AuditedModel, known: KnownFeatures
) -> tuple[Phi, ...]:
    models, shown = (
        _train_shadows(seed, size, audited).models,
        _hide_unknown_features(seed, audited.data, known),
    )
    return tuple(_phi(models, way) for way in shown.candidates)


@functools.lru_cache(maxsize=4)
def _split_records(seed: int, data: Data) -> RecordParts:
    records = _load_records(data)
    order = stream(seed, "parts").permutation(len(records))[: 6 * _SIZE]
    return RecordParts(*(records.take(part) for part in np.split(order, [2 * _SIZE, 4 * _SIZE])))


def _phi(models: tuple[Target, ...], records: Records) -> Phi:
    columns = [
        signals.compute_signal("scaled_logit", model.predict(records.x), records.y)
        for model in models
    ]
    return np.stack(columns, axis=1)


@functools.lru_cache(maxsize=2)
def _load_records(data: Data) -> Records:
    if data == "location30":
        return load_location_30()
    if data == "cifar10":
        return load_images(data, 16)
    small = load_images(data, 14)
    low, high = small.x.min(), small.x.max()
    return Records((small.x.reshape(len(small), -1) - low) / (high - low), small.y)


def _trainer(audited: AuditedModel) -> Trainer:
    from divulge.defences.training.dp_sgd.trainer import DPSGD
    from divulge.training.fleet import Fleet

    recipe = _recipe(audited)
    if audited.epsilon is None:
        return Fleet(recipe, way="one-by-one", workers=1)
    return DPSGD(recipe, _DELTA, epsilon=audited.epsilon, jobs=1)


def _recipe(audited: AuditedModel) -> Recipe:
    """Recipe that memorises the records, as far as DP-SGD allows."""
    from divulge.reproduce import networks

    data, model, epsilon = audited
    if model == "resnet":
        net = networks.resnet((8, 16, 32), 10)
        return Recipe(net, lr=0.1, momentum=0.9, epochs=25, batch_size=50, schedule="cosine")
    if model == "vit":
        return Recipe(networks.vit(16, 4, 32, 2, 10), "adam", lr=2e-3, epochs=40, batch_size=50)
    if data == "cifar10":
        net = networks.perceptron(768, 256, 10)
        return Recipe(net, "adam", lr=3e-3, epochs=100, batch_size=50)
    if data == "fashion_mnist":
        net = networks.perceptron(196, 256, 64, 10)
        return Recipe(net, "adam", lr=1e-3, epochs=150, batch_size=50)
    net = networks.perceptron(446, 128, 30)
    if epsilon is not None:
        return Recipe(net, lr=1.0, epochs=40, batch_size=100)
    return Recipe(net, lr=0.1, momentum=0.9, epochs=60, batch_size=50)
