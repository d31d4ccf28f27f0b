"""Measure accuracy and leakage of DAP's models by the number of records that they are trained on.

One model a seed, attacked by a threshold on its loss: what that number decides, at whole data sets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from torch import nn

from divulge._util.random import stream
from divulge.attacks import catalog as attacks
from divulge.audits.challenges.model import pose_view
from divulge.core import Membership, ModelView, Records
from divulge.metrics import utility
from divulge.targets.torch import TorchTarget
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe, Select
from divulge_papers.attempts import RowResult, attempt
from divulge_papers.data import load_images
from divulge_papers.papers.dap.data import SIDES, Data
from divulge_papers.papers.dap.networks import ClassifierNetwork
from divulge_papers.table import Size

Head = Literal["pooled", "flat"]

EPOCHS: Mapping[int, int] = {800: 120, 4800: 30, 48000: 6}
"""Most epochs by the number of records: more records need fewer."""
_LARGEST: Mapping[Size, int] = {"small": 800, "paper": 48000}
_CHANNELS = 16
"""Of the first convolution, where the paper has 64: a sixteenth of the work."""
_TEST = 10_000
"""Records that nothing is trained on, the paper's number for Fashion-MNIST."""
_HELD_OUT = 0.2


@dataclass(frozen=True, slots=True)
class _FlatNetwork:
    """Makes a network of two convolutions whose last layer reads every position."""

    channels: int
    side: int

    def __call__(self) -> nn.Module:
        layers: list[nn.Module] = []
        for inside, outside in ((self.channels, _CHANNELS), (_CHANNELS, 2 * _CHANNELS)):
            layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        positions = (self.side // 4) ** 2
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * _CHANNELS * positions, 10))


class _Draw(NamedTuple):
    """Records of one seed: a model's own, held-out ones included, before those that test it."""

    pool: Records
    own: np.ndarray
    """Whether each is the model's own."""


def measure_by_records(
    seed: int,
    size: Size,
    *,
    data: Data,
    records: int,
    select: Select = "aop",
    linear: bool = False,
    head: Head = "pooled",
) -> RowResult:
    """Measure accuracy, AUC of a threshold on the loss, and AOP(2) of one model.

    Args:
        seed: seed of every random choice: records, held-out ones, weights and batches.
        size: size of the experiment; larger numbers of records are left out of ``small``.
        data: data set.
        records: number of records that the model is trained on; a quarter as many are held out.
        select: criterion by which the epoch is chosen on the held-out records.
        linear: whether the model is a linear one.
        head: ``pooled`` for the paper's network, whose last layer reads the mean of each channel;
            ``flat`` for two convolutions, whose last layer reads every position.
    """
    if records > _LARGEST[size]:
        return RowResult({})
    pool, own = _draw(seed, data, records)
    recipe = _recipe(data, records, select, head, linear=linear)
    module = next(iter(Fleet(recipe, "one-by-one", 1).networks(pool, own[None], [seed])))
    fit, _ = recipe.split_rows(np.flatnonzero(own), seed)
    test = np.flatnonzero(~own)
    # as many of either kind at most: the AUC does not need all 48,000
    candidates = pool.take(np.concatenate([fit[: len(test)], test]))
    members = np.arange(len(candidates)) < min(len(fit), len(test))
    target = TorchTarget(module, "logits")
    challenge = pose_view(ModelView(target, candidates), Membership(members))
    entry = attempt(challenge, attacks.attack("threshold"), seed).entry
    outside = candidates.take(np.flatnonzero(~members))
    accuracy = float((target.predict(outside.x).argmax(axis=1) == outside.y).mean())
    auc = entry.finding.metrics["auc"].value
    # eq. 4, on records that chose nothing
    figures = {"accuracy": accuracy, "AUC": auc, "AOP(2)": utility.aop(accuracy, auc)}
    return RowResult({column: [value] for column, value in figures.items()}, [entry])


def _draw(seed: int, data: Data, records: int) -> _Draw:
    images = load_images(data)
    own = round(records / (1 - _HELD_OUT))
    order = stream(seed, "records").permutation(len(images))
    # the last ones test: they are the same whatever the number of records
    drawn = np.concatenate([order[:own], order[max(own, len(order) - _TEST) :]])
    return _Draw(images.take(drawn), np.arange(len(drawn)) < own)


def _recipe(data: Data, records: int, select: Select, head: Head, *, linear: bool) -> Recipe:
    channels, side = 1 if data == "fashion_mnist" else 3, SIDES[data]
    pooled = ClassifierNetwork(channels, channels * side**2, _CHANNELS, 10, linear)
    return Recipe(
        pooled if head == "pooled" else _FlatNetwork(channels, side),
        "adam",
        lr=1e-3,
        epochs=EPOCHS[records],
        batch_size=64,
        held_out=_HELD_OUT,
        select=select,
    )
