"""The report compares the exposure of strata, and figures by person with those by record."""

from collections.abc import Mapping, Sequence

import numpy as np

from divulge._util import showable
from divulge.core import Candidates, Estimate, MembershipFacts
from divulge.core.people import StrataFacts
from divulge.metrics import strata as metrics
from divulge.metrics.membership import Score
from divulge.report import words
from divulge.report.parts import Strata, StratumRow, UnitFigures
from divulge.report.schema import AttackRow, Conclusion
from divulge.report.verdict_facts import deciding_fpr

LEVEL = 0.05
"""The p-value up to which strata are said to differ."""

_RESERVED = ("confounded", "inputs doubtful", "instrument failed", "leak or shift", "undecided")
"""Verdicts whose reservation holds for strata as well."""


def compare_strata(
    verdict: Conclusion,
    scores: Mapping[str, Score],
    candidates: Candidates,
    facts: MembershipFacts,
) -> Strata | None:
    """Exposure by stratum; None where none were given.

    Args:
        verdict: that of the audit, with the label of the deciding attack.
        scores: those of each done attack, by its label.
        candidates: with the numbers of their strata.
        facts: of the audit, with the names of the strata that may be shown.
    """
    stratum, given = candidates.subpopulation, facts.strata
    if given is None or stratum is None:
        return None
    fpr = deciding_fpr(facts.nonmembers)
    rows: tuple[StratumRow, ...] = ()
    test, worst = None, None
    if verdict.attack is not None and given.names:
        score, names = scores[verdict.attack], _names(given)
        rows = _rows(score, candidates, names, fpr)
        test = metrics.compare_strata(score, candidates.member, stratum)
        worst = None if test is None else names[test.worst]
    return Strata(
        attack=verdict.attack,
        fpr=fpr,
        rows=tuple(sorted(rows, key=lambda row: 1 if row.auc is None else -row.auc.low)),
        merged=given.merged,
        smallest=given.smallest,
        fewest=metrics.FEWEST,
        p_value=None if test is None else test.p_value,
        worst=worst,
        worst_p=None if test is None else test.worst_p,
        sentence=_describe(rows, given, test, worst, verdict),
    )


def _names(facts: StrataFacts) -> list[str]:
    """Of the strata that are shown, by their numbers, and of those that are merged."""
    names = [showable.make_showable(name) for name in facts.names]
    return [*names, f"{facts.merged} strata together"] if facts.merged else names


def _rows(
    score: Score, candidates: Candidates, names: Sequence[str], fpr: float | None
) -> tuple[StratumRow, ...]:
    stratum, member = candidates.subpopulation, candidates.member
    assert stratum is not None
    given = score, member, stratum, len(names)
    tprs: list[Estimate | None] = [None] * len(names)
    if fpr is not None:
        tprs = metrics.tpr_by_stratum(*given, fpr)
    inside, outside = (
        np.bincount(stratum[group], minlength=len(names)).tolist() for group in (member, ~member)
    )
    columns = zip(names, inside, outside, metrics.auc_by_stratum(*given), tprs, strict=True)
    return tuple(StratumRow(*each) for each in columns)


def _describe(
    rows: Sequence[StratumRow],
    facts: StrataFacts,
    test: metrics.StrataTest | None,
    worst: str | None,
    verdict: Conclusion,
) -> str:
    """Whether strata differ, and which is hit hardest, in one sentence."""
    if not facts.names:
        number = "The one stratum is" if facts.merged == 1 else f"{facts.merged} strata are"
        return (
            f"{number} not shown: with fewer than {facts.smallest} members or non-members, or to "
            "keep the size of such a stratum from being told."
        )
    if verdict.attack is None:
        return "No stratum was measured, because no attack finished."
    if test is None:
        return (
            f"Strata were not compared: fewer than two have the {metrics.FEWEST} members and "
            f"{metrics.FEWEST} non-members that it takes."
        )
    p = words.format_p_value(test.p_value)
    if test.p_value > LEVEL:
        sentence = f"Exposure does not differ between strata beyond chance (p = {p})"
    elif test.worst_p > LEVEL:
        sentence = f"Exposure differs between strata (p = {p}), but no single one stands out"
    else:
        auc = next(row.auc for row in rows if row.name == worst)
        assert auc is not None
        sentence = (
            f"Exposure differs between strata (p = {p}). Hit hardest: {worst}, AUC "
            f"{words.format_auc(auc)}, p = {words.format_p_value(test.worst_p)} against all "
            "others, corrected for the number of strata"
        )
    if verdict.level in _RESERVED:
        sentence += f"; the verdict is {verdict.level!r}, which limits these figures too"
    return f"{sentence}."


def figures_by_unit(
    verdict: Conclusion, rows: Sequence[AttackRow], facts: MembershipFacts
) -> UnitFigures | None:
    """Figures by person beside those by record; None where records were audited.

    A bound for one person with k records at most is k times that for one record, at δ = 0.

    Args:
        verdict: that of the audit, with the label of the deciding attack.
        rows: every attack that was asked for.
        facts: of the audit.

    References:
        Dwork and Roth (2014), The algorithmic foundations of differential privacy, theorem 2.2.
    """
    row = next((row for row in rows if row.label == verdict.attack), None)
    if facts.people is None or row is None or "record_auc" not in row.metrics:
        return None
    epsilon = row.metrics.get("epsilon")
    # it is for exchanging a person's records: adding or removing them is half of that
    bound = 0.0 if epsilon is None or verdict.confounding or facts.delta else epsilon.low / 2
    return UnitFigures(
        auc_by_person=row.metrics["auc"],
        auc_by_record=row.metrics["record_auc"],
        most=facts.people.most,
        epsilon_by_person=bound or None,
        epsilon_by_record=bound / facts.people.most or None,
    )
