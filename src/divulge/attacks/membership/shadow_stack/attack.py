"""ShadowStack learns from the shadow models themselves what membership looks like.

A shadow in the target's place is compared with one shadow fewer than the target could be. So the
target is compared with all shadows but one too, up to eight times with another one left out, and
its log odds are averaged. Offline, rows are about the records that the shadows were trained on; a
record is compared with those shadows alone that were not trained on it, about half of them, as a
candidate is, and the target with a random half. With four complementary shadows the AUC was 0.71,
with four independent ones 0.85, so the former are refused.

A single online shadow and the target are compared with each other. Neither's members count in what
is said of the other, so a rule that is learned from the shadow's members holds for the target's.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge._util.digest import digest
from divulge._util.recent import RecentResults
from divulge.attacks.membership.shadow_stack import networks
from divulge.attacks.membership.shadow_stack.mix import Surprise, choose_ratio, networks_share
from divulge.attacks.membership.shadow_stack.rows import (
    LeaveOneOutRows,
    compare_models,
    compare_pair,
)
from divulge.attacks.shared.shadow_signals import (
    AttackTrainingSet,
    attack_training_set,
    check_enough_records,
    check_folds,
    rank_records,
    scaled_logits,
)
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

FEWEST_OFFLINE = 2
"""Fewest shadows offline: online a single one is compared with the target, which offline was asked
about none of the records that the shadow was trained on."""

NETWORKS = 2
"""Number of networks that learn from the same rows, and of which the log odds are averaged."""

FARTHEST = 8.0
"""Features further from their mean, in standard deviations, count as being so far."""

_LAST = RecentResults[networks.Networks]()
"""The controls of the attack have the same shadows."""

Features = Float64[np.ndarray, "rows features"]
Column = Float64[np.ndarray, " rows"]


@check_arguments
@dataclass(frozen=True, slots=True)
class ShadowStack:
    """Each shadow model takes the target's place; small networks learn to predict its members.

    For a model in the target's place, 16 features of a record come from its answer and from the
    other shadow models; eleven of them also less what all records of the class share in this model.
    Two networks learn from all shadow models' rows whether a record was trained on. No record is
    scored by networks that were fitted to its rows. A single online shadow model and the target
    are compared with each other.

    If rows are few or show little, networks learn noise. So the score mixes their log odds with
    `RMIA`'s ratio, each as minus the log of the share of the shadow models' rows above it; a
    logistic regression on the shadow models' members chooses the mix.

    Shadow models must be trained on subsets drawn independently: complementary halves reveal each
    other's members, and are refused.

    Args:
        folds: parts of the candidates; each is scored by networks fitted to the others.

    References:
        divulge's own. That a shadow model takes the target's place is from Shokri et al. (2017);
        features are those of LiRA, RMIA at three temperatures and two weights, and a Student t
        ratio.
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
        """Minus the log of the share of shadows' rows that stand higher, by networks and RMIA."""
        assert view.shadows is not None
        signals = scaled_logits(view)
        known = attack_training_set(view)
        self._check_shadows(known, online=view.shadows.online)
        assert known is not None
        if view.shadows.phi.shape[1] == 1:
            lessons, turns, ratios = compare_pair(signals, view.records.y, self.folds)
        else:
            lessons, turns, ratios = compare_models(signals, known, view.records.y, self.folds, rng)
        odds = _read(lessons, turns, self.folds, rng)
        read = odds.target.mean(axis=0)
        if view.shadows.online:
            place = rank_records(signals.blocks())
            read = odds.target[place % self.folds, np.arange(len(place))]
        best = choose_ratio(lessons)
        scales = Surprise.of(odds.rows), Surprise.of(lessons.ratios[:, best])
        share = networks_share(
            scales[0](odds.rows), scales[1](lessons.ratios[:, best]), lessons.member
        )
        return Scores(share * scales[0](read) + (1 - share) * scales[1](ratios[:, best]))

    def _check_shadows(self, known: AttackTrainingSet | None, *, online: bool) -> None:
        if known is None:
            raise NotApplicable(
                "expected shadows trained on random candidates, or asked about the records that "
                "they were trained on, got neither: train shadows with divulge"
            )
        records, models = known.shadows.phi.shape
        if models < FEWEST_OFFLINE and not online:
            raise NotApplicable(
                f"expected {FEWEST_OFFLINE} or more offline shadows, got {models}: train more, or "
                "train them on random candidates"
            )
        check_enough_records(records, self.folds)
        trained = known.shadows.member.sum(axis=1)
        if np.ptp(trained) == 0 and records > 1:
            raise NotApplicable(
                "expected shadows trained on halves that are drawn independently of each other, "
                f"got each record in {trained[0]} of {models}: what the others were trained on "
                "then tells whom a shadow was trained on, and only this would be learned"
            )


class _Odds(NamedTuple):
    """The log odds of membership that networks give."""

    rows: Column
    """Of each row, by networks that other records' rows taught."""
    target: Float64[np.ndarray, "folds records"]
    """Of each candidate, by the networks that the rows outside each fold taught."""


def _read(
    lessons: LeaveOneOutRows, turns: list[Features], folds: int, rng: np.random.Generator
) -> _Odds:
    """Train networks without each fold, and let them read it, and the target."""
    from threadpoolctl import threadpool_limits

    member, fold = lessons.member, lessons.place % folds
    parts = [np.flatnonzero(fold != of) for of in range(folds)]
    if any(member[part].all() or not member[part].any() for part in parts):
        raise NotApplicable("expected shadows with and without the candidates, got one kind alone")
    usual = lessons.features.mean(axis=0)
    spread = np.array([column.std() for column in lessons.features.T])  # all at once: two copies

    def scale(rows: Features) -> Features:
        # in place: nothing else reads them
        rows -= usual
        rows /= np.where(spread, spread, 1.0)
        # networks extrapolate badly: features far out count as FARTHEST
        return np.clip(rows, -FARTHEST, FARTHEST, out=rows)

    scaled, scaled_turns = scale(lessons.features), [scale(turn) for turn in turns]
    key = digest(f"{rng.bit_generator.state}", scaled, member, *parts)
    with threadpool_limits(1):  # matrices so small only wait for each other
        trained = _LAST.get(key, lambda: networks.train(scaled, member, parts * NETWORKS, rng))

    def read(of: int, rows: Features) -> Column:
        odds = [trained.log_odds(of + folds * copy, rows) for copy in range(NETWORKS)]
        return np.asarray(np.mean(odds, axis=0, dtype=np.float64))

    own = np.empty(len(member))
    for of in range(folds):
        # each row by networks that its record did not teach, or the mix would trust them too much
        own[fold == of] = read(of, scaled[fold == of])
    target = [np.mean([read(of, rows) for rows in scaled_turns], axis=0) for of in range(folds)]
    return _Odds(own, np.array(target))
