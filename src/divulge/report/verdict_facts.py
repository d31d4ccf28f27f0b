"""The facts that the words of a verdict state, and the clauses that state them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from divulge.core import Estimate, Measurements
from divulge.metrics import power
from divulge.metrics.exposed import fewest_exposed_on_top
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.max_test import SHARES, MaxTest, members_on_top
from divulge.metrics.membership import Member, Score, fewest_nonmembers
from divulge.metrics.power import VisibleLeaks
from divulge.report import words
from divulge.report.evidence import Evidence
from divulge.report.schema import AttackRow, Blind, Limits
from divulge.report.terms import USUAL, Terms

COARSEST = 0.5
"""Share of exposed members that an audit must see with 80 % power, or it decides nothing."""

DECIDING_FPRS = (0.01, 0.1)
"""Figures show the TPR at the first of these that has a lower limit."""


class TopRecords(NamedTuple):
    """The records that an attack ranks highest."""

    places: int
    """Number of these records."""
    members: float
    """Number of members among them, on average where scores tie."""


@dataclass(frozen=True, slots=True)
class VerdictFacts:
    """The facts that the words of a verdict state."""

    row: AttackRow
    """The deciding attack."""
    auc: Estimate
    """Its AUC, with an interval that holds for all attacks at once."""
    top: TopRecords | None
    """The top of its scores that deviates most from chance; None if its AUC deviates more."""
    raised: int
    """Number of members at that top whose scores training raised, at least; 0 if unknown."""
    highest_auc: float | None
    """The highest simultaneous upper limit of all attacks."""
    fpr: float | None
    """The lowest false-positive rate that these non-members can speak of."""
    tpr: Estimate | None
    """The TPR of the deciding attack there, with an interval that holds for all attacks at once."""
    highest_tpr: float | None
    """The highest simultaneous upper limit of the TPR there."""
    p_value: float
    """Corrected p-value of the deciding attack; without a leak, the lowest of all attacks."""
    attacks: int
    """Number of attacks that were done."""
    leaks: bool
    """Whether chance fails to explain the scores."""
    visible: VisibleLeaks
    """The smallest leaks that the audit sees."""
    members: int
    """Number of members, over all models."""
    nonmembers: int
    """Number of non-members, over all models."""
    models: int = 1
    """Number of audited models."""
    backwards: int = 0
    """Number of attacks that rank members below non-members, where chance cannot explain it and no
    attack shows a leak."""
    blind: Blind | None = None
    """What tells members from non-members without the model; None if nothing was tried."""
    terms: Terms = USUAL
    """The attacker, and how members were drawn."""

    @property
    def detected(self) -> str:
        """A sentence on what a leak means."""
        return (
            f"So {self.terms.unit.use} can be detected; this audit does not show what else "
            f"{self.terms.unit.them}, and attacks that were not tried may detect more."
        )

    @property
    def enough(self) -> bool:
        """Whether the audit is large enough to see a model that exposes half of its members."""
        return self.visible.exposed is not None and self.visible.exposed <= COARSEST

    @property
    def p(self) -> str:
        """The p-value, and how many attacks it counts."""
        return f"p = {words.format_p_value(self.p_value)}{self.over}"

    @property
    def over(self) -> str:
        """A clause that the p-value is corrected for all attacks; empty for a single attack."""
        return "" if self.attacks == 1 else f", corrected for all {self.attacks} attacks"

    @property
    def strongest(self) -> str:
        """A name for the deciding attack, by its rank among those tried."""
        if self.attacks == 1:
            return "the one attack tried"
        return "the attack furthest below guessing" if self.backwards else "the strongest attack"

    @property
    def evidence(self) -> str:
        """A sentence, without its full stop, on what the deciding attack achieves."""
        unit = self.terms.unit
        attacker = (
            f"an attacker who sees only {self.terms.given}" if self.terms.given else self.strongest
        )
        attacker += (
            f" that knows only {self.terms.knows} of each record" if self.terms.knows else ""
        )
        if self.terms.known_members:
            others = words.format_count(self.terms.known_members, "other member")
            attacker += f" of an attacker who knows {others}"
        attacker += "" if self.models == 1 else f" on {self.models} models"
        if self.top is None:
            value, low, high = words.per_hundred(self.auc)
            return (
                f"Shown one {unit.member} and one other {unit.noun}, {attacker} picks "
                f"{unit.right} {value} % of the time (95 % interval {low} to {high} %; "
                f"guessing: 50 %; {self.p})"
            )
        share = self.members / (self.members + self.nonmembers)
        return (
            f"Of the {unit.count(self.top.places)} that {attacker} ranks "
            f"highest, {unit.count_on_top(self.top.members)} (guessing: "
            f"{share * self.top.places:.3g}; {self.p})"
        )

    @property
    def hidden_leak(self) -> str:
        """A clause on how large a leak is compatible with all that was measured."""
        assert self.highest_auc is not None
        unit = self.terms.unit
        pair = f"picks {unit.pair} {words.percent_words(self.highest_auc, math.ceil)} of the time"
        if self.fpr is None or self.highest_tpr is None:
            return f"an attack that {pair}"
        return (
            f"an attack that {pair}, or that identifies {100 * self.highest_tpr:.2g} % of the "
            f"{unit.members} at a false-positive rate of {words.format_percent(self.fpr)}"
        )


def deciding_fpr(nonmembers: int, attacks: int = 1) -> float | None:
    """The first of `DECIDING_FPRS` at which these non-members support a lower limit.

    Args:
        nonmembers: the number of non-members.
        attacks: the number of attacks that the limit holds for at once.

    Examples:
        >>> deciding_fpr(368), deciding_fpr(367), deciding_fpr(35)
        (0.01, 0.1, None)
    """
    confidence = 1 - (1 - CONFIDENCE) / attacks
    enough = (f for f in DECIDING_FPRS if nonmembers >= fewest_nonmembers(f, confidence))
    return next(enough, None)


def gather_facts(
    speaker: Evidence,
    models: Sequence[tuple[Mapping[str, Score], Member]],
    together: Measurements,
    limits: Mapping[str, Limits],
    test: MaxTest,
) -> VerdictFacts:
    """The facts on models, as far as their scores and the test of these say them.

    Args:
        speaker: the evidence of the deciding attack.
        models: for each model, the scores of the attacks that were done, and the truth.
        together: metrics of the deciding attack.
        limits: by metric, over the attacks that count.
        test: of all attacks that were done.
    """
    members = sum(int(member.sum()) for _, member in models)
    nonmembers = sum(int((~member).sum()) for _, member in models)
    fpr = deciding_fpr(min(int((~member).sum()) for _, member in models), len(test.p))
    return VerdictFacts(
        row=speaker.row,
        auc=together.metrics["auc"],
        top=_top_records(speaker, models) if speaker.statistic else None,
        raised=_count_raised(speaker, models, len(test.p)),
        highest_auc=limits["auc"].highest,
        fpr=fpr,
        tpr=None if fpr is None else together.metrics[f"tpr@{fpr:g}"],
        highest_tpr=None if fpr is None else limits[f"tpr@{fpr:g}"].highest,
        p_value=_p_value(speaker, test),
        attacks=len(test.p),
        leaks=speaker.leaks,
        visible=power.visible_leaks(members, nonmembers, test.critical),
        members=members,
        nonmembers=nonmembers,
        models=len(models),
    )


def _p_value(speaker: Evidence, test: MaxTest) -> float:
    """That of the deciding attack; where it shows nothing, the lowest of all."""
    if speaker.leaks:
        return speaker.p_value
    return min(1.0, 2 * speaker.p_below) if speaker.backwards else test.p_value


def _top_records(
    speaker: Evidence, models: Sequence[tuple[Mapping[str, Score], Member]]
) -> TopRecords:
    share = SHARES[speaker.statistic - 1]
    places = [max(1, round(share * len(member))) for _, member in models]
    on_top = [
        members_on_top(scores[speaker.row.label], member, here)
        for (scores, member), here in zip(models, places, strict=True)
    ]
    return TopRecords(sum(places), sum(on_top))


def _count_raised(
    speaker: Evidence, models: Sequence[tuple[Mapping[str, Score], Member]], attacks: int
) -> int:
    """How many members at the top that the verdict speaks of training raised, at least."""
    if not speaker.statistic or len(models) > 1:
        return 0
    (scores, member), places = models[0], _top_records(speaker, models).places
    error = (1 - CONFIDENCE) / attacks
    return fewest_exposed_on_top(scores[speaker.row.label], member, places, error)
