"""Quantile regression predicts how high a non-member with the same features would score."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge._util.digest import digest
from divulge._util.recent import RecentResults
from divulge.core import ModelView, Need, Records, Scores
from divulge.errors import NotApplicable, SpecError
from divulge.metrics import signals

FEWEST = 50
"""Reference records below which a regression on features says nothing."""

MANY = 20_000
"""Reference records from which on trees grow faster with several threads than with one."""

FEW = 1_500
"""Reference records below which small trees predict no worse than large ones, in a tenth of the
time: with 1,000 records the AUC was 0.02 higher on two data sets of three, with 2,000 0.01 lower on
the third."""

_SMALL = {"max_iter": 50, "max_leaf_nodes": 8, "max_bins": 63}
"""Settings of scikit-learn's boosted trees for so few records."""

FOLDS = 5
"""Parts of the reference records that are predicted in turn; all regressors predict candidates."""

FitKind = Literal["gaussian", "quantile"]


class _Pair(NamedTuple):
    """The same of the reference records and of the candidates."""

    reference: Any
    candidates: Any


class _ExpectedSignal(NamedTuple):
    """The signal expected of a non-member with each candidate's features."""

    centre: Float64[np.ndarray, " records"]
    spread: Float64[np.ndarray, " records"]


_LAST = RecentResults[_ExpectedSignal](2)
"""The controls of an attack have the same reference records, and the same answers about them."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Quantile:
    """Learn from known non-members which signal to expect of a record, and subtract it.

    Regressions by gradient-boosted trees, from features and label to the signal, are fitted to
    the reference records. They correct for easy and hard records without shadow models.

    Args:
        signal: the signal of `Threshold` that is regressed; the paper uses the scaled logit.
        fit: ``gaussian`` predicts a mean and a spread, and the score is the surplus in spreads;
            ``quantile`` predicts the quantile ``level``, and the score is the surplus in nats, for
            a false-positive rate of ``1 - level``.
        level: the quantile, between 0 and 1; used by ``fit="quantile"`` alone.
        components: records with more features are reduced to this number of principal components of
            the reference records.

    References:
        Bertran et al. (2023), Scalable membership inference attacks via quantile regression.
        Departure: trees on principal components replace the paper's neural regressor for images.
    """

    signal: signals.SignalName = "scaled_logit"
    fit: FitKind = "gaussian"
    level: float = 0.99
    components: int = 64

    name: ClassVar[str] = "quantile"
    paper: ClassVar[str] = "Bertran et al. 2023"

    def __post_init__(self) -> None:
        signals.check_name(self.signal)
        _check_fit(self.level, self.components)

    @property
    def needs(self) -> Need:
        """The model's probabilities, the candidates' features, and reference records."""
        return Need.PROBABILITIES | Need.LABELS | Need.FEATURES | Need.REFERENCE

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The surplus of each candidate's signal over what its features lead one to expect."""
        reference, candidates = _check_reference(view)
        score, known = signals.tame(
            signals.compute_for_records(self.signal, view, candidates),
            signals.compute_for_records(self.signal, view, reference),
        )
        classes = max(reference.y.max(), candidates.y.max()) + 1
        labels = (np.eye(classes)[records.y] for records in (reference, candidates))
        return Scores(_surplus(self, view, _Pair(known, score), _Pair(*labels), rng))


Given = Literal["value", "prediction"]
"""What a residual is expected by, besides features: the true value, or what the model answers."""


@check_arguments
@dataclass(frozen=True, slots=True)
class ResidualQuantile:
    """Learn from known non-members how large a residual to expect, and subtract it.

    `Quantile` for regression: the signal is minus the size of the residual. If the true value is
    unusual for its features, a non-member's residual is large, and a small one is strong evidence.

    Args:
        given: what predicts a residual besides the features: the true ``value``, or the
            ``prediction`` of the model, which gives the noise around that prediction.
        fit: ``gaussian`` or ``quantile``, see `Quantile`.
        level: the quantile; used by ``fit="quantile"`` alone.
        components: records with more features are reduced to this number of principal components of
            the reference records.

    References:
        Bertran et al. (2023), Scalable membership inference attacks via quantile regression.
        Departures: those of `Quantile`; the residual of a regression model replaces a classifier's
        score.
    """

    given: Given = "value"
    fit: FitKind = "gaussian"
    level: float = 0.99
    components: int = 64

    name: ClassVar[str] = "residual-quantile"
    paper: ClassVar[str] = "Bertran et al. 2023"
    needs: ClassVar[Need] = Need.VALUES | Need.LABELS | Need.FEATURES | Need.REFERENCE

    def __post_init__(self) -> None:
        _check_fit(self.level, self.components)

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The surplus of each candidate's signal over what one expects of a non-member."""
        groups = _Pair(*_check_reference(view))
        known, score = (-np.abs(signals.compute_residuals(view, r)) for r in groups)
        given = [
            records.y[:, None] if self.given == "value" else view.target.predict(records.x)
            for records in groups
        ]
        return Scores(_surplus(self, view, _Pair(known, score), _Pair(*given), rng))


def _check_fit(level: float, components: int) -> None:
    if not 0 < level < 1 or components < 1:
        raise SpecError(
            "expected level between 0 and 1 and components of at least 1, got "
            f"level={level} and components={components}"
        )


def _check_reference(view: ModelView) -> tuple[Records, Records]:
    """The reference records and the candidates."""
    assert view.reference is not None
    if len(view.reference) < FEWEST:
        raise NotApplicable(
            f"expected at least {FEWEST} reference records to regress on, got "
            f"{len(view.reference)}: give more records that were not in training"
        )
    return view.reference, view.records


def _surplus(
    attack: Quantile | ResidualQuantile,
    view: ModelView,
    signal: _Pair,
    given: _Pair,
    rng: np.random.Generator,
) -> Float64[np.ndarray, " records"]:
    """The surplus of each candidate's signal over what is expected of a non-member.

    Args:
        attack: how it is regressed.
        view: what the attacker sees.
        signal: of the reference records and the candidates.
        given: what is known of them besides features, in columns.
        rng: of the attack.
    """
    seed = int(rng.integers(2**31))
    reference, candidates = _check_reference(view)
    key = digest(f"{attack!r} {seed}", reference.x, candidates.x, signal.reference, *given)
    norm = _LAST.get(key, lambda: _expected_signal(attack, view, signal.reference, given, seed))
    return np.asarray((signal.candidates - norm.centre) / norm.spread)


def _expected_signal(
    attack: Quantile | ResidualQuantile,
    view: ModelView,
    known: Float64[np.ndarray, " reference"],
    given: _Pair,
    seed: int,
) -> _ExpectedSignal:
    # imported where it is used, like scikit-learn: naming an attack stays light
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1 if len(known) < MANY else None):
        features = _regression_features(view, given, attack.components, seed)
        return _predict_signal(attack, features, known, seed)


def _predict_signal(
    attack: Quantile | ResidualQuantile,
    features: _Pair,
    known: Float64[np.ndarray, " reference"],
    seed: int,
) -> _ExpectedSignal:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import KFold

    own, wanted = features
    if attack.fit == "quantile":
        regressor = HistGradientBoostingRegressor(
            loss="quantile", quantile=attack.level, random_state=seed
        )
        centre = regressor.fit(own, known).predict(wanted)
        return _ExpectedSignal(centre, np.ones(len(centre)))
    small = _SMALL if len(known) < FEW else {}
    regressor = HistGradientBoostingRegressor(random_state=seed, **small)
    # residuals of records the regressor was not fitted on, or the spread comes out too small
    residual, centre = np.empty(len(known)), np.zeros(len(wanted))
    for fitted, left_out in KFold(FOLDS).split(own):
        regressor.fit(own[fitted], known[fitted])
        residual[left_out] = known[left_out] - regressor.predict(own[left_out])
        centre += regressor.predict(wanted) / FOLDS
    pooled = float(np.std(residual)) or 1.0
    # logarithms: a spread is above zero, and errs by factors
    size = np.log(np.abs(residual) + 0.01 * pooled)
    spread = np.exp(regressor.fit(own, size).predict(wanted))
    return _ExpectedSignal(centre, np.maximum(spread, 0.01 * pooled))


def _regression_features(view: ModelView, given: _Pair, components: int, seed: int) -> _Pair:
    """Flat features, reduced where there are many, and what else is given."""
    reference, candidates = _check_reference(view)
    flat = [r.features() for r in (reference, candidates)]
    if flat[0].shape[1] > components:
        from sklearn.decomposition import PCA

        reduction = PCA(min(components, len(reference)), random_state=seed).fit(flat[0])
        flat = [reduction.transform(x) for x in flat]
    return _Pair(*(np.hstack(pair) for pair in zip(flat, given, strict=True)))
