"""RMIA asks whether the target prefers a record to its population more than shadows do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.shadow_signals import (
    Column,
    Mask,
    Matrix,
    attack_training_set,
    mean_over_queries,
    rank_records,
    read_blocks,
    residuals,
    target_signals,
)
from divulge.attacks.shared.shadow_statistics import (
    PAPERS_FACTOR,
    TEMPERATURES,
    WEIGHTS,
    InOutMeans,
    expected_likelihood,
    fit_in_out_factor,
    log_probability,
    mean_log_rank,
    observed_in_out_means,
)
from divulge.core import ModelView, Need, PoolPredictions, Scores, Shadows
from divulge.errors import SpecError
from divulge.metrics import signals

MOST_FREEDOM = 100.0
"""Degrees of freedom above which Student's density is as good as Gaussian."""

Density = Literal["student", "gaussian"]

LogLikelihood = Callable[[np.ndarray], np.ndarray]

PAPERS_WEIGHT = 0.5
"""The weight of p_in in the paper: a record is as likely a member as not."""

USUAL = (2.0, 0.8)
"""Temperature and weight where shadows cannot choose: what single shadows of Location-30 and
Fashion-MNIST chose, in the mean over both."""

TURNS = 8
"""Number of shadows that take the target's place to choose temperature and weight."""

CHOSEN_ON = 4_096
"""Number of records on which temperature and weight are chosen: more would only take time."""


@check_arguments
@dataclass(frozen=True, slots=True)
class RMIA:
    """Share of reference records z that the record x beats in likelihood ratio.

    x beats z if p_target(x) / p(x) exceeds p_target(z) / p(z). p is the likelihood of the true
    class at a temperature T, 1 / (1 + exp(-φ / T)) with the scaled logit φ, and p(x) = w p_in + (1
    - w) p_out its mean over shadow models with and without x. If no shadow model was trained on x,
    and for every z, p_in is taken to be a p_out + 1 - a.

    Shadow models choose T among 1, 1.5, 2, 3 and 4, and w from 0.5 to 0.9: each of up to 8 takes
    the target's place, and the pair that ranks their members highest is taken. Nothing of the
    target is used. One shadow model, or offline ones without answers for their pool, cannot choose;
    then T is 2 and w 0.8.

    Args:
        temperature: T, above 0; 1 is the probability itself; none: chosen by the shadow models.
        weight: w, between 0 and 1; none: chosen by the shadow models. The paper has 0.5.
        a: the factor of the approximation, between 0 and 1; none: fitted to records that some
            shadow models were trained on and some were not, or else the paper's 0.3.

    References:
        Zarifzadeh, Liu and Shokri (2024), Low-cost high-power membership inference attacks, eqs. 3
        to 5 and section 3.2. Departures: records that beat the same share are ordered by their
        ratios (Lassila et al. 2025), so no gamma changes the order; T divides φ, which is kept of
        shadow models, and not each logit; the weight is divulge's; if candidates are queried in
        several ways, p is the geometric mean.
    """

    temperature: float | None = None
    weight: float | None = None
    a: float | None = None

    name: ClassVar[str] = "rmia"
    paper: ClassVar[str] = "Zarifzadeh, Liu and Shokri 2024"

    def __post_init__(self) -> None:
        if self.temperature is not None and self.temperature <= 0:
            raise SpecError(f"expected temperature above 0, got {self.temperature}")
        _check_share("weight", self.weight)
        _check_share("a", self.a)

    @property
    def needs(self) -> Need:
        """The model's probabilities, shadows, and reference records."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS | Need.REFERENCE

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The share of reference records that each candidate beats."""
        del rng
        assert view.reference is not None
        temperature, weight = choose_temperature_and_weight(view, self)
        target = _Target(
            target_signals("scaled_logit", view),
            signals.compute_for_records("scaled_logit", view, view.reference),
        )
        log_p = _at_temperature(temperature)
        return Scores(_beaten_share(view, target, log_p, weight, self.a))


@check_arguments
@dataclass(frozen=True, slots=True)
class ResidualRMIA:
    """RMIA for regression: the density of the residual replaces the probability of the class.

    p is the density of y around the prediction, in units of its peak: exp(-r² / 2s²) for Gaussian
    residuals r, (1 + r² / ds²)^(-(d + 1) / 2) for Student's. The scale s, and the degrees of
    freedom d, are fitted to the target's residuals on the reference records, by maximum likelihood
    around zero, and are used for all shadow models. The weight of p_in is 0.5.

    Args:
        a: see `RMIA`.
        density: ``student`` or ``gaussian``.

    References:
        Zarifzadeh, Liu and Shokri (2024), Low-cost high-power membership inference attacks, as for
        `RMIA`. Departure: the paper is about classifiers; the density is divulge's.
    """

    a: float | None = None
    density: Density = "student"

    name: ClassVar[str] = "residual-rmia"
    paper: ClassVar[str] = "Zarifzadeh, Liu and Shokri 2024"
    needs: ClassVar[Need] = Need.VALUES | Need.LABELS | Need.SHADOWS | Need.REFERENCE

    def __post_init__(self) -> None:
        _check_share("a", self.a)

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The share of reference records that each candidate beats."""
        del rng
        assert view.reference is not None
        own = signals.compute_residuals(view, view.reference)
        target = _Target(residuals(view, np.asarray).target, own)
        log_p = _fit_log_density(own, self.density)
        return Scores(_beaten_share(view, target, log_p, PAPERS_WEIGHT, self.a))


class _Target(NamedTuple):
    """φ under the target: scaled logits, or residuals."""

    candidates: tuple[Column, ...]
    """One column a way of asking."""
    reference: Column


def _check_share(setting: str, share: float | None) -> None:
    if not 0 <= (share or 0) <= 1:
        raise SpecError(f"expected {setting} between 0 and 1, got {share}")


def _at_temperature(temperature: float) -> LogLikelihood:
    return lambda phi: log_probability(phi / temperature)


def _fit_log_density(own: Column, density: Density) -> LogLikelihood:
    """The log density of a residual in units of its peak, no lower than a probability can be."""
    from scipy import stats

    scale = float(np.sqrt(np.mean(own**2))) or 1.0
    freedom = np.inf
    if density == "student":
        # in units of the common scale, so that the fit does not depend on the unit of y
        freedom, _, unit = stats.t.fit(own / scale, 4.0, floc=0.0, scale=0.7)
        freedom, scale = min(max(float(freedom), 1.0), MOST_FREEDOM), scale * float(unit)

    def log_p(residual: np.ndarray) -> np.ndarray:
        square = (residual / scale) ** 2
        if np.isinf(freedom):
            return np.maximum(-square / 2, np.log(signals.SMALLEST))
        return np.asarray(-(freedom + 1) / 2 * np.log1p(square / freedom))

    return log_p


def _beaten_share(
    view: ModelView, target: _Target, log_p: LogLikelihood, weight: float, factor: float | None
) -> Column:
    """The share of reference records that each candidate beats."""
    assert view.shadows is not None
    a = fit_factor(view, log_p) if factor is None else factor
    expected = expected_likelihood(_mean_likelihoods(view.shadows, log_p), weight, a)
    ratio = _ratio(mean_over_queries([log_p(phi) for phi in target.candidates]), expected)
    population = np.exp(log_p(view.shadows.reference_phi)).mean(axis=1)
    never = InOutMeans(np.full_like(population, np.nan), population)
    others = np.sort(_ratio(log_p(target.reference), expected_likelihood(never, weight, a)))
    beaten = np.searchsorted(others, ratio, side="left")  # the paper's score at gamma = 1
    within_step = 1 / (2 + np.exp(-np.clip(ratio, -30, 30)))  # rising, below one half
    share: Column = (beaten + within_step) / len(others)
    return share


def fit_factor(view: ModelView, log_p: LogLikelihood = log_probability) -> float:
    """Fit the factor a of p_in = a p_out + 1 - a to the shadows, by least squares.

    Nothing about the target is used, neither its predictions nor its members.

    Args:
        view: with shadows.
        log_p: the log likelihood from φ.
    """
    known = attack_training_set(view)
    if known is None:
        return PAPERS_FACTOR
    return fit_in_out_factor(_mean_likelihoods(known.shadows, log_p))


def _mean_likelihoods(shadows: Shadows | PoolPredictions, log_p: LogLikelihood) -> InOutMeans:
    return observed_in_out_means(
        (np.exp(mean_over_queries([log_p(phi) for phi in block.phi])), block.member)
        for block in read_blocks(shadows)
    )


def _ratio(log_target: Column, expected: Column) -> Column:
    ratio: Column = log_target - np.log(np.maximum(expected, signals.SMALLEST))
    return ratio


def choose_temperature_and_weight(view: ModelView, of: RMIA) -> tuple[float, float]:
    """The temperature and the weight, as given or as the shadows choose them."""
    temperatures = TEMPERATURES if of.temperature is None else (of.temperature,)
    weights = WEIGHTS if of.weight is None else (of.weight,)
    pairs = [(temperature, weight) for temperature in temperatures for weight in weights]
    known = attack_training_set(view)
    if len(pairs) > 1 and known is not None and known.shadows.phi.shape[1] > 1:
        online = view.shadows is not None and view.shadows.online
        gains = gains_by_shadows(known.shadows, temperatures, weights, of.a, online=online)
        if gains.any():
            return pairs[int(np.argmax(gains))]
    return of.temperature or USUAL[0], USUAL[1] if of.weight is None else of.weight


def gains_by_shadows(
    shadows: Shadows | PoolPredictions,
    temperatures: tuple[float, ...],
    weights: tuple[float, ...],
    factor: float | None,
    *,
    online: bool,
) -> Column:
    """How well each pair of a temperature and a weight tells the members of shadows."""
    ways, member = sample_records(shadows)
    gains = np.zeros((len(temperatures), len(weights)))
    for i, temperature in enumerate(temperatures):
        log_p = mean_over_queries([log_probability(phi / temperature) for phi in ways])
        p = np.exp(log_p)
        a = fit_in_out_factor(observed_in_out_means([(p, member)])) if factor is None else factor
        for k, means in _without_each(p, member, online=online):
            scored = ~np.isnan(means.outside) | ~np.isnan(means.inside)
            inside = member[scored, k]
            for j, weight in enumerate(weights):
                ratio = _ratio(log_p[:, k], expected_likelihood(means, weight, a))[scored]
                gains[i, j] += mean_log_rank(ratio[inside], ratio[~inside])
    return gains.ravel()


def sample_records(shadows: Shadows | PoolPredictions) -> tuple[tuple[Matrix, ...], Mask]:
    """φ of some records, evenly by rank, in all ways of asking, and which shadow knew them."""
    records = len(shadows.member)
    step = -(-records // CHOSEN_ON)
    chosen = np.ones(records, np.bool_)
    if step > 1:
        chosen = rank_records(read_blocks(shadows)) % step == 0
    parts = [
        (*(phi[chosen[block.rows]] for phi in block.phi), block.member[chosen[block.rows]])
        for block in read_blocks(shadows)
    ]
    *ways, member = (np.concatenate(part) for part in zip(*parts, strict=True))
    return tuple(ways), member


def _without_each(p: Matrix, member: Mask, *, online: bool) -> Iterator[tuple[int, InOutMeans]]:
    """Mean likelihoods over all shadows but one; offline over those not trained on a record."""
    for k in range(min(TURNS, p.shape[1])):
        rest = np.delete(p, k, axis=1), np.delete(member, k, axis=1)
        means = observed_in_out_means([rest])
        if not online:
            means = means._replace(inside=np.full_like(means.inside, np.nan))
        yield k, means
