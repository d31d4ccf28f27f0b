"""A classifier two-sample attack finds predictions that look unlike those on unseen records."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge._util.extras import stats
from divulge.attacks.shared.answer_features import answer_features
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable, SpecError

FEWEST = 50
"""Reference records below which trees have nothing to learn from."""

TREES, LEAVES, RATE = 50, 4, 0.05
"""Few small trees, learned slowly: one record in two or more says nothing of membership."""

BINS = 255
"""Number of bins of a feature: as many as scikit-learn's trees tell apart."""

Features = Float64[np.ndarray, "records features"]


@check_arguments
@dataclass(frozen=True, slots=True)
class TwoSample:
    """Learn to distinguish the model's answers for candidates from those for reference records.

    The attack knows no member. Some candidates are members and no reference record is, so the odds
    of being a candidate rise with the likelihood ratio of membership. Boosted trees see all signals
    of an answer and the five likeliest other classes. No record is scored by trees that were fitted
    to it.

    Args:
        folds: parts of the records, each scored by trees fitted to the others; at most one per
            candidate.

    References:
        divulge's own, after classifier two-sample tests (Lopez-Paz and Oquab 2017), and learning
        from positive and unlabelled records (Elkan and Noto 2008); here the known ones are
        negative.
    """

    folds: int = 10

    name: ClassVar[str] = "two-sample"
    paper: ClassVar[str] = "divulge 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS | Need.REFERENCE

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise SpecError(f"expected folds of 2 or more, got {self.folds}")

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of each record's being a candidate, were both sets as large."""
        # imported where it is used, like scikit-learn: naming an attack stays light
        from threadpoolctl import threadpool_limits

        assert view.reference is not None
        if len(view.reference) < max(FEWEST, self.folds) or len(view.records) < 2:
            raise NotApplicable(
                f"expected {max(FEWEST, self.folds)} or more reference records and 2 or more "
                f"candidates, got {len(view.reference)} and {len(view.records)}"
            )
        answers = np.vstack(
            [answer_features(view, records) for records in (view.records, view.reference)]
        )
        candidate = np.arange(len(answers)) < len(view.records)
        # in an order of their own, so that nothing depends on that in which they were given
        order = np.lexsort((candidate, *answers.T))
        score = np.empty(len(answers))
        with threadpool_limits(1):
            score[order] = self._cross_fit_scores(
                _bin_features(answers[order]), candidate[order], rng
            )
        return Scores(score[candidate])

    def _cross_fit_scores(
        self, answers: Features, candidate: np.ndarray, rng: np.random.Generator
    ) -> Float64[np.ndarray, " records"]:
        """Each record's log odds, by trees fitted to the folds that it is not in."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        folds = min(self.folds, int(candidate.sum()))
        fold = np.empty(len(answers), np.int64)
        for group in (candidate, ~candidate):
            fold[group] = rng.permutation(int(group.sum())) % folds
        score = np.empty(len(answers))
        for k in range(folds):
            lessons = fold != k
            known = candidate[lessons]
            # equal weight of both sets: the log odds are then a log likelihood ratio
            weight = np.where(known, (~known).sum() / known.sum(), 1.0)
            trees = HistGradientBoostingClassifier(
                max_iter=TREES,
                max_leaf_nodes=LEAVES,
                learning_rate=RATE,
                early_stopping=False,
                random_state=int(rng.integers(2**31)),
            ).fit(answers[lessons], known, sample_weight=weight)
            score[~lessons] = trees.decision_function(answers[~lessons])
        return score


def _bin_features(answers: Features) -> Features:
    """Which of `BINS` equal parts of all records each number falls in.

    Trees look at no more than that. Left to them, they would count once a fold, and slowly.
    """
    ranks = stats.rankdata(answers, axis=0)
    # mid-ranks: values that tie share a bin whatever order they are in
    binned: Features = np.floor((ranks - 0.5) * (BINS / len(answers)))
    return binned
