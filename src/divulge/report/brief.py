"""The brief tells a person who decides in counts: who is concerned, what leaks, how sure, what now.

It names no term of statistics. Limits are rounded as in all sentences and tables, but a limit that
stands alone is rounded up.
"""

import math
from collections.abc import Iterator, Sequence

from divulge.attacks.catalog import (
    ATTACKS_WITH_SHADOWS,
    CHECKPOINT_ATTACKS,
    LABEL_ATTACKS,
    REFERENCE_ATTACKS,
    TOKEN_CORPUS_ATTACKS,
    TOKEN_PREFIX_ATTACKS,
    TOKEN_REFERENCE_ATTACKS,
    WHITE_BOX_ATTACKS,
)
from divulge.core import Estimate
from divulge.report import words
from divulge.report.parts import Brief, DecidingRate, Dots, ExposedRecords
from divulge.report.schema import AttackRow, Blind, ClaimRow, Conclusion, Level, Sizes
from divulge.report.terms import Terms
from divulge.report.units import PERSON, TEXT, Unit

FINE = 0.05
"""Shares below this are counted in 1,000: of 100 they would hardly differ from guessing."""

_SLACK = 1e-9
"""What float rounding may add to a count before it is rounded."""

_UNDECIDED: dict[Level, str] = {
    "undecided": "there are too few {many}",
    "leak or shift": "its {members} may only be easier than the others",
    "confounded": "the two groups differ even without the model",
    "instrument failed": "the attack that would decide failed its own test",
    "inputs doubtful": "something is wrong with the inputs",
    "nothing measured": "no attack finished",
}
"""Why nothing can be decided, as a clause."""


def write_brief(
    verdict: Conclusion,
    rows: Sequence[AttackRow],
    sizes: Sizes,
    terms: Terms,
    claim: ClaimRow | None = None,
    blind: Blind | None = None,
) -> Brief:
    """Write the brief of one audited model.

    Args:
        verdict: the verdict.
        rows: every attack that was asked for.
        sizes: how many records there were.
        terms: the attacker, and how members were drawn.
        claim: what became of a claimed guarantee.
        blind: what tells members from non-members without the model.
    """
    row = next((row for row in rows if row.label == verdict.attack), None)
    number, meaning, dots = _count(verdict, terms, claim)
    if verdict.level == "leak" and blind is not None and blind.differs:
        meaning += ("A part of it comes from a difference between the two groups.",)
    return Brief(
        number=number,
        meaning=meaning,
        concerned=_describe_concerned(sizes, terms),
        attacker="" if row is None else describe_attacker(row, sizes, terms),
        certainty=_describe_certainty(verdict),
        decision=_describe_decision(verdict, terms, number),
        dots=dots,
    )


def _count(
    verdict: Conclusion, terms: Terms, claim: ClaimRow | None
) -> tuple[str, tuple[str, ...], Dots | None]:
    """The number that decides, what it means, and its picture."""
    rate = verdict.deciding_rate
    if rate is not None:
        return _count_pairs(rate, terms) if rate.fpr is None else _count_rate(rate, terms)
    if verdict.level == "leak" and claim is not None and claim.bound is not None:
        shown = words.format_lower_bound(claim.bound.low)
        promise = f"The training was said to keep ε at {claim.epsilon:g} or less."
        return f"ε ≥ {shown}", (promise, f"An attack shows that ε is at least {shown}."), None
    why = _UNDECIDED[verdict.level].format(many=terms.unit.many, members=terms.unit.members)
    why = verdict.doubt or why
    return "", (f"Nobody can decide from this audit whether the model leaks: {why}.",), None


def _count_rate(rate: DecidingRate, terms: Terms) -> tuple[str, tuple[str, ...], Dots]:
    assert rate.fpr is not None
    per = 1_000 if rate.share is not None and rate.share.value < FINE else 100
    what = f"{terms.unit.members} are recognised"
    number, limits, dots = round_share(rate.share, rate.most, what, per)
    outsiders = words.format_count(round(rate.fpr * per), "outsider")
    recognises = (
        f"Of {per:,} {terms.unit.members}, an attacker who may wrongly accuse {outsiders} in "
        f"{per:,} recognises {number}{limits}."
    )
    guessing = f"Guessing would recognise {round(rate.fpr * per)}."
    return f"{number} of {per:,}", (recognises, guessing), dots


def _count_pairs(rate: DecidingRate, terms: Terms) -> tuple[str, tuple[str, ...], Dots]:
    number, limits, dots = round_share(rate.share, rate.most, "pairs are told apart")
    picks = (
        f"Shown 100 pairs, each of one {terms.unit.member} and one outsider, the attacker picks "
        f"{terms.unit.right} in {number}{limits}."
    )
    return f"{number} of 100 pairs", (picks, "Guessing would be right in 50."), dots


def round_share(
    share: Estimate | None, most: float, what: str, per: int = 100, known: str = "measured"
) -> tuple[str, str, Dots]:
    """The count of so many, its limits in brackets, and the same as 100 dots.

    Args:
        share: the share; None where only its upper limit is known.
        most: that limit.
        what: a clause on what is counted.
        per: of how many it is counted.
        known: how the share is known.
    """
    if share is None:
        top, count = (min(of, math.ceil(of * most - _SLACK)) for of in (100, per))
        text = f"100 dots. At most {top} of them are marked: so many {what}."
        return f"at most {count}", "", Dots(0, 0, top, per // 100, text)
    parts = (max(0.0, share.low), share.value, min(1.0, most))
    least, measured, top = (round(100 * part) for part in parts)
    text = (
        f"100 dots, {measured} of them marked: so many {what} of 100. It may be {least} to {top}."
    )
    low, value, high = (round(per * part) for part in parts)
    return f"{value}", f" ({low} to {high})", Dots(least, measured, top, per // 100, text, known)


def _describe_concerned(sizes: Sizes, terms: Terms) -> str:
    if sizes.people is not None:
        return (
            f"{words.format_count(sizes.members, 'person').replace('persons', 'people')} whose "
            f"{words.format_count(sizes.people.members, 'record')} trained the model. They were "
            f"tested beside {sizes.nonmembers:,} outsiders, whose records did not."
        )
    return (
        f"{terms.unit.count_members(sizes.members)}. They were tested beside "
        f"{sizes.nonmembers:,} outsiders, which the model never saw."
    )


def describe_attacker(row: AttackRow, sizes: Sizes, terms: Terms) -> str:
    """Say what the attacker of an attack has, in sentences.

    Args:
        row: the attack.
        sizes: how many records there were.
        terms: the attacker, and how members were drawn.
    """
    if terms.given:
        return f"Someone who has {terms.given} of a record, and nothing else."
    if terms.unit is TEXT or row.attack in TOKEN_REFERENCE_ATTACKS:
        return " ".join(_describe_reader(row, terms))
    read = (
        "the label that the model answers"
        if row.attack in LABEL_ATTACKS
        else "the value that the model predicts"
        if sizes.classes == 0
        else "what the model answers"
    )
    a_record = f"{terms.knows} of a record" if terms.knows else "a record"
    sentences = [f"Someone who has {a_record} with its true {_outcome(sizes)}, and sees {read}."]
    if row.attack in ATTACKS_WITH_SHADOWS and terms.shadows != "none":
        sentences.append("They know how it was trained, and train models of their own like it.")
    elif row.attack in REFERENCE_ATTACKS:
        sentences.append("They also have other records like it.")
    if row.attack in CHECKPOINT_ATTACKS:
        sentences.append("They also have the model as it was during training.")
    if row.attack in WHITE_BOX_ATTACKS or row.settings.get("access") == "gradients":
        sentences.append("They also have the model itself.")
    if terms.known_members:
        sentences.append(f"They already know {terms.unit.count_members(terms.known_members)}.")
    return " ".join(sentences)


def _describe_reader(row: AttackRow, terms: Terms) -> Iterator[str]:
    """What the attacker of a language model has, sentence by sentence."""
    yield "Someone who has a record, and sees how likely the model finds each of its tokens."
    if row.attack in TOKEN_REFERENCE_ATTACKS:
        yield "They also have another model, such as the one before the fine-tuning."
    if row.attack in (*TOKEN_CORPUS_ATTACKS, *TOKEN_PREFIX_ATTACKS):
        yield "They also have other texts like it."
    if row.settings.get("signal") == "gradient-norm":
        yield "They also have the model itself."
    if row.attack in ATTACKS_WITH_SHADOWS:
        yield "They can fine-tune models of their own like it."
    if terms.known_members:
        yield f"They already know {terms.unit.count_members(terms.known_members)}."


def _outcome(sizes: Sizes) -> str:
    return "value" if sizes.classes == 0 else "label"


def _describe_certainty(verdict: Conclusion) -> str:
    rate = verdict.deciding_rate
    if rate is None:
        return ""
    tried = f"all {verdict.tested} attacks" if verdict.tested > 1 else "the one attack"
    if rate.share is None:
        return (
            f"In 95 of 100 such audits the true number is no higher, for {tried} that "
            f"{'were' if verdict.tested > 1 else 'was'} tried. Other attacks may find more."
        )
    return (
        "In 95 of 100 such audits the true number lies within the limits. Attacks that were not "
        "tried may find more."
    )


def _describe_decision(verdict: Conclusion, terms: Terms, number: str) -> str:
    use = "a person's records were" if terms.unit is PERSON else "a record was"
    if verdict.level == "leak":
        act = "restrict who can use it" if terms.model_kind == "URL" else "do not release it"
        return (
            f"May others find out that {use} used to train this model? If not, {act} "
            "until it leaks less."
        )
    if verdict.level == "no leak found":
        return f"Is {number} few enough? If not, test with more {terms.unit.many} first."
    repair = (
        f"Test with more {terms.unit.many} first."
        if verdict.level == "undecided"
        else "Repair the audit first."
    )
    return f"Do not release the model on the strength of this audit. {repair}"


def describe_list(exposed: ExposedRecords, members: int, unit: Unit) -> str:
    """Say without a term of statistics who can be listed, in sentences.

    Args:
        exposed: the lists.
        members: the number of members.
        unit: what the members are.
    """
    if not exposed.lists:
        return f"Which {unit.many} are exposed was not measured."
    longest = exposed.lists[-1]
    if longest.listed:
        return (
            f"An attacker can list {longest.listed:,} of the {unit.count_members(members)}. At "
            f"most 1 in {1 / longest.fdr:.0f} of these is wrong, on average."
        )
    few = longest.fewest is None or longest.fewest > 1
    why = " With more outsiders in the test, a list of few of them might be." if few else ""
    return (
        f"No list of exposed {unit.many} could be made of which at most 1 in "
        f"{1 / longest.fdr:.0f} is wrong.{why}"
    )
