"""Scores are reduced here to what a report shows: curves, histograms, AUCs of classes."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped

from divulge.metrics import membership
from divulge.metrics.membership import Member, Score
from divulge.report import words
from divulge.report.schema import ClassRow, Histogram, RocCurve

POINTS = 200
"""Most points of a stored ROC curve, without those of `PRINTED`."""

PRINTED = (0.1, 0.01, 0.001)
"""False-positive rates whose TPR stands in tables."""

BINS = 40
"""Most bins of a histogram."""

SMALLEST_CLASS = 5
"""Fewest members, and non-members, of a class that gets an AUC of its own."""

Labels = Int[np.ndarray, " records"]


def roc_curve(score: Score, member: Member) -> RocCurve:
    """The ROC curve at points evenly spaced in log FPR, and at the rates that tables print.

    Each point is what `divulge.metrics.membership.tpr_at_fpr` gives there, so the band around the
    curve is made of the intervals that tables print.
    """
    outside = int((~member).sum())
    counts = np.rint(np.geomspace(1, outside, POINTS))
    printed = [rate for rate in PRINTED if rate * outside >= 1]
    rates = np.union1d(counts / outside, printed)
    band = membership.tpr_at_fprs(score, member, rates)
    return RocCurve(
        tuple(rates.tolist()),
        tuple(point.value for point in band),
        tuple(point.low for point in band),
        tuple(point.low if point.high is None else point.high for point in band),
    )


def histogram(score: Score, member: Member, fpr: float | None) -> Histogram:
    """Both groups' shares in common bins, and the threshold that this FPR allows.

    The bins span the central 99 % of all scores: one far outlier would squeeze all others into
    a single bin. The outer bins take what lies beyond.
    """
    low, high = np.quantile(score, [0.005, 0.995])
    if low == high:
        low, high = score.min(), score.max()
    if low == high:
        low, high = low - 0.5, high + 0.5
    bins = int(np.clip(np.sqrt(len(score)), 8, BINS))
    edges = np.linspace(low, high, bins + 1)
    inside, outside = (
        np.histogram(np.clip(score[group], low, high), edges)[0] / group.sum()
        for group in (member, ~member)
    )
    threshold = None if fpr is None else _threshold_at_fpr(score[~member], fpr)
    return Histogram(
        tuple(edges.tolist()), tuple(inside.tolist()), tuple(outside.tolist()), fpr, threshold
    )


def _threshold_at_fpr(outside: Shaped[np.ndarray, " nonmembers"], fpr: float) -> float:
    """The lowest score with at most a share ``fpr`` of the non-members above it.

    Of those that tie with it, an attacker accuses the rest of that share, by coins.
    """
    allowed = int(fpr * len(outside) + 1e-9)
    return float(np.sort(outside)[len(outside) - 1 - allowed])


def class_rows(
    score: Score, member: Member, label: Labels, names: Sequence[str]
) -> tuple[ClassRow, ...]:
    """Each class's AUC; classes that are too small come last.

    Sorted by falling low limits: by values, small classes with lucky ones would come first.
    """
    order = np.argsort(label, kind="stable")
    starts = np.flatnonzero(np.diff(label[order], prepend=-1))
    rows = [
        _class_row(int(label[group[0]]), score[group], member[group], names)
        for group in np.split(order, starts[1:])
    ]
    return tuple(
        sorted(rows, key=lambda row: (row.auc is None, 0 if row.auc is None else -row.auc.low))
    )


def _class_row(label: int, score: Score, member: Member, names: Sequence[str]) -> ClassRow:
    inside = int(member.sum())
    outside = len(member) - inside
    large = min(inside, outside) >= SMALLEST_CLASS
    return ClassRow(
        label=label,
        name=words.class_name(label, names),
        members=inside,
        nonmembers=outside,
        auc=membership.auc(score, member) if large else None,
    )
