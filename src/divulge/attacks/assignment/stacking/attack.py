"""Stacking attacks each client with seven classifiers, and learns to combine them by collusion."""

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.arguments import check_arguments
from divulge._util.extras import name_missing_extra
from divulge.attacks.assignment.stacking.base_classifiers import (
    NAMES,
    LabelledLogits,
    fit_base_classifiers,
)
from divulge.attacks.shared import decision
from divulge.core import Assignment, FederationView, Need, Records
from divulge.errors import NotApplicable, SpecError
from divulge.metrics import signals
from divulge.targets.logits import read_logits

FOLDS = 5
"""Parts of the known records, each scored by classifiers that were fitted to the others."""

_FOLDS_OF_MANY = 3
"""Parts of many records: half the time, and no loss was seen. With 42 they seemed to find less."""

_MANY = 150
"""Relevant and external records of a client together that are many.

Three folds were measured with 42 such records and with 180 and more, with nothing between.
"""

ROUNDS = 100
"""Number of trees of the meta-classifier, and of those added for each other client."""

Protocol = Literal["crossfit", "published"]
Features = Float64[np.ndarray, "records features"]


class ColluderScores(NamedTuple):
    """Scores of the colluding client's records, beside the truth, which is known there alone."""

    score: Float64[np.ndarray, " records"]
    """Score of each record; higher means more likely a member."""
    member: Bool[np.ndarray, " records"]
    """True for the records that the colluding client trained on."""


class _ClientPredictions(NamedTuple):
    """Predictions of one client's model on all records that it is queried about."""

    answers: LabelledLogits
    """Logits and classes of the records."""
    loss: Float64[np.ndarray, " records"]
    """Cross-entropy of each record."""
    suspect: Bool[np.ndarray, " records"]
    """True for the client's relevant records."""
    external: Bool[np.ndarray, " records"]
    """True for the client's external records; other records, not suspect either, are candidates."""

    def take(self, chosen: np.ndarray) -> "_ClientPredictions":
        """The chosen records."""
        return _ClientPredictions(self.answers.take(chosen), *(part[chosen] for part in self[1:]))


@check_arguments
@dataclass(frozen=True, slots=True)
class Stacking:
    """Seven classifiers attack every client; boosted trees combine their scores.

    For each client, seven classifiers learn to distinguish its relevant records, labelled as
    members, from its external ones, by the model's logits and the true class. Their scores and the
    loss are the features of a meta-classifier (XGBoost), fitted to the colluding client's true
    membership. For each other client 100 more trees are fitted to its external records as
    non-members. A candidate is assigned to a client if its score exceeds two thresholds, else to
    nobody.

    Args:
        protocol: ``published`` scores the relevant and external records by the same classifiers
            that were fitted to them, as the published code does. Such scores reveal the set, which
            is no leak of the model: models that leak nothing look attackable. ``crossfit`` scores
            every record by classifiers fitted without it.
        percentile: percentile of a client's scores that a candidate's score must exceed.
        dominance: λ: multiple of the mean over clients that it must exceed.
        centred: whether each record's logits are centred first, as they always are if a model gives
            probabilities. The published code uses raw logits.

    References:
        nist-stacking (arXiv 2604.12737), sections 3.2 to 3.4, and its published code for what the
        paper leaves open. Departure: the support vector machine's probabilities come from folds of
        scikit-learn's.
    """

    protocol: Protocol = "crossfit"
    percentile: float = 55.0
    dominance: float = 1.5
    centred: bool = False

    name: ClassVar[str] = "stacking"
    paper: ClassVar[str] = "nist-stacking 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS | Need.REFERENCE

    def __post_init__(self) -> None:
        if not 0 <= self.percentile <= 100:
            raise SpecError(f"expected percentile from 0 to 100, got {self.percentile}")
        if self.dominance <= 0:
            raise SpecError(f"expected dominance above 0, got {self.dominance}")

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        """The client of each candidate, and the meta-classifier's scores."""
        meta = _fit_boosted_trees(
            self._features(_query_client(view, view.collusion.colluder, centred=self.centred), rng),
            _colluder_membership(view),
            seed=_draw_seed(rng),
        )
        score = np.zeros((len(view.records), len(view.targets)))
        for k in decision.clients_under_attack(view):
            predictions = _query_client(view, int(k), centred=self.centred)
            features = self._features(predictions, rng)
            nobody = np.zeros(int(predictions.external.sum()), bool)
            # section 3.2, domain adaptation: with one label no tree splits, so all log odds shift
            adapted = _fit_boosted_trees(
                features[predictions.external], nobody, seed=_draw_seed(rng), onto=meta
            )
            candidates = ~predictions.suspect & ~predictions.external
            score[:, k] = _predict_scores(adapted, features[candidates])
        return decision.decide_two_sided(
            view, score, percentile=self.percentile, dominance=self.dominance
        )

    def on_colluder(
        self, view: FederationView, rng: np.random.Generator, folds: int = FOLDS
    ) -> ColluderScores:
        """Cross-validated scores of all the colluding client's records, beside the truth.

        Every meta-classifier is fitted without the records that it scores. With ``published`` the
        classifiers below it are not; with ``crossfit`` they are, at every depth.

        Args:
            view: the federation.
            rng: divides the records and seeds all that is fitted.
            folds: number of parts that the records are divided into.
        """
        predictions = _query_client(view, view.collusion.colluder, centred=self.centred)
        truth = _colluder_membership(view)
        if self.protocol == "published":
            fold = _stratified_folds(truth, rng, folds)
            features = [self._features(predictions, rng)] * folds
        else:
            # strata by truth and set: no fold without members of either set
            fold = _stratified_folds(
                truth + 2 * predictions.suspect + 4 * predictions.external, rng, folds
            )
            features = _cross_fit_features_twice(predictions, fold, rng)
        score = np.empty(len(truth))
        for k, table in enumerate(features):
            here = fold == k
            meta = _fit_boosted_trees(table[~here], truth[~here], seed=_draw_seed(rng))
            score[here] = _predict_scores(meta, table[here])
        return ColluderScores(score, truth)

    def _features(self, predictions: _ClientPredictions, rng: np.random.Generator) -> Features:
        """The loss and seven scores of each record, in the order of the published columns."""
        if self.protocol == "crossfit":
            return _cross_fit_features(predictions, rng)
        known = predictions.suspect | predictions.external
        score = fit_base_classifiers(
            predictions.answers.take(known), predictions.suspect[known], rng
        )
        return np.column_stack([predictions.loss, score(predictions.answers)])


def _query_client(view: FederationView, k: int, *, centred: bool) -> _ClientPredictions:
    """Query a client's model once, about all records: relevant, external, candidates."""
    sets = (view.relevant[k], view.external[k], view.records)
    if min(len(view.relevant[k]), len(view.external[k])) < 2 * FOLDS:
        raise NotApplicable(
            f"expected {2 * FOLDS} or more relevant and external records of each client, got "
            f"{len(view.relevant[k])} and {len(view.external[k])} of client {k}"
        )
    kind = np.repeat([0, 1, 2], [len(records) for records in sets])
    parts = [_predict_logits(view, k, records, centred=centred) for records in sets]
    answers = LabelledLogits(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    # exp undoes the logarithm up to the constant that the loss does not depend on
    shares = np.exp(answers.logits - answers.logits.max(axis=1, keepdims=True))
    loss = -signals.compute_signal("loss", shares / shares.sum(axis=1, keepdims=True), answers.y)
    return _ClientPredictions(answers, loss, kind == 0, kind == 1)


def _predict_logits(
    view: FederationView, k: int, records: Records, *, centred: bool
) -> LabelledLogits:
    logits = read_logits(view.targets[k], records.x)
    return LabelledLogits(logits - centred * logits.mean(axis=1, keepdims=True), records.y)


def _colluder_membership(view: FederationView) -> Bool[np.ndarray, " records"]:
    """The colluding client's membership, in the order of `_query_client`."""
    known = view.collusion
    none = np.zeros(len(view.external[known.colluder]), bool)
    return np.concatenate([known.relevant, none, known.records])


def _cross_fit_features(predictions: _ClientPredictions, rng: np.random.Generator) -> Features:
    """Each relevant and external record scored by the fold that left it out; candidates by all."""
    known = predictions.suspect | predictions.external
    folds = _choose_folds(int(known.sum()))
    fold = np.where(
        known, _stratified_folds(predictions.suspect + 2 * predictions.external, rng, folds), -1
    )
    total = np.zeros((len(known), len(NAMES)))
    for k in range(folds):
        unseen = (fold == k) | ~known
        score = fit_base_classifiers(
            predictions.answers.take(~unseen), predictions.suspect[~unseen], rng
        )
        # a candidate is unseen by every fold, so each fold's score counts one part in as many
        share = np.where(known[unseen], 1.0, 1 / folds)
        total[unseen] += share[:, None] * score(predictions.answers.take(unseen))
    return np.column_stack([predictions.loss, total])


def _choose_folds(known: int) -> int:
    """The number of folds for so many relevant and external records."""
    return FOLDS if known < _MANY else _FOLDS_OF_MANY


def _cross_fit_features_twice(
    predictions: _ClientPredictions, fold: Int[np.ndarray, " records"], rng: np.random.Generator
) -> list[Features]:
    """For each fold, features of its records as if they were candidates, and of others without it.

    What is fitted without two folds serves both of them: it scores the records of either for the
    meta-classifier that is taught without the other. All that is fitted without a fold scores the
    fold itself, and the candidates, on average.
    """
    known, folds = predictions.suspect | predictions.external, int(fold.max()) + 1
    total = np.zeros((folds, len(known), len(NAMES)))
    for pair in itertools.combinations(range(folds), 2):
        lessons = known & ~np.isin(fold, pair)
        score = fit_base_classifiers(
            predictions.answers.take(lessons), predictions.suspect[lessons], rng
        )
        scores = score(predictions.answers)
        for k, other in (pair, pair[::-1]):
            total[k] += (
                np.where(known & (fold != k), fold == other, 1 / (folds - 1))[:, None] * scores
            )
    return [np.column_stack([predictions.loss, table]) for table in total]


def _stratified_folds(
    group: np.ndarray, rng: np.random.Generator, folds: int
) -> Int[np.ndarray, " records"]:
    """A fold for each record, with an even share of each group in each fold."""
    fold = np.empty(len(group), np.int64)
    for value in np.unique(group):
        rows = rng.permutation(np.flatnonzero(group == value))
        fold[rows] = np.arange(len(rows)) % folds
    return fold


def _fit_boosted_trees(
    features: Features, member: Bool[np.ndarray, " records"], *, seed: int, onto: Any = None
) -> Any:
    """XGBoost with its defaults; ``onto`` a model, it grows that many trees more."""
    with name_missing_extra():
        import xgboost

    settings = {"objective": "binary:logistic", "seed": seed, "nthread": 1}
    lessons = xgboost.DMatrix(features, member.astype(np.float64))
    return xgboost.train(settings, lessons, ROUNDS, xgb_model=onto)


def _predict_scores(model: Any, features: Features) -> Float64[np.ndarray, " records"]:
    import xgboost

    return np.asarray(model.predict(xgboost.DMatrix(features)), dtype=np.float64)


def _draw_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
