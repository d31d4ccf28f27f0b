"""ShadowStack learns from the shadow models themselves what membership looks like.

A shadow in the target's place is compared with one shadow fewer than the target could be. So the
target is compared with all shadows but one too, up to eight times with another one left out, and
its log odds are averaged. Offline, rows are about the records that the shadows were trained on; a
record is compared with those shadows alone that were not trained on it, about half of them, as a
candidate is, and the target with a random half. With four complementary shadows the AUC was 0.71,
with four independent ones 0.85, so the former are refused.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy.special import expit

from divulge._util.arguments import check_arguments
from divulge._util.digest import digest
from divulge._util.recent import RecentResults
from divulge.attacks.membership.shadow_stack import features, networks
from divulge.attacks.shared.shadow_scores import (
    AttackTrainingSet,
    ShadowSignals,
    attack_training_set,
    check_enough_records,
    check_folds,
    mean_log_rank,
    mean_over_queries,
    rank_records,
    scaled_logits,
)
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

FEWEST = 2
"""Fewest shadows: a single one in the target's place has no other to be compared with."""

TRAINING_ROWS = 300_000
"""Number of rows that are learned from: more would take time and add nothing."""

TARGET_REPEATS = 8
"""Number of times that the target is scored, each time with another shadow left out."""

CHOOSING = 8
"""Number of shadows that choose RMIA's temperature and weight."""

NETWORKS = 2
"""Number of networks that learn from the same rows, and of which the log odds are averaged."""

FARTHEST = 8.0
"""Features further from their mean, in standard deviations, count as being so far."""

TAIL = 0.01
"""Share of the rows that tell how surprise rises beyond the highest of them."""

STEPS = 25
"""Most steps of the fit of two weights: it ends when they no longer move."""

_LAST = RecentResults[networks.Networks]()
"""The controls of the attack have the same shadows."""

Features = Float64[np.ndarray, "rows features"]
Ranks = Int[np.ndarray, " rows"]
Column = Float64[np.ndarray, " rows"]


class _LeaveOneOutRows(NamedTuple):
    """What is learned from: each shadow in the target's place, on some of the records."""

    features: Features
    ratios: Features
    member: Bool[np.ndarray, " rows"]
    place: Ranks
    """Rank of the record that each row is about."""
    shadow: Ranks
    """Number of the shadow in the target's place."""

    def take(self, rows: np.ndarray) -> "_LeaveOneOutRows":
        """Some of the rows, or all in another order."""
        return _LeaveOneOutRows(*(column[rows] for column in self))


@check_arguments
@dataclass(frozen=True, slots=True)
class ShadowStack:
    """Each shadow model takes the target's place; small networks learn to predict its members.

    For a model in the target's place, 16 features of a record come from its answer and from the
    other shadow models; eleven of them also less what all records of the class share in this model.
    Two networks learn from all shadow models' rows whether a record was trained on. No record is
    scored by networks that were fitted to its rows.

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
        said = scaled_logits(view)
        known = attack_training_set(view)
        self._check_shadows(known)
        assert known is not None
        usual = features.pooled_statistics(said.blocks(known.shadows))
        lessons = _leave_one_out_rows(said, known, usual, self.folds)
        turns = _target_in_turn(said, view.records.y, usual, rng)
        odds = _read(lessons, turns, self.folds, rng)
        read = odds.target.mean(axis=0)
        if view.shadows.online:
            place = rank_records(said.blocks())
            read = odds.target[place % self.folds, np.arange(len(place))]
        best = _choose_ratio(lessons)
        ratio = _ratios_by_all_shadows(said, usual)[:, best]
        scales = _Surprise.of(odds.rows), _Surprise.of(lessons.ratios[:, best])
        share = _networks_share(
            scales[0](odds.rows), scales[1](lessons.ratios[:, best]), lessons.member
        )
        return Scores(share * scales[0](read) + (1 - share) * scales[1](ratio))

    def _check_shadows(self, known: AttackTrainingSet | None) -> None:
        if known is None:
            raise NotApplicable(
                "expected shadows trained on random candidates, or asked about the records that "
                "they were trained on, got neither: train shadows with divulge"
            )
        records, models = known.shadows.phi.shape
        if models < FEWEST:
            raise NotApplicable(f"expected {FEWEST} or more shadows, got {models}: train more")
        check_enough_records(records, self.folds)
        trained = known.shadows.member.sum(axis=1)
        if np.ptp(trained) == 0 and records > 1:
            raise NotApplicable(
                "expected shadows trained on halves that are drawn independently of each other, "
                f"got each record in {trained[0]} of {models}: what the others were trained on "
                "then tells whom a shadow was trained on, and only this would be learned"
            )


def _leave_one_out_rows(
    said: ShadowSignals,
    known: AttackTrainingSet,
    usual: features.PooledStatistics,
    folds: int,
) -> _LeaveOneOutRows:
    """Leave-one-out features of each shadow, on an equal share of the records that it knows."""
    place = rank_records(said.blocks(known.shadows))
    records, models = known.shadows.phi.shape
    step = max(1, -(-records * models // TRAINING_ROWS))
    parts: list[list[tuple[np.ndarray, ...]]] = [[] for _ in range(models)]
    for block in said.blocks(known.shadows):
        phi, here, y = mean_over_queries(block.phi), place[block.rows], known.y[block.rows]
        others = features.leave_one_out_sums(block, inside=said.shadows.online)
        for k in range(models):
            chosen = ((here // folds + k) % step == 0) & others.known(k)
            seen = features.leave_one_out_features(phi[chosen, k], others.column(k, chosen), usual)
            parts[k].append((*seen, block.member[chosen, k], here[chosen], y[chosen]))
    shadows = []
    for k, own in enumerate(parts):
        learned, ratios, member, here, y = map(np.concatenate, zip(*own, strict=True))
        shifted = features.add_class_shifts(learned, y, here)
        shadows.append((shifted, ratios, member, here, np.full(len(here), k)))
    rows = _LeaveOneOutRows(*map(np.concatenate, zip(*shadows, strict=True)))
    # whatever the order of the records, the networks meet the same rows
    return rows.take(np.argsort(rows.place * models + rows.shadow))


def _target_in_turn(
    said: ShadowSignals,
    y: Int[np.ndarray, " records"],
    usual: features.PooledStatistics,
    rng: np.random.Generator,
) -> list[Features]:
    """Features of the target beside all shadows but one, a few times.

    Offline, a shadow is compared with those of the others alone that did not know a record: about
    half. So the target, too, is compared with a random half of them.
    """
    target, place = mean_over_queries(said.target), rank_records(said.blocks())
    records, models = said.shadows.phi.shape
    away = sorted(rng.permutation(models)[:TARGET_REPEATS].tolist())
    choices = [np.arange(models) != k for k in away]
    if not said.shadows.online:
        choices = [_random_half(others, records, rng)[place] for others in choices]
    parts = []
    for block in said.blocks():
        here = [chosen if said.shadows.online else chosen[block.rows] for chosen in choices]
        others = features.sums_over(block, here)
        parts.append([
            features.leave_one_out_features(
                target[block.rows], others.column(turn, slice(None)), usual
            ).learned
            for turn in range(len(choices))
        ])  # fmt: skip
    turns = (np.concatenate(turn) for turn in zip(*parts, strict=True))
    return [features.add_class_shifts(turn, y, place) for turn in turns]


def _ratios_by_all_shadows(said: ShadowSignals, usual: features.PooledStatistics) -> Features:
    """RMIA's ratios of the target beside all shadows."""
    target, everyone = mean_over_queries(said.target), np.ones(said.shadows.phi.shape[1], np.bool_)
    return np.concatenate([
        features.likelihood_ratios(
            target[block.rows],
            features.sums_over(block, [everyone]).column(0, slice(None)),
            usual,
        )
        for block in said.blocks()
    ])  # fmt: skip


def _random_half(
    shadows: Bool[np.ndarray, " models"], records: int, rng: np.random.Generator
) -> Bool[np.ndarray, "records models"]:
    """For each record a random half of these shadows, and at least one of them."""
    half = shadows & (rng.random((records, len(shadows))) < 0.5)
    one = rng.choice(np.flatnonzero(shadows), size=records)
    half[np.arange(records), one] |= ~half.any(axis=1)
    return half


class _Odds(NamedTuple):
    """The log odds of membership that networks give."""

    rows: Column
    """Of each row, by networks that other records' rows taught."""
    target: Float64[np.ndarray, "folds records"]
    """Of each candidate, by the networks that the rows outside each fold taught."""


def _read(
    lessons: _LeaveOneOutRows, turns: list[Features], folds: int, rng: np.random.Generator
) -> _Odds:
    """Train networks without each fold, and let them read it, and the target."""
    from threadpoolctl import threadpool_limits

    member, fold = lessons.member, lessons.place % folds
    parts = [np.flatnonzero(fold != of) for of in range(folds)]
    if any(member[part].all() or not member[part].any() for part in parts):
        raise NotApplicable("expected shadows with and without the candidates, got one kind alone")
    usual, spread = lessons.features.mean(axis=0), lessons.features.std(axis=0)

    def scale(rows: Features) -> Features:
        near: Features = np.clip(
            (rows - usual) / np.where(spread, spread, 1.0), -FARTHEST, FARTHEST
        )
        return near

    scaled, seen = scale(lessons.features), [scale(turn) for turn in turns]
    key = digest(f"{rng.bit_generator.state}", scaled, member, *parts)
    with threadpool_limits(1):  # matrices so small only wait for each other
        trained = _LAST.get(key, lambda: networks.train(scaled, member, parts * NETWORKS, rng))

    def read(of: int, rows: Features) -> Column:
        odds = [trained.log_odds(of + folds * copy, rows) for copy in range(NETWORKS)]
        return np.asarray(np.mean(odds, axis=0))

    own = np.empty(len(member))
    for of in range(folds):
        own[fold == of] = read(of, scaled[fold == of])
    target = [np.mean([read(of, rows) for rows in seen], axis=0) for of in range(folds)]
    return _Odds(own, np.array(target))


def _choose_ratio(lessons: _LeaveOneOutRows) -> int:
    """The column of RMIA's ratios that tells the members of shadows best, as RMIA chooses it."""
    gains = np.zeros(lessons.ratios.shape[1])
    for k in range(CHOOSING):
        own = lessons.shadow == k
        ratios, member = lessons.ratios[own], lessons.member[own]
        gains += [mean_log_rank(column[member], column[~member]) for column in ratios.T]
    return int(np.argmax(gains))


def _networks_share(odds: Column, ratio: Column, member: Bool[np.ndarray, " rows"]) -> float:
    """How much networks count beside RMIA: by their weights in a logistic regression, from 0 to 1.

    A weight below 0 counts as 0; where both do, RMIA's ratio counts alone.

    Args:
        odds: of the rows, by networks that other records' rows taught, on the scale of surprise.
        ratio: of the rows, on the same scale.
        member: whether the shadow was trained on the record.
    """
    both = np.column_stack([odds, ratio, np.ones_like(odds)])
    weights = np.zeros(3)
    for _ in range(STEPS):
        p = expit(both @ weights)
        slope = both.T @ (member - p) - weights
        # a penalty of 1 keeps weights finite where members can be told without an error
        step = np.linalg.solve((both * (p * (1 - p))[:, None]).T @ both + np.eye(3), slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    by_networks, by_ratio = np.maximum(weights[:2], 0.0)
    return float(by_networks / (by_networks + by_ratio)) if by_networks else 0.0


class _Surprise(NamedTuple):
    """A scale: minus the log of the share of the shadows' rows that stand higher than a score."""

    scores: Column
    """Scores of rows, from low to high, none twice."""
    surprise: Column
    """Of each; of rows that tie, half count as higher."""
    slope: float
    """Rise of the surprise for each unit beyond the last score, as over the last hundredth."""

    @classmethod
    def of(cls, rows: Column) -> "_Surprise":
        """The scale of these rows."""
        scores, counts = np.unique(rows, return_counts=True)
        share = (np.cumsum(counts) - counts / 2) / len(rows)
        surprise = -np.log1p(-share)
        start = int(np.searchsorted(share, 1 - TAIL))
        width = float(scores[-1] - scores[min(start, len(scores) - 1)])
        rise = float(surprise[-1] - surprise[min(start, len(scores) - 1)])
        return cls(scores, surprise, rise / width if width else 0.0)

    def __call__(self, score: Column) -> Column:
        """The surprise of each score."""
        beyond = np.maximum(score - self.scores[-1], 0.0)
        found: Column = np.interp(score, self.scores, self.surprise) + self.slope * beyond
        return found
