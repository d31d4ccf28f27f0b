"""Cascade: what the attacker is sure of makes further shadow models more like the target.

The score is a place: above 1 are known members, those of the first round highest; from 0 to 1 the
candidates that ShadowStack scored; below 0 known non-members. Each group is in the order of the
round in which it became known. Fewer than 50 candidates that are left train nothing further.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.arguments import Count, check_arguments
from divulge._util.extras import stats
from divulge.attacks import catalog
from divulge.attacks.shared.turns import put_in_place_of_target
from divulge.core import ModelView, Need, Scores, Shadows
from divulge.errors import NotApplicable, SpecError

TURNS = 8
"""Number of shadows that take the target's place to choose thresholds."""

FEWEST_SHADOWS = 2
"""Fewest shadows: a single one in the target's place has no other to be compared with."""

FEWEST = 50
"""Fewest candidates for whom further shadows are trained: fewer can teach an attack nothing."""

Column = Float64[np.ndarray, " records"]
Flags = Bool[np.ndarray, " records"]


@check_arguments
@dataclass(frozen=True, slots=True)
class Cascade:
    """Train shadow models again, given the candidates whose membership the first ones reveal.

    In each round RMIA scores the candidates, and the highest and lowest count as known members and
    known non-members. The next shadow models are trained on the former and on none of the latter.
    In the end `ShadowStack` scores the rest. Known members come before all others, known
    non-members after them.

    Up to 8 shadow models take the target's place and choose the thresholds, beyond which the share
    ``precision`` is right, and whether the last round's models or all are used. Nothing of the
    target is used. If no candidate is beyond a threshold, the score is `ShadowStack`'s.

    Args:
        precision: share of right guesses beyond a threshold, on shadow models; above one half and
            below 1.
        rounds: how often shadow models are trained again.

    References:
        Du et al. (2026), Cascading and proxy membership inference attacks, and the authors' code,
        which has LiRA in all rounds. Departures: which attack scores, how thresholds and shadow
        models are chosen, and the place of known candidates.
    """

    precision: float = 0.995
    rounds: Count = 2

    name: ClassVar[str] = "cascade"
    paper: ClassVar[str] = "Du et al. 2026"
    needs: ClassVar[Need] = (
        Need.PROBABILITIES | Need.LABELS | Need.SHADOWS | Need.REFERENCE | Need.CONDITIONAL_SHADOWS
    )

    def __post_init__(self) -> None:
        if not 0.5 < self.precision < 1:
            raise SpecError(
                f"expected precision above 0.5 and below 1, got {self.precision}: it is the share "
                "of right guesses among those that shadows are trained on"
            )

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The place of each candidate: known members first, known non-members last.

        Raises:
            NotApplicable: no shadow was trained on candidates.
            TargetError: a further shadow could not be trained.
        """
        assert view.shadows is not None
        assert view.conditional is not None
        if not view.shadows.online:
            raise NotApplicable(
                "expected shadows trained on candidates, got offline shadows: who cannot train on "
                "candidates cannot train on those that it is sure of"
            )
        inside, outside = np.zeros((2, len(view.records)), np.bool_)
        score = np.zeros(len(view.records))
        rest = np.arange(len(view.records))
        rehearsed = _rehearse(view, [view.shadows], rest, rng)
        for tier in range(self.rounds, 0, -1):
            first = _by_rmia(rehearsed.view, rng)
            above, below = rehearsed.sure(first, self.precision)
            if not (above | below).any() or (~above & ~below).sum() < FEWEST:
                break
            score[rest[above]] = tier + _ranks(first[above])
            score[rest[below]] = -tier - 1 + _ranks(first[below])
            inside[rest[above]], outside[rest[below]] = True, True
            rest = rest[~above & ~below]
            last = view.conditional(inside, outside)
            rehearsed = _rehearse(view, [last, _together(last, rehearsed.shadows)], rest, rng)
        score[rest] = _ranks(catalog.attack("shadow-stack")(rehearsed.view, rng).score)
        return Scores(score)


class _Rehearsal(NamedTuple):
    """What attacks on shadows themselves showed."""

    view: ModelView
    """The candidates that are left, with the shadows that are best compared with."""
    shadows: Shadows
    """The same shadows, with all candidates."""
    score: Column
    """RMIA's scores of these candidates, for one shadow in the target's place after another."""
    member: Flags
    """Whether the shadow was trained on them."""
    auc: float
    """The mean over the shadows."""

    def sure(self, score: Column, precision: float) -> tuple[Flags, Flags]:
        """The candidates that are taken for members, and for non-members."""
        # thresholds of shadows, whose members are known: nothing of the target chooses them
        above = score >= lowest_precise(self.score, self.member, precision)
        below = score <= -lowest_precise(-self.score, ~self.member, precision)
        return above & ~below, below & ~above


def _rehearse(
    view: ModelView, ways: Sequence[Shadows], rest: np.ndarray, rng: np.random.Generator
) -> _Rehearsal:
    """Attack shadows by each of these ways, and keep the one that tells their members best.

    Args:
        view: all candidates.
        ways: shadows, those of the last round first.
        rest: the candidates that are left.
        rng: of the attacks.
    """
    turns = min(TURNS, ways[0].phi.shape[1])
    return max(
        (_rehearse_once(view, way, rest, turns, rng) for way in ways),
        key=lambda rehearsal: rehearsal.auc,
    )


def _rehearse_once(
    view: ModelView, shadows: Shadows, rest: np.ndarray, turns: int, rng: np.random.Generator
) -> _Rehearsal:
    left = _take(replace(view, shadows=shadows), rest)
    if shadows.phi.shape[1] < FEWEST_SHADOWS:
        raise NotApplicable(
            f"expected {FEWEST_SHADOWS} shadows or more, got {shadows.phi.shape[1]}: each is "
            "compared with the others"
        )
    played = [put_in_place_of_target(left, np.arange(len(rest)), k) for k in range(turns)]
    score = [_by_rmia(stand_in, rng) for stand_in, _ in played]
    member = [of for _, of in played]
    areas = [_area(own, of) for own, of in zip(score, member, strict=True)]
    return _Rehearsal(
        left, shadows, np.concatenate(score), np.concatenate(member), float(np.mean(areas))
    )


def _by_rmia(view: ModelView, rng: np.random.Generator) -> Column:
    return catalog.attack("rmia")(view, rng).score


def _area(score: Column, member: Flags) -> float:
    """The AUC; one half where there is nobody to be told from the others."""
    inside, outside = int(member.sum()), int((~member).sum())
    if not inside or not outside:
        return 0.5
    ranks = float(stats.rankdata(score)[member].sum())
    # Mann and Whitney's U over all pairs
    return (ranks - inside * (inside + 1) / 2) / (inside * outside)


def _together(last: Shadows, earlier: Shadows) -> Shadows:
    """All shadows, those of the last round first."""
    ways = zip(last.augmented_phi, earlier.augmented_phi, strict=True)
    return Shadows(
        np.hstack([last.phi, earlier.phi]),
        np.hstack([last.member, earlier.member]),
        np.hstack([last.reference_phi, earlier.reference_phi]),
        tuple(np.hstack(way) for way in ways),
    )


def lowest_precise(score: Column, member: Flags, precision: float) -> float:
    """The lowest score from which on this share of the records are members; else infinity.

    Examples:
        >>> score, member = np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, False, True])
        >>> lowest_precise(score, member, 0.75), lowest_precise(score, member, 0.9)
        (0.6, 0.8)
    """
    order = np.argsort(-score, kind="stable")
    ranked, hits = score[order], np.cumsum(member[order])
    last = np.append(ranked[1:] != ranked[:-1], True)  # of the records with one score
    precise = last & (hits >= precision * np.arange(1, len(score) + 1))
    return float(ranked[precise].min(initial=np.inf))


def _ranks(score: Column) -> Column:
    """Ranks, from above 0 to below 1; equal scores stay equal."""
    return np.asarray(stats.rankdata(score) / (len(score) + 1))


def _take(view: ModelView, rows: np.ndarray) -> ModelView:
    """The view of these candidates alone, with what RMIA and ShadowStack need."""
    shadows = view.shadows
    assert shadows is not None
    left = replace(
        shadows,
        phi=shadows.phi[rows],
        member=shadows.member[rows],
        augmented_phi=tuple(phi[rows] for phi in shadows.augmented_phi),
        softened=(),
    )
    augmented = tuple(records.take(rows) for records in view.augmented)
    return ModelView(view.target, view.records.take(rows), view.reference, left, augmented)
