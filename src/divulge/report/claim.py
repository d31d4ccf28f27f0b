"""A claimed guarantee is compared with the measurement, which may contradict but not prove it.

Both sides are an ε at the same δ, for adding or removing one record. The highest bound of k attacks
speaks, so each is taken at the confidence 1 - 0.05 / k (Bonferroni), whether or not its attack then
passes its controls. This is a question of its own, with an error of its own: 5 % beside the
verdict's. Where even a model that leaks every record could not contradict the claim, it is
undecidable at this size, and nothing measured speaks for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from divulge._util import showable
from divulge.core import Claim, Estimate, Membership, MembershipDraw, NoiseAssumption
from divulge.metrics.epsilon import count_usable, epsilon_lower_bound, largest_bound, records_needed
from divulge.metrics.membership import Score
from divulge.report import words
from divulge.report.schema import AttackRow, ClaimOutcome, ClaimRow
from divulge.report.units import RECORD, Unit


class _BoundAssumptions(TypedDict):
    drawn: MembershipDraw
    noise: NoiseAssumption
    tries: int


def judge_claim(
    claim: Claim | None,
    rows: Sequence[AttackRow],
    scores: Mapping[str, Score],
    truth: Membership,
    differ: str,
    unit: Unit = RECORD,
) -> ClaimRow | None:
    """Compare the claim with what was measured; None if there is no claim.

    Args:
        claim: the guarantee.
        rows: every attack that was asked for.
        scores: the scores of each done attack, by its label.
        truth: which candidates are members, and how that was decided.
        differ: why figures may measure more than training, as a clause; empty if they do not.
        unit: what was drawn and counted.
    """
    if claim is None:
        return None
    if differ:
        why = f"{differ}, so no figure measures training alone"
        return _claim_row(claim, "not measured", _untested_sentence(claim, why))
    sound = [row.label for row in rows if row.label in scores and row.sound]
    if not sound:
        why = "no attack that passed its controls finished"
        return _claim_row(claim, "not measured", _untested_sentence(claim, why))
    promised, tries = claim.guarantee, len(scores)
    bounds = {
        label: epsilon_lower_bound(
            scores[label],
            truth.member,
            promised.delta,
            drawn=truth.drawn,
            noise=promised.noise,
            tries=tries,
        )
        for label in sound
    }
    strongest = max(sound, key=lambda label: bounds[label].low)
    return _judge_bound(claim, bounds[strongest], strongest, truth, tries, unit)


def doubt_claim(row: ClaimRow | None, doubt: str) -> ClaimRow | None:
    """Take back what became of a claim, where the inputs are doubtful.

    Bounds suppose that members score high, and that each row is a record of its own. Where sets are
    exchanged every bound is 0, which speaks for no claim.

    Args:
        row: what became of the claim; None if there is none.
        doubt: why the inputs are doubtful, as a clause.
    """
    if row is None or row.outcome == "not measured":
        return row
    name = f"the claim of ε = {row.epsilon:g} at δ = {row.delta:g}"
    why = f"{doubt}, so the inputs are doubtful"
    return replace(
        row,
        outcome="not measured",
        bound=None,
        attack=None,
        largest=None,
        needed=None,
        sentence=f"{name} was not tested: {why}.",
    )


def _judge_bound(
    claim: Claim, bound: Estimate, attack: str, truth: Membership, tries: int, unit: Unit
) -> ClaimRow:
    promised, (records, drawn) = claim.guarantee, count_usable(truth.member, truth.drawn)
    assumed: _BoundAssumptions = {"drawn": drawn, "noise": promised.noise, "tries": tries}
    largest = largest_bound(records, promised.delta, **assumed)
    allowed = _allowed_sentence(promised.delta, int(truth.member.sum()), unit)
    if bound.low > promised.epsilon:
        sentence = (
            f"{_name_claim(claim)} is false at 95 % confidence, or the training did not do what "
            "was claimed. An attack shows that ε is at least "
            f"{words.format_lower_bound(bound.low)}."
        )
        return _claim_row(claim, "contradicted", sentence, bound, attack, largest)
    if largest <= promised.epsilon:
        needed = records_needed(promised.epsilon, promised.delta, **assumed)
        sentence = _too_few_sentence(claim, records, largest, needed, unit) + allowed
        return _claim_row(claim, "undecidable", sentence, bound, attack, largest, needed)
    shown = (
        f"The strongest attack shows that ε is at least {words.format_lower_bound(bound.low)}"
        if bound.low > 0
        else "No attack refutes any ε"
    )
    sentence = (
        f"the measurement does not contradict {_name_claim(claim)}, nor prove it. {shown}. "
        f"The highest ε that {unit.count(records)} can show is "
        f"{words.format_lower_bound(largest)}.{allowed}"
    )
    return _claim_row(claim, "consistent", sentence, bound, attack, largest)


def _allowed_sentence(delta: float, members: int, unit: Unit) -> str:
    """That a δ of one over the members or more promises little; empty below that.

    Publishing each member with a probability of δ is (0, δ)-differentially private.
    """
    if delta * members < 1:
        return ""
    return (
        f" A δ of {delta:g} allows a training to publish {unit.count(int(delta * members))} of "
        f"{members:,} whole: it should be well below one over their number."
    )


def _name_claim(claim: Claim) -> str:
    return f"the claim of ε = {claim.guarantee.epsilon:g} at δ = {claim.guarantee.delta:g}"


def _untested_sentence(claim: Claim, why: str) -> str:
    return f"{_name_claim(claim)} was not tested: {why}."


def _too_few_sentence(
    claim: Claim, counted: int, largest: float, needed: int | None, unit: Unit
) -> str:
    more = (
        f"No number of {unit.many}"
        if needed is None
        else f"About {needed:,} {unit.many}, half of them"
    )
    enough = "would do" if needed is None else "members, could contradict it"
    return (
        f"{_name_claim(claim)} cannot be decided with {unit.count(counted)}. "
        f"Even a model that leaks every {unit.noun} would show no more than ε ≥ "
        f"{words.format_lower_bound(largest)}. {more} {enough}."
    )


def _claim_row(
    claim: Claim,
    outcome: ClaimOutcome,
    sentence: str,
    bound: Estimate | None = None,
    attack: str | None = None,
    largest: float | None = None,
    needed: int | None = None,
) -> ClaimRow:
    guarantee = claim.guarantee
    return ClaimRow(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        mechanism=showable.make_showable(guarantee.mechanism),
        derived=claim.derived,
        outcome=outcome,
        bound=bound,
        attack=attack,
        largest=largest,
        needed=needed,
        sentence=sentence[0].upper() + sentence[1:],
    )
