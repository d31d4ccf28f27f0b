"""PMIA compares a record with what shadows say of other records that they were trained on."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64, Real

from divulge._util.arguments import check_arguments
from divulge._util.extras import stats
from divulge.attacks.shared.shadow_signals import (
    AttackTrainingSet,
    Column,
    ShadowSignals,
    attack_training_set,
    scaled_logits,
)
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

Proxy = Literal["class", "global"]

Values = Float64[np.ndarray, " values"]
Classes = Real[np.ndarray, " _"]


@check_arguments
@dataclass(frozen=True, slots=True)
class PMIA:
    """Likelihood ratio in which other records, proxies, show what members look like.

    The log density of φ under the Gaussian of the proxies over the shadow models that were trained
    on them, less that under the Gaussian of the record itself over those that were not trained on
    it. Each Gaussian has the median and the standard deviation of its values.

    Args:
        proxy: ``class`` takes the records of the same class as proxies; ``global`` takes all.

    References:
        Du et al. (2026), Cascading and proxy membership inference attacks, and the authors' code,
        which has a third kind of proxy, the nearest images. Departures: a record on which the
        shadow models without it do not differ has the Gaussian of its class; with shadow models
        that were trained on candidates, which the paper does not have, these are the proxies.
    """

    proxy: Proxy = "class"

    name: ClassVar[str] = "pmia"
    paper: ClassVar[str] = "Du et al. 2026"

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log likelihood ratio of each candidate.

        Raises:
            NotApplicable: no shadow was asked about a record that it was trained on, or none about
                a candidate that it was not trained on.
        """
        del rng
        known = attack_training_set(view)
        if known is None:
            raise NotApplicable(
                "expected shadows asked about the records that they were trained on, got shadows "
                "asked about others alone: train shadows with divulge"
            )
        signals, y = scaled_logits(view), view.records.y
        scores = [self._score(signals, way, known, y) for way in range(len(signals.target))]
        return Scores(np.mean(scores, axis=0))

    def _score(
        self, signals: ShadowSignals, way: int, known: AttackTrainingSet, y: Classes
    ) -> Column:
        values, of = _values(signals, way, known, inside=True)
        if self.proxy == "class":
            members = _fit_by_class(values, of, y)
        else:
            members = _fit_by_class(values, np.zeros_like(of), np.zeros_like(y))
        others = _fit_each_record(signals, way, AttackTrainingSet(signals.shadows, y))
        phi = signals.target[way]
        # log of proxies' density over the record's own: members look like proxies, if anything
        ratio: Column = np.subtract(members.log_density(phi), others.log_density(phi))
        return ratio


class _Gaussians(NamedTuple):
    """A Gaussian for each candidate."""

    median: Column
    deviation: Column

    def log_density(self, phi: Column) -> Column:
        density: Column = np.asarray(stats.norm.logpdf(phi, self.median, self.deviation))
        return density


def _values(
    signals: ShadowSignals, way: int, known: AttackTrainingSet, *, inside: bool
) -> tuple[Values, Classes]:
    """φ of records over the shadows trained on them, or over the others, with their classes."""
    values, of = [], []
    for block in signals.blocks(known.shadows):
        mask = block.member == inside
        values.append(block.phi[way][mask])
        of.append(np.repeat(known.y[block.rows], mask.sum(axis=1)))
    phi = np.concatenate(values)
    if not len(phi):
        kind = "trained on" if inside else "not trained on"
        raise NotApplicable(f"expected shadows asked about records that they were {kind}, got none")
    return phi, np.concatenate(of)


def _fit_by_class(values: Values, of: Classes, wanted: Classes) -> _Gaussians:
    """The Gaussian of each candidate's class; that of all values where its own shows no spread."""
    middle, spread = _fit(values)
    everyone = (middle, spread or 1.0)
    fits = {label: _fit(values[of == label]) for label in np.unique(of)}
    table = [fits[label] if label in fits and fits[label][1] else everyone for label in wanted]
    median, deviation = np.array(table).T
    return _Gaussians(median, deviation)


def _fit(values: Values) -> tuple[float, float]:
    ordered = np.sort(values)  # the sum must not depend on the order of the records
    # the authors' code: a median, which saturated answers do not move, and a plain deviation
    return float(np.median(ordered)), float(np.std(ordered))


def _fit_each_record(signals: ShadowSignals, way: int, candidates: AttackTrainingSet) -> _Gaussians:
    """The Gaussian of each candidate over the shadows that were not trained on it."""
    usual = _fit_by_class(*_values(signals, way, candidates, inside=False), candidates.y)
    median, deviation = (column.copy() for column in usual)
    for block in signals.blocks():
        some = ~block.member.all(axis=1)
        outside = np.where(block.member, np.nan, block.phi[way])[some]
        spread = np.nanstd(outside, axis=1)
        rows = np.flatnonzero(some)[spread > 0] + block.rows.start
        median[rows] = np.nanmedian(outside[spread > 0], axis=1)
        deviation[rows] = spread[spread > 0]
    return _Gaussians(median, deviation)
