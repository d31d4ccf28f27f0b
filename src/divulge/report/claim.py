"""A claimed guarantee beside what was measured: contradicted, or not; never proven.

Both sides are an ε at the same δ, for adding or removing one record. The highest bound of k attacks
speaks, so each is taken at the confidence 1 - 0.05 / k (Bonferroni), whether or not its attack then
passes its controls. This is a question of its own, with an error of its own: 5 % beside the
verdict's.
"""

from collections.abc import Mapping, Sequence

from divulge.core import Claim, Estimate
from divulge.metrics.audit_epsilon import add_or_remove_bound
from divulge.metrics.membership import Member, Score, Unmeasurable
from divulge.report import words
from divulge.report.schema import AttackRow, ClaimOutcome, ClaimRow


def weigh(
    claim: Claim | None,
    rows: Sequence[AttackRow],
    scores: Mapping[str, Score],
    member: Member,
    confounding: str,
) -> ClaimRow | None:
    """The claim and what became of it; None if there is none.

    Args:
        claim: the guarantee.
        rows: every attack that was asked for.
        scores: those of each done attack, by its label.
        member: the truth.
        confounding: why figures measure more than training; empty if no check said so.
    """
    if claim is None:
        return None
    if confounding:
        why = "members and outsiders differ by themselves, so no figure speaks of training alone"
        return _row(claim, "not measured", None, None, why)
    sound = [row.label for row in rows if row.label in scores and row.sound]
    if not sound:
        why = "no attack that passed its controls was carried out to its end"
        return _row(claim, "not measured", None, None, why)
    delta, tries = claim.guarantee.delta, len(scores)
    try:
        bounds = {
            label: add_or_remove_bound(scores[label], member, delta, tries=tries) for label in sound
        }
    except Unmeasurable as error:
        return _row(claim, "not measured", None, None, str(error))
    strongest = max(sound, key=lambda label: bounds[label].low)
    bound = bounds[strongest]
    refuted = bound.low > claim.guarantee.epsilon
    return _row(claim, "contradicted" if refuted else "consistent", bound, strongest)


def _row(
    claim: Claim,
    outcome: ClaimOutcome,
    bound: Estimate | None,
    attack: str | None,
    why: str = "",
) -> ClaimRow:
    guarantee = claim.guarantee
    claimed = f"the claim of ε = {guarantee.epsilon:g} at δ = {guarantee.delta:g}"
    if bound is None:
        sentence = f"{claimed} was not put to the test: {why}."
    elif outcome == "contradicted":
        sentence = (
            f"{claimed} is false at 95 % confidence, or the training did not do what was claimed: "
            f"an attack shows that ε is at least {words.rounded_down(bound.low)}."
        )
    else:
        shown = (
            f"the strongest attack shows that ε is at least {words.rounded_down(bound.low)}"
            if bound.low > 0
            else "no attack refutes any ε"
        )
        sentence = f"the measurement does not contradict {claimed}, nor prove it: {shown}."
    return ClaimRow(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        mechanism=words.plain(guarantee.mechanism),
        derived=claim.derived,
        outcome=outcome,
        bound=bound,
        attack=attack,
        sentence=sentence[0].upper() + sentence[1:],
    )
