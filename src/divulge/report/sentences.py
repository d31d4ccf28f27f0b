"""These sentences state the verdict in plain language, which a lawyer cannot misread.

No sentence here calls a model harmless. Where nothing was found, it says how large a leak could
still hide, and that other attacks were not tried.
"""

from collections.abc import Sequence
from typing import NamedTuple

from divulge.metrics.power import POWER, VisibleLeaks
from divulge.report import caveats, words
from divulge.report.schema import AttackRow, Level
from divulge.report.terms import USUAL, Terms
from divulge.report.units import PERSON, RECORD, Unit, describe_members
from divulge.report.verdict_facts import VerdictFacts

_OTHERS = "attacks that were not tried may find more"

BACKWARDS = "attacks rank members below non-members"
"""The doubt that attacks cast, as a clause."""

_REDRAW = (
    "Draw members and non-members at random from one pool, remove copies, and run the audit again. "
    "If people have several records, draw people, and say whose record each is (groups)."
)

_REDRAW_PEOPLE = (
    "Draw people at random from one pool, each with all of their records, remove copies, and run "
    "the audit again."
)


class Wording(NamedTuple):
    """The words of a verdict: its level, headline and sentences."""

    level: Level
    headline: str
    sentences: tuple[str, str]


def describe_leak(case: VerdictFacts) -> Wording:
    """The words for a leak: an attacker can tell members from non-members."""
    means, single = case.detected, case.models == 1
    headline = (
        f"This model leaks {case.terms.unit.leaked}"
        if single
        else f"Models trained this way leak {case.terms.unit.leaked_by_all}"
    )
    if case.blind and case.blind.differs and case.row.beyond_blind:
        more = case.row.beyond_blind
        high = more.value if more.high is None else more.high
        means = (
            f"Without the model the two sets are told apart too (AUC {case.blind.auc.value:.2f}); "
            f"{case.row.label} is {more.value:.2f} ({more.low:.2f} to {high:.2f}) above that. "
            f"What difficulty explains is left out of p. {case.detected}"
        )
    raised = (
        f"; training raised the scores of at least {case.raised:,} of them (95 % confidence)"
        if case.raised
        else ""
    )
    return Wording("leak", headline, (f"{case.evidence}{raised}.", means))


def describe_shift(case: VerdictFacts) -> Wording:
    """The words for members that stand out, where nothing is known of the records."""
    return Wording(
        "leak or shift",
        "Members stand out: a leak, or a difference between the two sets",
        (
            f"{case.evidence}.",
            "Nothing is known of the records but what the model answers, so this audit cannot tell "
            "a leak from members that are easier than non-members, such as older or cleaner ones.",
        ),
    )


def describe_broken_claim(sentence: str, case: VerdictFacts) -> Wording:
    """The words for a broken claim: no rate shows a leak, but a guarantee is contradicted."""
    return Wording(
        "leak", "This model leaks more than was claimed for it", (sentence, case.detected)
    )


def describe_no_leak(case: VerdictFacts) -> Wording:
    """The words for no leak found, which is not the same as no leak."""
    return Wording(
        "no leak found",
        f"No leak was found by the {words.format_count(case.attacks, 'attack')} tried",
        (
            f"{case.evidence}: chance can explain that.",
            f"A leak of this size could still hide from this audit: {case.hidden_leak}; {_OTHERS}.",
        ),
    )


def describe_backwards(case: VerdictFacts) -> Wording:
    """The words for attacks that rank members below non-members: exchanged sets, or overshoot."""
    auc = case.auc
    high = auc.value if auc.high is None else auc.high
    others = "" if case.attacks == 1 else f"; {case.backwards} of {case.attacks} attacks do"
    figures = (
        f"{case.row.label} ranks members below non-members, AUC {auc.value:.2f} "
        f"({auc.low:.2f} to {high:.2f}{others}; {case.p})"
    )
    sign = f", or {case.terms.given} is passed with the wrong sign" if case.terms.given else ""
    if case.terms.trained:
        return Wording(
            "inputs doubtful",
            "Inputs doubtful: this training pushes members below non-members",
            (
                f"This way to train and to answer overshoots: {figures}.",
                "Whoever reverses the scores finds members, so this audit does not rule out a "
                "leak.",
            ),
        )
    return Wording(
        "inputs doubtful",
        "Inputs doubtful: members and non-members look exchanged",
        (
            f"Members and non-members look exchanged{sign}: {figures}.",
            "If they are not, a defence or unlearning has pushed members below non-members, and "
            "whoever reverses the scores finds them: this audit neither shows a leak nor rules one "
            "out.",
        ),
    )


def describe_undecided(case: VerdictFacts) -> Wording:
    """The words for too few records to decide."""
    sizes = describe_members(case.terms.unit, case.members, case.nonmembers)
    return Wording(
        "undecided",
        f"Too few {case.terms.unit.many} to decide whether this model leaks",
        (
            f"With {sizes}, chance could hide a model that exposes half of "
            f"{case.terms.unit.its_members}.",
            "This audit neither shows a leak nor rules one out.",
        ),
    )


def describe_confounded(case: VerdictFacts, confounding: str) -> Wording:
    """The words for a confounded audit: figures measure something else as well."""
    doubt = (
        "but this audit cannot tell how much of that the model causes"
        if case.leaks
        else "and this audit can neither show a leak nor rule one out"
    )
    return Wording(
        "confounded",
        "These figures do not measure the model alone",
        (confounding, f"{case.evidence}, {doubt}."),
    )


def describe_failed_instrument(case: VerdictFacts) -> Wording:
    """The words for a failed instrument: the deciding attack failed a control."""
    assert case.row.control is not None
    which = "attack that was tried" if case.attacks == 1 else "attack that would decide"
    return Wording(
        "instrument failed",
        "The measuring instrument failed its own test",
        (
            f"The {which} {caveats.control_failure(case.row.control)}, so its figures on this "
            "model mean nothing.",
            "So this audit neither shows a leak nor rules one out.",
        ),
    )


def describe_nothing_measured(rows: Sequence[AttackRow]) -> Wording:
    """The words for an audit in which no attack came to an end."""
    requested = words.format_count(len(rows), "attack")
    return Wording(
        "nothing measured",
        "Nothing was measured",
        (
            f"Of {requested} asked for, none finished on this model.",
            "So this audit says nothing about what the model leaks; the table of attacks gives "
            "the reasons.",
        ),
    )


def sensitivity(
    visible: VisibleLeaks, attacks: int, power: float = POWER, unit: Unit = RECORD
) -> str:
    """One or two sentences on the leaks that an audit finds with 80 % power, or another power."""
    if visible.auc is None:
        return f"With {100 * power:g} % power this audit cannot see a leak of any size."
    alone = "the attack" if attacks == 1 else f"even one of the {attacks} attacks alone"
    exposed = (
        ""
        if visible.exposed is None
        else f" It also does if the model fully exposes {100 * visible.exposed:.2g} % of "
        f"{unit.its_members}."
    )
    return (
        f"With {100 * power:g} % power this audit sees a leak if {alone} has an AUC of "
        f"{visible.auc:.2f}.{exposed}"
    )


_COMPARE = (
    "Compare defences on the same records (divulge compare), choose one, and audit the model that "
    "it trains."
)
_AFTER_LEAK = {
    "language model": "Fine-tune for fewer epochs, by adapters of a small rank, or with "
    "differential privacy, and audit the new model.",
    "URL": "Let the model return labels alone or rounded answers, limit the questions of each "
    "client, and audit it again.",
    "table": "Take this report to whoever trains the model, and audit the next model, or a table "
    "of its answers.",
}
"""What to do about a leak where `divulge compare` trains nothing, by the kind of model."""


def next_step(level: Level, enough: int | None = None, terms: Terms = USUAL) -> str:
    """What to do after reading the verdict.

    Args:
        level: the level of the verdict.
        enough: members, and non-members, that would decide, where these could not.
        terms: the attacker, and how members were drawn.
    """
    given, unit = terms.given, terms.unit
    if level == "inputs doubtful" and given:
        return (
            f"Check whether {given} is a loss, which is low for members, or a score, which is high "
            "for them. Then pass it as loss or as score, and check the column that says who is a "
            "member. Correct either, and run the audit again. If both are right, weaken the "
            "defence or the unlearning until members score like non-members."
        )
    if level == "inputs doubtful" and terms.trained:
        return (
            "Check that the training function trains on the records that it gets. If it does, "
            "weaken the defence until members score like non-members, and run the audit again."
        )
    stronger = (
        "" if terms.shadows != "none" else "Try the attacks with shadow models, which find more. "
    )
    if given:
        stronger = "Audit the model, or a table of its answers: more attacks may find more. "
    of = ", each a person," if unit is PERSON else ""
    return {
        "leak": _AFTER_LEAK.get(terms.model_kind, _COMPARE),
        "no leak found": f"{stronger}To see smaller leaks, give more {unit.many}; divulge plan "
        "says how many.",
        "inputs doubtful": "Check what says who is a member: the column and its values, or the "
        "order of the two sets. Correct it and run the audit again. If it is right, weaken the "
        "defence or the unlearning until members score like non-members.",
        "undecided": f"Give at least {enough} members{of} and as many non-members, and run the "
        "audit again.",
        "leak or shift": 'If members were drawn at random, write membership = "fixed" below '
        '[predictions], or "coins" if a coin decided for each. If not, name a column that comes '
        "from elsewhere, such as a date or another model's loss, as blind. Or audit the model with "
        "its records.",
        "confounded": _REDRAW_PEOPLE if unit is PERSON else _REDRAW,
        "instrument failed": "Repair or replace the attack that failed its control, then run the "
        "audit again.",
        "nothing measured": "Read in the table why each attack did not run, fix the cause, and "
        "continue with --resume.",
    }[level]
