"""Learn from members and non-members that the attacker knows how the target answers each."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.answer_features import answer_features
from divulge.core import ModelView, Need, Records, Scores
from divulge.errors import NotApplicable
from divulge.metrics import signals

FEWEST = 50
"""Known members, and reference records, below which there is nothing to learn from."""

MOST = 10_000
"""Known members, and reference records, that are learned from: more would only take time."""

TREES, LEAF = 100, 10
"""Number of trees of the forest, and the fewest records in a leaf."""

KNOTS, PENALTY = 6, 0.003
"""Knots of the splines of the regression, and the inverse strength of its ridge penalty."""

QUANTILES = 255
"""Number of quantiles by which numbers are made uniform, before the splines."""

SURE = 0.01
"""What is added to a share of the forest's votes, so that its log odds are finite."""

Features = Float64[np.ndarray, "records features"]

LogOdds = Float64[np.ndarray, " records"]


class _Answers(NamedTuple):
    """What classifiers are given of the answers about some records."""

    signals: Features
    """As they are, and relative to the medians of the record's class among reference records."""
    log_p: Features
    """The log probability of each class."""


@check_arguments
@dataclass(frozen=True, slots=True)
class SupervisedAttack:
    """Learn from known members how the target's answers for members and others differ.

    A random forest and a logistic regression learn to distinguish known members from reference
    records; the score is the mean of their log odds. Both see all signals of an answer, as they are
    and relative to the medians of the class; the forest also sees all probabilities. Neither sees
    the class: known members may simply have other classes.

    References:
        Nasr, Shokri and Houmansadr (2019), Comprehensive privacy analysis of deep learning, whose
        supervised attacker knows some members; on answers alone, as the black-box attack of the
        Adversarial Robustness Toolbox. Departures: features and classifiers are divulge's; no
        gradients.
    """

    name: ClassVar[str] = "supervised"
    paper: ClassVar[str] = "Nasr, Shokri and Houmansadr 2019"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS | Need.REFERENCE | Need.KNOWN_MEMBERS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of each candidate's being a member, were half of all records members."""
        # imported where it is used, like scikit-learn: naming an attack stays light
        from threadpoolctl import threadpool_limits

        assert view.reference is not None
        assert view.known_members is not None
        if min(len(view.reference), len(view.known_members)) < FEWEST:
            raise NotApplicable(
                f"expected {FEWEST} or more known members, and as many reference records, got "
                f"{len(view.known_members)} and {len(view.reference)}"
            )
        known, reference = (
            records.take(np.sort(rng.permutation(len(records))[:MOST]))
            for records in (view.known_members, view.reference)
        )
        lessons, candidates = (
            _read_answers(view, records, reference)
            for records in (known.joined(reference), view.records)
        )
        member = np.arange(len(lessons.signals)) < len(known)
        seed = int(rng.integers(2**31))
        with threadpool_limits(1):
            votes = _ask_forest(lessons, member, candidates, seed)
            odds = _ask_regression(lessons, member, candidates)
        return Scores((votes + odds) / 2)


def _read_answers(view: ModelView, records: Records, reference: Records) -> _Answers:
    answers, own = answer_features(view, records), answer_features(view, reference)
    medians = np.column_stack([
        signals.class_statistics(np.median, column, reference.y, of=records.y) for column in own.T
    ])  # fmt: skip
    log_p = np.log(np.maximum(view.target.predict(records.x), signals.SMALLEST))
    return _Answers(np.column_stack([answers, answers - medians]), log_p)


def _ask_forest(
    lessons: _Answers, member: Bool[np.ndarray, " lessons"], candidates: _Answers, seed: int
) -> LogOdds:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        TREES, min_samples_leaf=LEAF, class_weight="balanced", random_state=seed
    ).fit(np.hstack(lessons), member)
    share = forest.predict_proba(np.hstack(candidates))[:, 1]
    # all trees or none would be infinitely sure
    odds: LogOdds = np.log(share + SURE) - np.log(1 - share + SURE)
    return odds


def _ask_regression(
    lessons: _Answers, member: Bool[np.ndarray, " lessons"], candidates: _Answers
) -> LogOdds:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer, SplineTransformer, StandardScaler

    columns = lessons.signals.shape[1]
    made_uniform = QuantileTransformer(
        n_quantiles=min(QUANTILES, len(member)), subsample=None
    )  # all of them, so that none is drawn
    splines = SplineTransformer(knots=np.tile(np.linspace(0, 1, KNOTS)[:, None], columns))
    ridge = LogisticRegression(C=PENALTY, max_iter=300, class_weight="balanced")
    fitted = make_pipeline(made_uniform, splines, StandardScaler(), ridge)
    odds: LogOdds = fitted.fit(lessons.signals, member).decision_function(candidates.signals)
    return odds
