"""Shadow learns what predictions on members of each class look like, whatever the record."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.arguments import check_arguments
from divulge._util.digest import digest
from divulge._util.recent import RecentResults
from divulge.attacks.shared.shadow_signals import (
    AttackTrainingSet,
    Matrix,
    ShadowSignals,
    attack_training_set,
    check_enough_records,
    check_folds,
    mean_over_queries,
    rank_records,
    scaled_logits,
)
from divulge.attacks.shared.shadow_statistics import log_probability
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

FEWEST = 200
"""Number of rows that a class needs for its own model; smaller ones share one for all classes."""

TRAINING_ROWS = 1_000_000
"""Number of rows that the attack models are fitted to, all classes together."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Shadow:
    """One attack model per class, which learns from shadow models how answers for members look.

    A logistic regression on log p_y and log(1 - p_y), the Bayes rule if p_y follows a Beta
    distribution in both groups. It does not compare a record with itself in other models. No record
    is scored by a model that was fitted to its rows.

    Args:
        folds: parts of the candidates; each is scored by models fitted to the others.

    References:
        Shokri et al. (2017), Membership inference attacks against machine learning models, section
        V. Departures: the true class's probability instead of the whole vector; logistic
        regressions instead of neural networks; classes with fewer than 200 rows share a model.
    """

    folds: int = 3

    name: ClassVar[str] = "shadow"
    paper: ClassVar[str] = "Shokri et al. 2017"

    def __post_init__(self) -> None:
        check_folds(self.folds)

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of membership that the models give each candidate."""
        del rng
        assert view.shadows is not None
        known = attack_training_set(view)
        if known is None:
            raise NotApplicable(
                "expected shadows whose members are known, got shadows trained on other records "
                "that were not asked about these: train them on random candidates"
            )
        if view.shadows.online:
            check_enough_records(len(view.records), self.folds)
        signals = scaled_logits(view)
        target = _log_probability_pair(signals.target)
        rows = _attack_rows(signals, known, self.folds)
        if not view.shadows.online:
            return Scores(_predict_log_odds(rows, target, view.records.y))
        fold = rank_records(signals.blocks()) % self.folds
        score = np.empty(len(target))
        for part in range(self.folds):
            here = fold == part
            teach = rows.take(rows.place % self.folds != part)
            score[here] = _predict_log_odds(teach, target[here], view.records.y[here])
        return Scores(score)


@dataclass(frozen=True, slots=True)
class _AttackRows:
    """Training data of the attack models, with one row for each record and shadow."""

    pair: Float64[np.ndarray, "rows 2"]
    member: Bool[np.ndarray, " rows"]
    y: Int[np.ndarray, " rows"]
    place: Int[np.ndarray, " rows"]

    def take(self, chosen: np.ndarray) -> "_AttackRows":
        return _AttackRows(
            self.pair[chosen], self.member[chosen], self.y[chosen], self.place[chosen]
        )


def _attack_rows(signals: ShadowSignals, known: AttackTrainingSet, folds: int) -> _AttackRows:
    """Collect every shadow's predictions on an equal share of the records."""
    place = rank_records(signals.blocks(known.shadows))
    records, models = known.shadows.phi.shape
    step = max(1, -(-records * models // TRAINING_ROWS))
    parts = []
    for block in signals.blocks(known.shadows):
        here, y = place[block.rows], known.y[block.rows]
        for k in range(models):
            # shadows take turns, so that each record is kept about as often as any other
            chosen = (here // folds + k) % step == 0
            pair = _log_probability_pair(tuple(phi[chosen, k] for phi in block.phi))
            order = here[chosen] * models + k
            parts.append((pair, block.member[chosen, k], y[chosen], here[chosen], order))
    pair, member, label, ranks, order = map(np.concatenate, zip(*parts, strict=True))
    # whatever the order of the records, the regressions meet the same rows
    return _AttackRows(pair, member, label, ranks).take(np.argsort(order))


def _log_probability_pair(ways: tuple[np.ndarray, ...]) -> Matrix:
    """The logarithms of p_y and 1 - p_y, each the mean over the ways of asking."""
    return np.column_stack([
        mean_over_queries([log_probability(phi) for phi in ways]),
        mean_over_queries([log_probability(-phi) for phi in ways]),
    ])  # fmt: skip


_LAST = RecentResults[dict[int, Any]](10)
"""The controls of the attack have the same shadows."""

_ALL = -1
"""Stands for all classes together."""


def _predict_log_odds(
    teach: _AttackRows, pair: Matrix, y: Int[np.ndarray, " records"]
) -> np.ndarray:
    """Log odds by the model of each record's class."""
    key = digest("classes", np.unique(y), teach.pair, teach.member, teach.y)
    models = _LAST.get(key, lambda: _fit_classifiers(teach, np.unique(y)))
    score: np.ndarray = models[_ALL].decision_function(pair)
    for label in models.keys() - {_ALL}:
        here = y == label
        score[here] = models[label].decision_function(pair[here])
    return score


def _fit_classifiers(teach: _AttackRows, labels: Int[np.ndarray, " classes"]) -> dict[int, Any]:
    """A model of all rows, and one of each of these classes that has enough."""
    models = {_ALL: _fit_classifier(teach)}
    for label in labels.tolist():
        own = teach.take(teach.y == label)
        # Shokri et al., section V: a model for each class, where a class has enough rows
        if min(own.member.sum(), (~own.member).sum()) >= FEWEST / 2:
            models[label] = _fit_classifier(own)
    return models


def _fit_classifier(teach: _AttackRows) -> Any:
    from sklearn.linear_model import LogisticRegression

    if teach.member.all() or not teach.member.any():
        raise NotApplicable("expected shadows with and without the candidates, got one kind alone")
    return LogisticRegression(solver="newton-cholesky").fit(teach.pair, teach.member)
