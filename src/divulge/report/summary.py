"""`summarise` turns a run's contents into its summary; the same contents give the same summary."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int, Shaped

from divulge._util import showable
from divulge.core import (
    Candidates,
    Check,
    Contents,
    Control,
    Entry,
    Facts,
    Finding,
    Head,
    Membership,
    MembershipFacts,
)
from divulge.metrics import membership
from divulge.metrics.membership import Member, Score
from divulge.report import caveats, exposed, shifts, strata, words
from divulge.report.brief import write_brief
from divulge.report.claim import doubt_claim, judge_claim
from divulge.report.differences import compare_with_deciding
from divulge.report.lazy_scores import read_scores
from divulge.report.parts import ClassRow, Exposure, Histogram
from divulge.report.remedies import name_remedies
from divulge.report.schema import (
    SCHEMA,
    AttackRow,
    ControlRow,
    Reproduction,
    RocCurve,
    Sizes,
    Summary,
)
from divulge.report.terms import Terms
from divulge.report.units import choose_unit
from divulge.report.unmeasured import not_measured
from divulge.report.verdict import judge_model
from divulge.report.verdict_facts import deciding_fpr

__all__ = ["Summary", "summarise"]

POINTS = 200
"""Most points of a stored ROC curve, without those of `PRINTED`."""

PRINTED = (0.1, 0.01, 0.001)
"""False-positive rates whose TPR stands in tables."""

BINS = 40
"""Most bins of a histogram."""

SMALLEST_CLASS = 5
"""Fewest members, and non-members, of a class that gets an AUC of its own."""

Labels = Int[np.ndarray, " records"]


def summarise(contents: Contents) -> Summary:
    """Summarise a run: everything that its report says.

    Raises:
        StoreError: the scores of a finished attack are gone.
        DataError: a stored score is not finite.
    """
    head, (facts, candidates) = contents.head, contents.model()
    scores = read_scores(contents.entries)
    checks = tuple(_check(check) for check in facts.checks)
    blind, ease, label = shifts.find_blind(checks), candidates.ease, candidates.label
    rows, member = _rows(contents, scores), candidates.member
    rows = shifts.compare_with_blind(rows, scores, member, blind, ease)
    truth = Membership(member, facts.drawn)
    terms = _terms(head, facts, checks)
    differ = _describe_difference(caveats.confounding(checks), terms)
    claim = judge_claim(facts.claim, rows, scores, truth, differ, terms.unit)
    verdict = judge_model(rows, scores, truth, checks, terms, claim, facts.delta, label, ease)
    if verdict.confounding and not differ:  # found when the verdict took off what is explained
        differ = _describe_difference(verdict.confounding, terms)
        claim = judge_claim(facts.claim, rows, scores, truth, differ, terms.unit)
    claim = doubt_claim(claim, verdict.doubt) if verdict.doubt else claim
    listed = exposed.find_exposed(rows, scores, candidates, differ, verdict.doubt)
    return Summary(
        schema=SCHEMA,
        name=showable.make_showable(head.name),
        verdict=verdict,
        sizes=_sizes(facts),
        attacks=rows,
        exposure=_exposure(verdict.attack, scores, candidates, facts),
        exposed=listed,
        claim=claim,
        checks=checks,
        not_measured=(*not_measured(rows), *exposed.unmeasured_rates(listed, terms.unit)),
        reproduction=_reproduction(head, facts.delta, facts.model),
        blind=blind,
        remedies=name_remedies(verdict.level, checks, rows, claim, facts.model_kind),
        texts=facts.texts,
        strata=strata.compare_strata(verdict, scores, candidates, facts),
        units=strata.figures_by_unit(verdict, rows, facts),
        brief=write_brief(verdict, rows, _sizes(facts), terms, claim, blind),
        differences=compare_with_deciding(verdict, rows, scores, candidates.member),
    )


def _describe_difference(confounding: str, terms: Terms) -> str:
    return shifts.describe_difference(confounding, shift_excluded=terms.shift_excluded)


def _terms(head: Head[Facts], facts: MembershipFacts, checks: Sequence[Check]) -> Terms:
    return Terms(
        facts.shadows,
        showable.make_showable(words.describe_knowledge(head.settings.get("known"))),
        facts.known_members,
        showable.make_showable(words.describe_given(head.settings.get("predictions"))),
        shift_excluded=shifts.leaves_out_shifts(checks, randomised=facts.randomised),
        unit=choose_unit(people=facts.people is not None, texts=facts.texts is not None),
        model_kind=facts.model_kind,
    )


def _rows(contents: Contents, scores: Mapping[str, Score]) -> tuple[AttackRow, ...]:
    """One row an attack in the order asked for; findings nobody asked for come last."""
    finished = {entry.finding.label: entry for entry in contents.entries}
    labels = dict.fromkeys([*contents.head.attacks, *contents.missing, *finished])
    member = contents.model()[1].member
    return tuple(
        _attack_row(finished[label], scores, member)
        if label in finished
        else _missing_row(showable.make_showable(label))
        for label in labels
    )


def _attack_row(entry: Entry, scores: Mapping[str, Score], member: Member) -> AttackRow:
    finding: Finding = entry.finding
    label = showable.make_showable(finding.label)
    curve: RocCurve | None = roc_curve(scores[label], member) if label in scores else None
    return AttackRow(
        label=label,
        attack=showable.make_showable(finding.attack),
        paper=showable.make_showable(finding.paper),
        settings=showable.make_all_showable(finding.settings),
        status=finding.status.value,
        reason=showable.make_showable(finding.reason),
        metrics=dict(finding.metrics),
        unmeasured=showable.make_all_showable(finding.unmeasured),
        control=None if entry.control is None else _control(entry.control),
        queries=finding.queries,
        seconds=finding.seconds,
        roc=curve,
        shadow_thresholds=finding.shadow_thresholds,
    )


def _missing_row(label: str) -> AttackRow:
    return AttackRow(
        label=label,
        attack=label.partition("(")[0],
        paper="",
        settings={},
        status="missing",
        reason="The run was interrupted before this attack had ended; continue it with --resume.",
        metrics={},
        unmeasured={},
        control=None,
        queries=0,
        seconds=0.0,
        roc=None,
    )


def _control(control: Control) -> ControlRow:
    blind = control.blind
    return ControlRow(
        planted=control.planted,
        sees=control.sees,
        covered=control.covered,
        shuffles=control.shuffles,
        calm=control.calm,
        outcome=control.outcome,
        reason=showable.make_showable(control.reason),
        blind=None
        if blind is None
        else replace(blind, reason=showable.make_showable(blind.reason)),
    )


def _check(check: Check) -> Check:
    return Check(
        showable.make_showable(check.name),
        check.verdict,
        showable.make_showable(check.text),
        dict(check.estimates),
    )


def _sizes(facts: MembershipFacts) -> Sizes:
    return Sizes(
        members=facts.members,
        nonmembers=facts.nonmembers,
        reference=facts.reference,
        classes=facts.classes,
        smallest_fpr=1 / facts.nonmembers if facts.nonmembers else None,
        known_members=facts.known_members,
        people=facts.people,
    )


def _exposure(
    attack: str | None,
    scores: Mapping[str, Score],
    candidates: Candidates,
    facts: MembershipFacts,
) -> Exposure | None:
    if attack is None:
        return None
    score = scores[attack]
    member, label = candidates.member, candidates.label
    names: Sequence[str] = [showable.make_showable(name) for name in facts.class_names]
    fpr = deciding_fpr(int(np.sum(~member)))
    return Exposure(
        attack=attack,
        histogram=make_histogram(score, member, fpr),
        classes=class_rows(score, member, label, names) if facts.classes != 1 else (),
    )


def _reproduction(head: Head[Facts], delta: float, model: str) -> Reproduction:
    return Reproduction(
        divulge=showable.make_showable(head.divulge),
        created=showable.make_showable(head.created),
        seed=head.seed,
        delta=delta,
        challenge=showable.make_showable(head.challenge),
        settings=showable.make_all_showable(head.settings),
        environment=showable.make_all_showable(head.environment),
        model=showable.make_showable(model),
    )


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


def make_histogram(score: Score, member: Member, fpr: float | None) -> Histogram:
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
