"""These sentences state the verdict in plain language, which a lawyer cannot misread.

No sentence here calls a model harmless. Where nothing was found, it says how large a leak could
still hide, and that other attacks were not tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from divulge.core import Estimate
from divulge.metrics.power import POWER, VisibleLeaks
from divulge.report import caveats, words
from divulge.report.schema import AttackRow, Blind, Level, ShadowKind

_DETECTED = (
    "So the use of a record in training can be detected; this audit does not show what else a "
    "record reveals, and attacks that were not tried may detect more."
)

_OTHERS = "attacks that were not tried may find more"

BACKWARDS = "attacks rank members below non-members"
"""The doubt that attacks cast, as a clause."""

COARSEST = 0.5
"""Share of exposed members that an audit must see with 80 % power, or it decides nothing."""


class Wording(NamedTuple):
    """The words of a verdict: its level, headline and sentences."""

    level: Level
    headline: str
    sentences: tuple[str, str]


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
    highest_tpr: float | None
    """The highest simultaneous upper limit of the TPR there."""
    p_value: float
    """Corrected p-value of the deciding attack; without a leak, the lowest of all attacks."""
    attacks: int
    """Number of attacks that were done."""
    leaks: bool
    """Whether chance fails to explain the scores."""
    seen: VisibleLeaks
    """The smallest leaks that the audit sees."""
    members: int
    """Number of members, over all models."""
    nonmembers: int
    """Number of non-members, over all models."""
    models: int = 1
    """Number of audited models."""
    knows: str = ""
    """What the attacker knows of each record; empty if all."""
    known_members: int = 0
    """How many members the attacker knows, which are not scored."""
    given: str = ""
    """The one number of each record that the attacker has; empty if it asks the model."""
    backwards: int = 0
    """Number of attacks that rank members below non-members, where chance cannot explain it and no
    attack shows a leak."""
    trained: bool = False
    """Whether divulge trained the models, on members that it drew."""
    blind: Blind | None = None
    """What tells members from non-members without the model; None if nothing was tried."""
    shift_excluded: bool = True
    """Whether anything speaks against a difference of members and non-members."""

    @property
    def enough(self) -> bool:
        """Whether the audit is large enough to see a model that exposes half of its members."""
        return self.seen.exposed is not None and self.seen.exposed <= COARSEST

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
        who = f"an attacker who sees only {self.given}" if self.given else self.strongest
        who += f" that knows only {self.knows} of each record" if self.knows else ""
        if self.known_members:
            others = words.format_count(self.known_members, "other member")
            who += f" of an attacker who knows {others}"
        who += "" if self.models == 1 else f" on {self.models} models"
        if self.top is None:
            value, low, high = words.per_hundred(self.auc)
            return (
                f"Shown one training record and one other record, {who} picks "
                f"the training record {value} % of the time (95 % interval {low} to {high} %; "
                f"guessing: 50 %; {self.p})"
            )
        share = self.members / (self.members + self.nonmembers)
        return (
            f"Of the {words.format_count(self.top.places, 'record')} that {who} ranks "
            f"highest, {self.top.members:.3g} {'is a' if self.top.members == 1 else 'are'} "
            f"training record{'' if self.top.members == 1 else 's'} (guessing: "
            f"{share * self.top.places:.3g}; {self.p})"
        )

    @property
    def hidden_leak(self) -> str:
        """A clause on how large a leak is compatible with all that was measured."""
        assert self.highest_auc is not None
        pair = f"picks the training record of a pair {100 * self.highest_auc:.0f} % of the time"
        if self.fpr is None or self.highest_tpr is None:
            return f"an attack that {pair}"
        return (
            f"an attack that {pair}, or that identifies {100 * self.highest_tpr:.2g} % of the "
            f"training records at a false-positive rate of {words.format_percent(self.fpr)}"
        )


def describe_leak(case: VerdictFacts) -> Wording:
    """The words for a leak: an attacker can tell members from non-members."""
    who = "This model leaks its" if case.models == 1 else "Models trained this way leak their"
    means = _DETECTED
    if case.blind and case.blind.differs and case.row.beyond_blind:
        more = case.row.beyond_blind
        high = more.value if more.high is None else more.high
        means = (
            f"Without the model the two sets are told apart too (AUC {case.blind.auc.value:.2f}); "
            f"{case.row.label} is {more.value:.2f} ({more.low:.2f} to {high:.2f}) above that. "
            f"What difficulty explains is left out of p. {_DETECTED}"
        )
    raised = (
        f"; training raised the scores of at least {case.raised:,} of them (95 % confidence)"
        if case.raised
        else ""
    )
    return Wording("leak", f"{who} training records", (f"{case.evidence}{raised}.", means))


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


def describe_broken_claim(sentence: str) -> Wording:
    """The words for a broken claim: no rate shows a leak, but a guarantee is contradicted."""
    return Wording("leak", "This model leaks more than was claimed for it", (sentence, _DETECTED))


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
    sign = f", or {case.given} is passed with the wrong sign" if case.given else ""
    if case.trained:
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
    sizes = f"{words.format_count(case.members, 'member')} and {case.nonmembers:,} non-members"
    return Wording(
        "undecided",
        "Too few records to decide whether this model leaks",
        (
            f"With {sizes}, chance could hide a model that exposes half of its training records.",
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
    who = "attack that was tried" if case.attacks == 1 else "attack that would decide"
    return Wording(
        "instrument failed",
        "The measuring instrument failed its own test",
        (
            f"The {who} {caveats.control_failure(case.row.control)}, so its figures on this model "
            "mean nothing.",
            "So this audit neither shows a leak nor rules one out.",
        ),
    )


def describe_nothing_measured(rows: Sequence[AttackRow]) -> Wording:
    """The words for an audit in which no attack came to an end."""
    asked = words.format_count(len(rows), "attack")
    return Wording(
        "nothing measured",
        "Nothing was measured",
        (
            f"Of {asked} asked for, none finished on this model.",
            "So this audit says nothing about what the model leaks; the table of attacks gives "
            "the reasons.",
        ),
    )


def sensitivity(seen: VisibleLeaks, attacks: int, power: float = POWER) -> str:
    """A sentence on the leaks that an audit finds with 80 % power, or with another power."""
    if seen.auc is None:
        return f"With {100 * power:g} % power this audit cannot see a leak of any size."
    alone = "the attack" if attacks == 1 else f"even one of the {attacks} attacks alone"
    exposed = (
        ""
        if seen.exposed is None
        else f", or if the model fully exposes {100 * seen.exposed:.2g} % of its training records"
    )
    return (
        f"With {100 * power:g} % power this audit sees a leak if {alone} has an AUC of "
        f"{seen.auc:.2f}{exposed}."
    )


def next_step(
    level: Level,
    shadows: ShadowKind = "none",
    enough: int | None = None,
    *,
    given: str = "",
    trained: bool = False,
) -> str:
    """What to do after reading the verdict.

    Args:
        level: the level of the verdict.
        shadows: whether there were shadow models.
        enough: members, and non-members, that would decide, where these could not.
        given: as in `VerdictFacts`.
        trained: whether divulge trained the models, on members that it drew.
    """
    if level == "inputs doubtful" and given:
        return (
            f"Check whether {given} is a loss, which is low for members, or a score, which is high "
            "for them, and pass it as loss or as score; then check the column that says who is a "
            "member. Correct either, and run the audit again. If both are right, weaken the "
            "defence or the unlearning until members score like non-members."
        )
    if level == "inputs doubtful" and trained:
        return (
            "Check that the training function trains on the records that it gets. If it does, "
            "weaken the defence until members score like non-members, and run the audit again."
        )
    stronger = "" if shadows != "none" else "Try the attacks with shadow models, which find more. "
    if given:
        stronger = "Audit the model, or a table of its answers: more attacks may find more. "
    return {
        "leak": "Compare defences on the same records (divulge compare), choose one, and audit "
        "the model that it trains.",
        "no leak found": f"{stronger}To see smaller leaks, give more records; divulge plan says "
        "how many.",
        "inputs doubtful": "Check what says who is a member: the column and its values, or the "
        "order of the two sets; correct it and run the audit again. If it is right, weaken the "
        "defence or the unlearning until members score like non-members.",
        "undecided": f"Give at least {enough} members and as many non-members, and run the audit "
        "again.",
        "leak or shift": "If members were drawn at random, say how (membership). If not, name a "
        "column that comes from elsewhere, such as a date or another model's loss, as blind; or "
        "audit the model with its records.",
        "confounded": "Draw members and non-members at random from one pool, remove copies, and "
        "run the audit again.",
        "instrument failed": "Repair or replace the attack that failed its control, then run the "
        "audit again.",
        "nothing measured": "Read in the table why each attack did not run, fix the cause, and "
        "continue with --resume.",
    }[level]
