"""What tells members from non-members without the model, and which leaks are stated all the same.

A verdict is about the model. Where the two sets differ by themselves, a leak is stated if what the
difference explains is taken off its evidence first, or if it dwarfs the difference; else the
verdict is *confounded*. Where nothing is known of the records, it is *leak or shift*.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from divulge.core import Check, Estimate, Verdict
from divulge.core.check_names import (
    ALL,
    BLIND,
    CLASSES,
    DATES,
    DIFFICULTY,
    DUPLICATES,
    OTHERS,
    PRECISION,
    RECORDS_EACH,
    SHADOWS,
    TOKENS_EACH,
    VALUES,
)
from divulge.metrics.difference import auc_correlation, subtract
from divulge.metrics.difficulty_test import Ease, join_measures
from divulge.metrics.membership import CHANCE_AUC, Member, Score
from divulge.report.schema import AttackRow, Blind, Limits, ShadowKind

CONFOUNDERS = (
    BLIND,
    DUPLICATES,
    DIFFICULTY,
    CLASSES,
    VALUES,
    PRECISION,
    RECORDS_EACH,
    TOKENS_EACH,
    DATES,
)
"""Checks that, when they warn, make every figure mean something else."""

TAKEN_OFF = (DIFFICULTY, CLASSES)
"""Those of them that say what the test takes off the evidence of every attack."""

DWARFS = 2.0
"""How many times as far above one half as the blind classifier an attack must be, by its lower
limit, to show a leak where that classifier sees a difference. The best of all classifiers is at
least as good as any attack on a model that leaks nothing; that one of a few hundred records comes
half as far is what this supposes."""


def find_blind(checks: Sequence[Check]) -> Blind | None:
    """What tells members from non-members best without the model; None if nothing was tried."""
    tried = [c for c in checks if c.name in (BLIND, DIFFICULTY) and "auc" in c.estimates]
    if not tried:
        return None
    best = max(tried, key=lambda check: (_warns(check), check.estimates["auc"].value))
    return Blind(best.name, best.estimates["auc"], any(map(_warns, tried)))


def leaves_out_shifts(checks: Sequence[Check], *, randomised: bool) -> bool:
    """Whether anything speaks against a difference of the sets: their draw, or what was checked.

    Args:
        checks: the checks of the audit.
        randomised: whether members were drawn at random.
    """
    unknown = any(c.name == DIFFICULTY and c.verdict is Verdict.NOT_APPLICABLE for c in checks)
    return randomised or not unknown


def describe_difference(confounding: str, *, shift_excluded: bool) -> str:
    """How members and non-members may differ without the model, as a clause; empty if they do not.

    Args:
        confounding: why every figure measures more than memory; empty if it does not.
        shift_excluded: whether anything speaks against a difference.
    """
    if confounding:
        return "members and non-members differ without the model"
    if shift_excluded:
        return ""
    return (
        "nothing shows that members and non-members are alike without the model; saying how they "
        "were drawn would show it"
    )


def stands_beside(checks: Sequence[Check], limits: Mapping[str, Limits]) -> bool:
    """Whether a leak that the test shows is one, whatever else tells the sets apart.

    Args:
        checks: the checks of the audit.
        limits: limits by metric that hold for all attacks at once.
    """
    left = {*CONFOUNDERS} - {*TAKEN_OFF}
    warned = [check for check in checks if check.name in left and _warns(check)]
    if [check.name for check in warned] != [BLIND] or "auc" not in warned[0].estimates:
        return not warned
    blind = warned[0].estimates["auc"]
    high = blind.value if blind.high is None else blind.high
    return limits["auc"].estimate.low - CHANCE_AUC > DWARFS * (high - CHANCE_AUC)


def shadows_explain(checks: Sequence[Check], shadows: ShadowKind) -> bool:
    """Whether a difference of the sets explains what attacks find that compare with online shadows.

    It does where the model is less sure of non-members than shadows that learned from others of
    them (by one standard error), unless it is surer of all candidates together (at 95 %).

    Args:
        checks: the checks of the audit.
        shadows: whether there were shadow models, and what they were trained on.
    """
    estimates = next(
        (c.estimates for c in checks if c.name == SHADOWS and OTHERS in c.estimates), None
    )
    if estimates is None or shadows != "online":
        return False
    others = estimates[OTHERS]
    assert others.high is not None
    return others.high < 0 and estimates[ALL].low <= 0


def compare_with_blind(
    rows: Sequence[AttackRow],
    scores: Mapping[str, Score],
    member: Member,
    blind: Blind | None,
    ease: Ease | None,
) -> tuple[AttackRow, ...]:
    """The rows, each with its AUC less the blind one; correlated where both score every record."""
    if blind is None:
        return tuple(rows)
    joined = join_measures(ease) if ease is not None and blind.check == DIFFICULTY else None
    return tuple(
        replace(row, beyond_blind=_subtract(row, scores[row.label], member, blind, joined))
        if row.label in scores
        else row
        for row in rows
    )


def _subtract(
    row: AttackRow, score: Score, member: Member, blind: Blind, ease: Score | None
) -> Estimate:
    together = 0.0 if ease is None else abs(auc_correlation(score, ease, member))
    return subtract(row.metrics["auc"], blind.auc, together)


def _warns(check: Check) -> bool:
    return check.verdict is Verdict.WARNING
