"""ShadowStack learns from the shadow models themselves what membership looks like."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.arguments import check_arguments
from divulge.attacks.membership.shadow_stack import features
from divulge.attacks.shared.shadow_scores import (
    ShadowSignals,
    check_enough_records,
    check_folds,
    mean_over_queries,
    rank_records,
    scaled_logits,
)
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

FEWEST = 4
"""Fewest shadows: with fewer, a shadow in the target's place has too few to be compared with."""

TRAINING_ROWS = 300_000
"""Number of rows that the trees are fitted to: more would take time and add nothing."""

TARGET_REPEATS = 8
"""Number of times that the target is scored, each time with another shadow left out."""

MANY = 20_000
"""Number of rows from which on trees grow faster with several threads than with one."""

Features = Float64[np.ndarray, "rows features"]
Ranks = Int[np.ndarray, " rows"]


class _LeaveOneOutRows(NamedTuple):
    """Training data of the trees: each shadow in the target's place, on some of the records."""

    features: Features
    member: Bool[np.ndarray, " rows"]
    place: Ranks
    """Rank of the record that each row is about."""


@check_arguments
@dataclass(frozen=True, slots=True)
class ShadowStack:
    """Each shadow takes the target's place in turn; boosted trees learn to predict its members.

    For a shadow in the target's part, the features of each record come from that shadow's answer
    and from the other shadows; its label is whether that shadow was trained on it, which the
    attacker knows, having trained it. Trees fitted on all shadows' rows then read the target.
    The rows of a record never teach the trees that read this record (cross-fitting). The target
    too is shown before all shadows but one, several times, and its log odds are averaged.

    Shadows must be trained on subsets drawn independently of each other: complementary halves, or
    a design with each record in equally many, are refused.

    Args:
        folds: parts of the candidates; each is read by trees fitted on the others.

    References:
        divulge's own. The stand-in target is that of Shokri et al. (2017); features are those of
        LiRA (Carlini et al. 2022), RMIA (Zarifzadeh et al. 2024) and difficulty calibration
        (Watson et al. 2022), and a Student t ratio in place of LiRA's Gaussian one.
    """

    folds: int = 3

    name: ClassVar[str] = "shadow-stack"
    paper: ClassVar[str] = "divulge 2026"

    def __post_init__(self) -> None:
        check_folds(self.folds)

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of membership that the trees give each candidate."""
        # imported where it is used, like scikit-learn: naming an attack stays light
        from threadpoolctl import threadpool_limits

        self._check_shadows(view)
        assert view.shadows is not None
        said = scaled_logits(view)
        place = rank_records(said.blocks())
        away = sorted(rng.permutation(view.shadows.phi.shape[1])[:TARGET_REPEATS].tolist())
        lessons, turns = _leave_one_out_rows(said, place, away, self.folds)
        seed = int(rng.integers(2**31))
        score = np.empty(len(place))
        with threadpool_limits(1 if len(lessons.member) < MANY else None):
            for fold in range(self.folds):
                here = place % self.folds == fold
                trees = _fit_trees(lessons, lessons.place % self.folds != fold, seed)
                score[here] = np.mean([trees.decision_function(t[here]) for t in turns], axis=0)
        return Scores(score)

    def _check_shadows(self, view: ModelView) -> None:
        assert view.shadows is not None
        records, models = view.shadows.phi.shape
        if models < FEWEST or not view.shadows.online:
            raise NotApplicable(
                f"expected {FEWEST} or more shadows trained on random candidates, got "
                f"{models}{'' if view.shadows.online else ' trained on other records'}: "
                "train more"
            )
        check_enough_records(records, self.folds)
        trained = view.shadows.member.sum(axis=1)
        if np.ptp(trained) == 0 and records > 1:
            raise NotApplicable(
                "expected shadows trained on halves that are drawn independently of each other, "
                f"got each record in {trained[0]} of {models}: what the others were trained on "
                "then tells whom a shadow was trained on, and this is all that trees would learn"
            )


def _leave_one_out_rows(
    said: ShadowSignals, place: Ranks, away: list[int], folds: int
) -> tuple[_LeaveOneOutRows, list[Features]]:
    """Leave-one-out features of the shadows, on an equal share of the records each, and the target.

    The target's features are computed once for each shadow in ``away``, which is left out.
    """
    records, models = said.shadows.phi.shape
    step = max(1, -(-records * models // TRAINING_ROWS))
    usual = features.pooled_statistics(said.blocks())
    target = mean_over_queries(said.target)
    lessons, turns = [], []
    for block in said.blocks():
        phi, here, rows = mean_over_queries(block.phi), place[block.rows], target[block.rows]
        others = features.leave_one_out_sums(block)
        for k in range(models):
            chosen = (here // folds + k) % step == 0
            seen = features.leave_one_out_features(phi[chosen, k], others.column(k, chosen), usual)
            order = here[chosen] * models + k
            lessons.append((seen, block.member[chosen, k], here[chosen], order))
        turns.append([
            features.leave_one_out_features(rows, others.column(k, slice(None)), usual)
            for k in away
        ])  # fmt: skip
    seen, member, places_, order = map(np.concatenate, zip(*lessons, strict=True))
    order = np.argsort(order)  # whatever the order of the records, trees meet the same rows
    return (
        _LeaveOneOutRows(seen[order], member[order], places_[order]),
        [np.concatenate(turn) for turn in zip(*turns, strict=True)],
    )


def _fit_trees(lessons: _LeaveOneOutRows, chosen: np.ndarray, seed: int) -> Any:
    """Fit boosted trees to the chosen rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    x, y = lessons.features[chosen], lessons.member[chosen]
    if y.all() or not y.any():
        raise NotApplicable("expected shadows with and without the candidates, got one kind alone")
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05, max_leaf_nodes=15, min_samples_leaf=50, random_state=seed
    )
    return trees.fit(x, y)
