"""Leakage as a score of scikit-learn: `GridSearchCV` and `cross_validate` call it for each fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from divulge._util.arguments import check_arguments
from divulge._util.digest import digest
from divulge.attacks.catalog import attack as attack_by_name
from divulge.audits.challenges.drawn_candidates import set_copies_aside
from divulge.audits.from_arguments import GivenSets, inputs_from_arguments
from divulge.audits.matching import match
from divulge.audits.options import Access, Options, ShadowModels
from divulge.core import Game, Measurements, Membership, MembershipAttack, ModelView, Need, Scores
from divulge.data.containers import container_of
from divulge.errors import NotApplicable, SpecError, did_you_mean
from divulge.metrics.measure import GUESSING, measure_one
from divulge.secrets.attempt import run_on_model


class Fold(NamedTuple):
    """The rows of both sides of a fold."""

    train: Int[np.ndarray, " train"]
    test: Int[np.ndarray, " test"]


@dataclass(frozen=True, slots=True)
class LeakageScorer:
    """A scorer: called with a fitted estimator and the records of one side of a fold."""

    metric: str
    x: Any
    y: Any
    folds: Mapping[str, Fold]
    """By the digest of each side of a fold."""
    attack: MembershipAttack | None

    def __call__(self, estimator: Any, x: Any, y: Any) -> float:
        """Minus the leakage of an estimator about its side of the fold that has these records.

        Raises:
            SpecError: no fold has these records on one side.
            NotApplicable: the attack cannot run on this estimator, or not be measured on so few.
            DivulgeError: the estimator or the records cannot be used.
        """
        fold = self.folds.get(_digest(x, y))
        if fold is None:
            raise SpecError(
                "expected the records of a fold that the scorer knows, got others: give scorer() "
                "and the search the same x, y and cv, and the search no other splitter"
            )
        sides = [(_take(self.x, rows), _take(self.y, rows)) for rows in fold]
        return -leakage(estimator, *sides, metric=self.metric, attack=self.attack)

    def __repr__(self) -> str:
        return f"divulge.scorer({self.metric!r}, {len(self.folds) // 2} folds)"


@check_arguments
def scorer(
    metric: str, x: Any, y: Any, cv: Any, *, attack: MembershipAttack | None = None
) -> LeakageScorer:
    """Minus the leakage of a fitted estimator, as the ``scoring`` of a search of scikit-learn.

    For each fit of `GridSearchCV`, `cross_validate` and the like, the records that the estimator
    was fitted on are the members, and the other side of the fold the non-members. One attack ranks
    them, chosen in advance: the best of several would be chosen on the records that it is measured
    on. The sign is that of scikit-learn's scorers of losses: the highest score leaks least.

    It is a number to compare settings by, without interval, controls or verdict. Folds share
    records, so the spread over folds is no interval either. An attacker with shadow models finds
    more, and a fold with another population, such as a later time or other groups, differs without
    any leak. Audit the chosen model with `divulge.audit`, on records that no search has seen.

    Args:
        metric: ``auc``, ``tpr@FPR`` with 0.1, 0.01 or 0.001, or ``advantage``.
        x: all records, as the search is given them.
        y: their labels or true values.
        cv: the splitter that the search is given, or a list of pairs of training and test rows; a
            splitter that shuffles needs a ``random_state``.
        attack: without shadow models or reference records; by default ``threshold`` on the loss,
            ``gap`` for a classifier without probabilities, ``residual`` for regression.

    Raises:
        SpecError: the metric is unknown, the folds are no pairs of rows of these records, or they
            are not the same each time.

    Examples:
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.model_selection import StratifiedKFold, cross_val_score
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> (x, y), cv = load_digits(return_X_y=True), StratifiedKFold(3)
        >>> leaks = scorer("auc", x, y, cv)
        >>> shallow, deep = (
        ...     cross_val_score(DecisionTreeClassifier(max_depth=d, random_state=0), x, y, cv=cv,
        ...                     scoring=leaks).mean() for d in (3, None))
        >>> bool(shallow > deep)
        True
    """
    if metric not in GUESSING:
        raise SpecError(f"expected a metric, got {metric!r}: {did_you_mean(metric, GUESSING)}")
    pairs = _split(cv, x, y)
    folds: dict[str, Fold] = {}
    for fold in pairs:
        for rows in fold:
            known = folds.setdefault(_digest(_take(x, rows), _take(y, rows)), fold)
            if any(set(side) != set(other) for side, other in zip(known, fold, strict=True)):
                raise SpecError(
                    "expected folds that can be told apart by their records, got two with equal "
                    "records on one side: use larger folds, or remove copies of records"
                )
    return LeakageScorer(metric, x, y, folds, attack)


def leakage(
    estimator: Any,
    members: tuple[Any, Any],
    nonmembers: tuple[Any, Any],
    *,
    metric: str = "auc",
    attack: MembershipAttack | None = None,
) -> float:
    """What one attack finds on a fitted estimator; arguments as of `scorer` and `divulge.audit`.

    Raises:
        NotApplicable: the attack cannot run on this estimator, or not be measured on so few.
        DivulgeError: the estimator or the records cannot be used.
    """
    given = inputs_from_arguments(
        estimator, GivenSets(members, nonmembers), Access(), ShadowModels(0), Options()
    )
    subject, _ = set_copies_aside(match(given)[0])
    candidates = subject.members.joined(subject.nonmembers)
    member = np.arange(len(candidates)) < len(subject.members)
    wanted = attack or _default_attack(subject.target.offers)
    result = run_on_model(
        Game(ModelView(subject.target, candidates), Membership(member)),
        wanted,
        measure_guess=partial(_measure, metric),
    )
    if result.guess is None:
        raise NotApplicable(result.finding.reason) from result.error
    return result.finding.metrics[metric].value


def _measure(metric: str, guess: Scores, truth: Membership, delta: float) -> Measurements:
    del delta
    return Measurements({metric: measure_one(metric, guess, truth)}, {})


def _default_attack(offers: Need) -> MembershipAttack:
    if Need.VALUES in offers:
        return attack_by_name("residual")
    return attack_by_name("threshold" if Need.PROBABILITIES in offers else "gap")


def _split(cv: Any, x: Any, y: Any) -> list[Fold]:
    """The rows of both sides of each fold.

    Raises:
        SpecError: it is no splitter, or its folds are not the same each time.
    """
    if isinstance(cv, int) or not (hasattr(cv, "split") or isinstance(cv, list | tuple)):
        raise SpecError(
            f"expected a splitter or a list of folds as cv, got {cv!r}: pass the same object to "
            "the search, such as StratifiedKFold(5)"
        )
    records = container_of(x).count(x)
    try:
        shape = np.shape(y)
    except ValueError:  # rows of different lengths
        shape = ()
    if shape != (records,):
        raise SpecError(
            f"expected one label for each of {records} records, got y of shape {shape}: pass y as "
            "the search is given it"
        )
    try:
        draws = [list(cv.split(x, y)) if hasattr(cv, "split") else list(cv) for _ in range(2)]
        first, again = ([tuple(map(np.asarray, fold)) for fold in draw] for draw in draws)
    except Exception as error:  # whatever a splitter raises about these records
        raise SpecError(
            f"expected a cv that splits these records, got {type(error).__name__} from it: try "
            "list(cv.split(x, y))"
        ) from error
    alike = len(first) == len(again) and all(
        np.array_equal(side, other)
        for fold, again_fold in zip(first, again, strict=True)
        for side, other in zip(fold, again_fold, strict=True)
    )
    if not alike:
        raise SpecError(
            f"expected a cv with the same folds each time, got {cv!r}, which draws others: give it "
            "a random_state, or pass list(cv.split(x, y)) here and to the search"
        )
    if not all(len(fold) == 2 and all(_are_rows(side, records) for side in fold) for fold in first):
        raise SpecError(
            "expected pairs of training rows and test rows as cv, got others: give two arrays of "
            f"whole numbers from 0 to {records - 1} a fold"
        )
    return [Fold(*fold) for fold in first]


def _are_rows(side: np.ndarray, records: int) -> bool:
    whole = side.ndim == 1 and side.size > 0 and side.dtype.kind == "i"
    return whole and bool(side.min() >= 0 and side.max() < records)


def _take(rows: Any, chosen: Int[np.ndarray, " chosen"]) -> Any:
    return container_of(rows).take(rows, chosen)


def _digest(x: Any, y: Any) -> str:
    # labels as text: an array of strings is as wide as the longest of its side
    labels = repr(np.asarray(y).tolist())
    if isinstance(x, np.ndarray) and x.dtype.kind in "fiub":
        return digest(labels, x)
    return digest(labels, container_of(x).contents(x))
