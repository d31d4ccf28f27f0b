"""The verdict in plain language: sentences that a lawyer understands and cannot misread.

No sentence here calls a model harmless. Where nothing was found, it says how large a leak could
still hide, and that other attacks were not tried.
"""

from collections.abc import Sequence
from typing import NamedTuple

from divulge.catalog import SHADOW_ATTACKS
from divulge.core import Check, Estimate, Verdict
from divulge.report import words
from divulge.report.schema import AttackRow, ControlRow, Level, Shadows

_NOT_ONLY_MEMORY = (
    "This audit also measures the difference between its two data sets, "
    "not only what the model remembers"
)

_DETECTED = (
    "This shows that use of a record in training can be detected, not what else the record says; "
    "attacks that were not tried may detect more."
)


CONFOUNDERS = ("blind baseline", "duplicates")
"""Checks that, when they warn, make every figure mean something else."""


class Said(NamedTuple):
    """A verdict's words."""

    level: Level
    headline: str
    sentences: tuple[str, str]


class Case(NamedTuple):
    """What the words are about."""

    row: AttackRow
    """The attack that speaks for all."""
    metric: str
    """The metric to speak of."""
    attacks: int
    """How many attacks were done."""
    leaks: bool
    """An attack that passed its controls beats chance."""
    knows: str = ""
    """What the attacker knows of each record; empty if all."""

    @property
    def strongest(self) -> str:
        """The attack, by its place among those tried."""
        if self.attacks == 1:
            return "the one attack that was tried"
        return f"the strongest of the {self.attacks} attacks tried"

    def finding(self, who: str) -> str:
        """What the attack achieves, with its interval: a clause without its full stop."""
        value, low, high = words.of_hundred(self.row.metrics[self.metric])
        if self.metric == "auc":
            return (
                f"Given one training record and one outsider, {who} tells which is which in "
                f"{value} of every 100 cases (95 % interval {low} to {high})"
            )
        accused = f"{100 * self.fpr:g}"
        return (
            f"{who[0].upper()}{who[1:]} recognises {value} of every 100 training records "
            f"(95 % interval {low} to {high}) while wrongly accusing {accused} of every 100 "
            "outsiders"
        )

    @property
    def fpr(self) -> float:
        """The false-positive rate of the metric, if it is a TPR."""
        return float(self.metric.partition("@")[2])

    @property
    def guessing(self) -> str:
        """What guessing would reach: a clause without its full stop."""
        if self.metric == "auc":
            return "guessing would be right in 50"
        return f"guessing would recognise {100 * self.fpr:g}"


def leak(case: Case) -> Said:
    """Somebody can tell members from non-members."""
    only = f" and knows only {case.knows} of each record" if case.knows else ""
    return Said(
        "leak",
        "This model gives away whether records were in its training data",
        (
            f"{case.finding(f'someone who can query this model{only}')}; {case.guessing}.",
            _DETECTED,
        ),
    )


def broken_claim(sentence: str) -> Said:
    """No rate shows a leak, but more is given away than a guarantee allows."""
    return Said("leak", "This model gives away more than was claimed for it", (sentence, _DETECTED))


def no_leak(case: Case) -> Said:
    """Nothing was found, which is not the same as nothing there."""
    tried = "when one attack is" if case.attacks == 1 else f"when {case.attacks} attacks are"
    high = words.of_hundred(case.row.metrics[case.metric])[2]
    hidden = (
        f"tells members from outsiders in up to {high} of every 100 cases"
        if case.metric == "auc"
        else f"gives away up to {high} of every 100 training records in this way"
    )
    return Said(
        "no leak found",
        f"No leak was found by the {words.count(case.attacks, 'attack')} tried",
        (
            f"{case.finding(case.strongest)}, which chance can explain {tried} tried.",
            f"A leak that {hidden} could still hide from an audit of this size, and other kinds "
            "of attack were not tried.",
        ),
    )


def confounded(case: Case, confounding: str) -> Said:
    """The figures measure something else as well."""
    doubt = (
        "but how much of that is the model's memory, this audit cannot tell"
        if case.leaks
        else "and this audit can neither show a leak nor rule one out"
    )
    return Said(
        "confounded",
        "These figures do not measure the model alone",
        (confounding, f"{case.finding(case.strongest)}, {doubt}."),
    )


def instrument_failed(case: Case) -> Said:
    """The attack that would carry the verdict failed a control."""
    assert case.row.control is not None
    who = "attack that was tried" if case.attacks == 1 else "attack that would decide"
    return Said(
        "instrument failed",
        "The measuring instrument failed its own test",
        (
            f"The {who} {control_failure(case.row.control)}, so its figures on this model mean "
            "nothing.",
            "This audit therefore neither shows a leak nor rules one out: repair or replace the "
            "attack, then run it again.",
        ),
    )


def nothing_measured(rows: Sequence[AttackRow]) -> Said:
    """No attack has come to an end."""
    asked = words.count(len(rows), "attack")
    return Said(
        "nothing measured",
        "Nothing was measured",
        (
            f"Of {asked} asked for, none was carried out on this model to its end.",
            "This audit therefore says nothing about what the model gives away, be it much or "
            "little; the table of attacks gives the reasons.",
        ),
    )


def control_failure(control: ControlRow) -> str:
    """How an attack failed its controls, to follow its name: a clause without its full stop."""
    blind = control.blind
    if blind is not None and blind.measured is not None and not blind.passed:
        return (
            "separates members from non-members even when the model's predictions are shuffled "
            f"among the records ({_auc(blind.measured)}): it knows the membership from elsewhere, "
            "or the two data sets differ in themselves"
        )
    if control.planted is None:
        return f"could not be tried on a leak planted on purpose{_because(control.reason)}"
    if not control.sees:
        return f"did not find a leak planted on purpose ({_auc(control.planted)})"
    if blind is not None and not blind.passed:
        return f"could not be tried on shuffled predictions{_because(blind.reason)}"
    return (
        "raised a false alarm: with membership shuffled, only "
        f"{control.covered} of {control.shuffles} intervals covered chance"
    )


def _because(reason: str) -> str:
    return f" ({reason.rstrip('.')})" if reason else ""


def confounding(checks: Sequence[Check]) -> str:
    """Why every figure means something else, in one sentence; empty if no check says so."""
    warned = {check.name: check for check in checks if check.verdict is Verdict.WARNING}
    blind, duplicates = CONFOUNDERS
    reasons = []
    if blind in warned:
        auc = warned[blind].estimates.get("auc")
        seen = "" if auc is None else f" ({_auc(auc)})"
        reasons.append(f"a classifier that never saw the model tells them apart{seen}")
    if duplicates in warned:
        reasons.append(
            "copies of training records stand among the outsiders, which makes a leak look "
            "smaller than it is"
        )
    return f"{_NOT_ONLY_MEMORY}: {'; and '.join(reasons)}." if reasons else ""


def supposition(rows: Sequence[AttackRow], shadows: Shadows, knows: str = "") -> str:
    """What is supposed of the attacker, in one or two sentences; empty where it is nothing much."""
    done = [row for row in rows if row.attack in SHADOW_ATTACKS and row.status == "done"]
    said = []
    if knows:
        said.append(
            f"The attacker is supposed to know only {knows} of each record, and its class; one who "
            "knows more may achieve more."
        )
    if done and shadows != "none":
        owns = (
            "holds the candidates themselves, about half of them members, without knowing which"
            if shadows == "online"
            else "owns other records like the candidates"
        )
        said.append(
            "The attacks with shadow models suppose an attacker who knows how this model is "
            f"trained and {owns}; one who has less may achieve less."
        )
    return " ".join(said)


def _auc(estimate: Estimate) -> str:
    high = estimate.value if estimate.high is None else estimate.high
    return f"AUC {estimate.value:.3f}, 95 % interval {estimate.low:.3f} to {high:.3f}"
