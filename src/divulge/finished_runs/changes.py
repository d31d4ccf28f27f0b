"""What changed from one audit to another: figures of the same attacks, with their differences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from divulge.core import Candidates, Estimate
from divulge.metrics import difference
from divulge.metrics.membership import Score
from divulge.secrets.registry import lead_metric


@dataclass(frozen=True, slots=True)
class ScoredCandidates:
    """Candidates with the scores that attacks gave them, by label."""

    candidates: Candidates
    scores: Mapping[str, Score]


@runtime_checkable
class ComparableAudit(Protocol):
    """An audit whose figures can be compared with another's."""

    @property
    def about(self) -> str:
        """The secret."""
        ...

    def figures(self, best_of: int = 1) -> Mapping[str, Mapping[str, Estimate]]:
        """By attack that passed its controls, metrics with intervals for so many at once."""
        ...

    @property
    def scored(self) -> ScoredCandidates | None:
        """The candidates, where one model was audited for membership."""
        ...


@dataclass(frozen=True, slots=True)
class FigureChange:
    """One metric of one attack, before and after."""

    attack: str
    metric: str
    before: Estimate
    after: Estimate
    difference: Estimate
    """After less before; intervals of all that were compared hold at once, at 95 %."""
    paired: bool
    """Whether both stand on the same candidates, so that their correlation counts."""

    @property
    def is_worse(self) -> bool:
        """Whether more leaks than before, by more than chance explains."""
        return self.difference.low > 0

    @property
    def is_better(self) -> bool:
        """Whether less leaks than before, by more than chance explains."""
        assert self.difference.high is not None
        return self.difference.high < 0


def compare_figures(
    before: ComparableAudit, after: ComparableAudit, comparisons: int | None = None
) -> tuple[FigureChange, ...]:
    """The changes of the lead metric of every attack that counts in both audits.

    Args:
        before: the earlier audit.
        after: the later one, about the same secret.
        comparisons: how many changes are looked at in all, for which intervals hold at once
            (Bonferroni); as many as there are here if not given.
    """
    metric, known = lead_metric(after.about), before.figures()
    labels = [
        label
        for label, figures in after.figures().items()
        if metric in figures and metric in known.get(label, {})
    ]
    best_of = max(1, comparisons or len(labels))
    earlier, later = before.figures(best_of), after.figures(best_of)
    changes = []
    for label in labels:
        together = correlation(before.scored, after.scored, label) if metric == "auc" else None
        first, second = earlier[label][metric], later[label][metric]
        less = difference.subtract(second, first, together or 0.0)
        changes.append(FigureChange(label, metric, first, second, less, together is not None))
    return tuple(changes)


def correlation(
    before: ScoredCandidates | None, after: ScoredCandidates | None, label: str
) -> float | None:
    """The correlation of an attack's two AUCs; None if they have other candidates."""
    if before is None or after is None or not have_same_candidates(before, after):
        return None
    earlier, later = before.scores.get(label), after.scores.get(label)
    if earlier is None or later is None:
        return None
    order = _by_position(before.candidates), _by_position(after.candidates)
    member = after.candidates.member[order[1]]
    return difference.auc_correlation(later[order[1]], earlier[order[0]], member)


def have_same_candidates(before: ScoredCandidates, after: ScoredCandidates) -> bool:
    """Whether candidates are the same by all that run folders keep of them.

    That is the number of members and of others, the class of each at its position, and the ids. If
    others happen to agree in all of these, the correlation that is estimated is that of unrelated
    records, about 0, and no harm is done.
    """
    first, second = before.candidates, after.candidates
    if len(first.member) != len(second.member) or (first.ids is None) != (second.ids is None):
        return False
    order = _by_position(first), _by_position(second)
    pairs = [
        (first.member, second.member),
        (first.label, second.label),
        (first.index, second.index),
    ]
    if first.ids is not None and second.ids is not None:
        pairs.append((first.ids, second.ids))
    return all(np.array_equal(a[order[0]], b[order[1]]) for a, b in pairs)


def _by_position(candidates: Candidates) -> np.ndarray:
    """Members first, in the order in which the user gave them."""
    return np.lexsort((candidates.index, ~candidates.member))
