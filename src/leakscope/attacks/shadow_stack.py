"""ShadowStack: learn from the shadows themselves what membership looks like."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64

from leakscope.attacks import signals
from leakscope.attacks.shadow_means import Column, Mask, Matrix, in_out, log_probability
from leakscope.core import ModelView, Need, Scores
from leakscope.errors import NotApplicable, SpecError

FEWEST = 4
"""Shadows below which one that plays the target leaves too few to compare it with."""

Features = Float64[np.ndarray, "rows features"]


@dataclass(frozen=True, slots=True)
class ShadowStack:
    """Every shadow plays the target in turn; boosted trees learn to read its membership.

    For a shadow in the target's part, the features of each record come from that shadow's answer
    and from the other shadows; its label is whether that shadow was trained on it, which the
    attacker knows, having trained it. Trees fitted on all shadows' rows then read the target.
    The rows of a record never teach the trees that read this record (cross-fitting).

    Args:
        folds: parts of the candidates; each is read by trees fitted on the others.

    References:
        leakscope's own. The stand-in target is that of Shokri et al. (2017); features are those of
        LiRA (Carlini et al. 2022), RMIA (Zarifzadeh et al. 2024) and difficulty calibration
        (Watson et al. 2022).
    """

    folds: int = 3

    name: ClassVar[str] = "shadow-stack"
    paper: ClassVar[str] = "leakscope 2026"

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise SpecError(f"expected folds of 2 or more, got {self.folds}")

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of membership that the trees give each candidate."""
        assert view.shadows is not None
        phi, member = view.shadows.phi, view.shadows.member
        if phi.shape[1] < FEWEST or not view.shadows.online:
            raise NotApplicable(
                f"expected {FEWEST} or more shadows trained on random candidates, got "
                f"{phi.shape[1]}{'' if view.shadows.online else ' trained on other records'}: "
                "train more"
            )
        if phi.shape[0] < self.folds:
            raise NotApplicable(
                f"expected {self.folds} or more candidates, one a fold, got {phi.shape[0]}"
            )
        target_phi, phi = signals.tamed(signals.of_records("scaled_logit", view, view.records), phi)
        rows = [_features(phi[:, k], *_without(phi, member, k)) for k in range(phi.shape[1])]
        target = _features(target_phi, phi, member)
        seed = int(rng.integers(2**31))
        score = np.empty(len(target))
        # the fold follows from the record's own numbers, so it does not depend on their order
        fold = np.argsort(np.argsort(phi.sum(axis=1), kind="stable"), kind="stable") % self.folds
        for part in range(self.folds):
            here = fold == part
            score[here] = _read(rows, member, ~here, target[here], seed)
        return Scores(score)


def _without(
    phi: Matrix, member: Mask, k: int
) -> tuple[Float64[np.ndarray, "records others"], Bool[np.ndarray, "records others"]]:
    return np.delete(phi, k, axis=1), np.delete(member, k, axis=1)


def _features(played: Column, phi: Matrix, member: Mask) -> Features:
    """What is known of each record when one model plays the target before these shadows."""
    means = in_out(phi, member)
    log_p = log_probability(played)
    probabilities = np.exp(log_probability(phi))
    return np.column_stack([
        played,
        log_p,
        means.inside,
        means.outside,
        played - means.inside,
        played - means.outside,
        log_p - np.log(np.maximum(probabilities.mean(axis=1), signals.SMALLEST)),
    ])  # fmt: skip


def _read(
    rows: list[Features],
    member: Mask,
    teach: np.ndarray,
    target: Float64[np.ndarray, "candidates features"],
    seed: int,
) -> Float64[np.ndarray, " candidates"]:
    """Log odds by trees that were taught by these records of all shadows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    x = np.concatenate([features[teach] for features in rows])
    y = np.concatenate([member[teach, k] for k in range(len(rows))])
    if y.all() or not y.any():
        raise NotApplicable("expected shadows with and without the candidates, got one kind alone")
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05, max_leaf_nodes=15, min_samples_leaf=50, random_state=seed
    )
    return np.asarray(trees.fit(x, y).decision_function(target), dtype=np.float64)
