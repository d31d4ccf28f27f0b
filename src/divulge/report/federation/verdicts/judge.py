"""One exact test over all attacks decides whether a federation leaks, whatever the secret is."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from divulge._util import showable
from divulge.core import Estimate, Finding, Status
from divulge.metrics.uninformed.draws import ERROR, RandomisationTest
from divulge.report import words
from divulge.report.schema import Level, NotMeasured

UNINFORMED = ("nobody", "random-interactions", "random")
"""Names of attacks, and of methods of one, that look at nothing: they show what guessing gives."""

PROTECT_UPDATES = (
    "Hide single updates from the server (secure aggregation), or let clients add noise before "
    "they send (local noise)."
)
"""What protects clients whose updates leak."""
OTHER_ROUNDS = NotMeasured(
    "scope",
    "Other rounds",
    "The audit covers only the rounds in the transcript: more rounds may leak more.",
)

_AGAIN = "run the audit again"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a federation."""

    level: Level
    headline: str
    sentences: tuple[str, ...]
    """What was found, with limits that hold for all attacks together, and what that means."""
    next_step: str
    """What to do now, in one sentence."""
    p_value: float | None
    """P-value of the one test over all attacks; None if nothing could be tested."""
    attack: str | None
    """Label of the attack that the first sentence speaks of."""


@runtime_checkable
class VerdictWords(Protocol):
    """The words of a verdict that depend on the secret."""

    leaks: ClassVar[str]
    """The headline for a leak."""
    asked: ClassVar[str]
    """A clause on what the attacks guess; it follows "nobody said"."""
    setting: ClassVar[str]
    """The settings in which the truth is given."""
    defend: ClassVar[str]
    """A sentence on what helps against a leak."""
    explained: ClassVar[str]
    """What explains a result that shows no leak, with its verb."""
    figures: ClassVar[int]
    """Number of figures of each attack that sentences may give; their limits hold together."""

    @property
    def test(self) -> RandomisationTest | None:
        """The test of all done attacks; None without the truth."""
        ...

    @property
    def enough(self) -> str:
        """A sentence on how many clients, records or items would be enough."""
        ...

    def describe_result(self, attack: int, statistic: str, confidence: float) -> str:
        """A clause, without its full stop, on what an attack achieves; it follows the name."""
        ...

    def describe_hidden(self, attacks: Sequence[int], confidence: float) -> str:
        """A sentence on how large a leak could still hide from these attacks."""
        ...

    def describe_visible(self, tested: RandomisationTest) -> str:
        """A sentence on what four of five such audits would find; empty if nothing can be said."""
        ...


def judge_federation(
    case: VerdictWords, findings: Sequence[Finding], unsound: Collection[int] = ()
) -> Judgement:
    """Judge a federation.

    Args:
        case: what the attacks guessed, and the truth.
        findings: one finding an attack.
        unsound: positions of the attacks that failed a control. Their figures show no leak, but
            where they alone would show one, nobody may say that nothing was found.
    """
    tried = [
        k for k, one in enumerate(findings) if one.status is Status.DONE and not is_uninformed(one)
    ]
    tested = case.test
    if not tried:
        return _conclude_nothing_tried(len(findings))
    if tested is None:
        return _conclude_unchecked(case)
    if tested.smallest > ERROR * (1 + 1e-9):
        return _conclude_too_small(case, tested)
    sound = [k for k in tried if k not in unsound]
    believed = tested.of(sound)
    if believed.columns and believed.p <= ERROR:
        return _conclude_leak(case, findings, believed, sound)
    below = believed.reverse()
    if below.columns and below.p <= ERROR / 2:  # both tails: a two-sided test
        return _conclude_doubtful(case, findings, below, sound)
    every = tested.of(tried)
    if not sound or (len(sound) < len(tried) and every.p <= ERROR):
        return _conclude_failed_instrument(findings, every)
    return _conclude_no_leak(case, findings, believed, sound)


def is_uninformed(finding: Finding) -> bool:
    """Whether the attack looks at nothing, so that it can find no leak."""
    return finding.attack in UNINFORMED or finding.settings.get("method") in UNINFORMED


def interval_words(estimate: Estimate) -> str:
    """Format a share with its limits, for a sentence.

    Examples:
        >>> interval_words(Estimate(0.84, 0.75, 0.91))
        '84 % (95 % interval 75 to 91)'
    """
    value, low, high = words.per_hundred(estimate)
    return f"{value} % (95 % interval {low} to {high})"


def percent_words(share: float, rounded: Callable[[float], int] = round) -> str:
    """Format a share without decimals; limits are rounded up or down so as not to understate.

    Examples:
        >>> import math
        >>> percent_words(0.474), percent_words(0.474, math.ceil), percent_words(-0.2)
        ('47 %', '48 %', '0 %')
    """
    return f"{rounded(100 * min(1.0, max(0.0, share)))} %"


def p_words(p: float) -> str:
    """Format a p-value for a sentence.

    Examples:
        >>> p_words(0.001), p_words(0.32), p_words(1e-4)
        ('p = 0.001', 'p = 0.32', 'p < 0.001')
    """
    if p < 0.001 - 1e-9:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _conclude_nothing_tried(asked: int) -> Judgement:
    return Judgement(
        "nothing measured",
        "No attack could be carried out",
        (
            f"Of {words.format_count(asked, 'attack')} asked for, none ran to its end, apart from "
            "baselines that look at nothing.",
            "This audit says nothing about what the federation leaks.",
        ),
        f"The table of attacks gives the reasons: fix them, then {_AGAIN}.",
        None,
        None,
    )


def _conclude_unchecked(case: VerdictWords) -> Judgement:
    return Judgement(
        "nothing measured",
        "The predictions could not be checked",
        (
            f"The attacks made predictions, but nobody gave the truth ({case.asked}), so no "
            "prediction was checked.",
            "This audit neither shows a leak nor rules one out.",
        ),
        f"Give the truth ({case.setting}), then {_AGAIN}.",
        None,
        None,
    )


def _conclude_too_small(case: VerdictWords, tested: RandomisationTest) -> Judgement:
    return Judgement(
        "undecided",
        "This audit is too small to decide",
        (
            f"Chance alone gives a perfect result here with p = {tested.smallest:.2g}. A leak is "
            f"declared at p = {ERROR:g} or less, so not even a perfect attack could show one.",
            "This audit neither shows a leak nor rules one out.",
        ),
        f"{case.enough} Then {_AGAIN}.",
        None,
        None,
    )


def _conclude_leak(
    case: VerdictWords, findings: Sequence[Finding], tested: RandomisationTest, sound: Sequence[int]
) -> Judgement:
    found, label = _strongest_result(case, findings, tested, sound)
    return Judgement(
        "leak",
        case.leaks,
        (
            f"{found}.",
            f"Without a leak, chance gives so strong a result in {100 * tested.p:.2g} % of audits "
            f"({_test_words(tested, sound)}). Attacks that were not tried may find more.",
        ),
        f"{case.defend} Then {_AGAIN}, and compare.",
        tested.p,
        label,
    )


def _conclude_doubtful(
    case: VerdictWords, findings: Sequence[Finding], below: RandomisationTest, sound: Sequence[int]
) -> Judgement:
    assert below.strongest is not None
    attack, statistic = below.strongest
    achieved = case.describe_result(attack, statistic, _confidence(case, sound))
    who = "The attack" if len(sound) == 1 else f"The one furthest below of {len(sound)} attacks"
    p = min(1.0, 2 * below.p)
    over = "" if len(sound) == 1 else f", one test over all {len(sound)} attacks"
    return Judgement(
        "inputs doubtful",
        "Inputs doubtful: the truth looks reversed",
        (
            f"{who} {achieved}: chance does not explain a result so far below guessing "
            f"({p_words(p)}{over}).",
            "If the truth is right, a defence overshoots, and whoever reverses the guesses finds "
            "the secret: this audit neither shows a leak nor rules one out.",
        ),
        f"Check the truth ({case.setting}): what its values mean, and its order. Then {_AGAIN}.",
        p,
        showable.make_showable(findings[attack].label),
    )


def _conclude_no_leak(
    case: VerdictWords, findings: Sequence[Finding], tested: RandomisationTest, sound: Sequence[int]
) -> Judgement:
    found, label = _strongest_result(case, findings, tested, sound)
    return Judgement(
        "no leak found",
        f"No leak was found by the {words.format_count(len(sound), 'attack')} tried",
        (
            f"{found}: {case.explained} this ({_test_words(tested, sound)}).",
            f"{case.describe_hidden(sound, _confidence(case, sound))} "
            f"{case.describe_visible(tested)}".rstrip(),
            "Other kinds of attack were not tried.",
        ),
        "If a smaller leak matters, audit more clients or records, or try more attacks "
        "(divulge list attacks).",
        tested.p,
        label,
    )


def _conclude_failed_instrument(
    findings: Sequence[Finding], tested: RandomisationTest
) -> Judgement:
    strongest = tested.strongest
    return Judgement(
        "instrument failed",
        "The measuring instrument failed its own test",
        (
            "The attack that would decide failed a control, so its figures mean nothing.",
            "This audit neither shows a leak nor rules one out.",
        ),
        f"Repair or replace the attack, then {_AGAIN}.",
        None,
        None if strongest is None else findings[strongest[0]].label,
    )


def _strongest_result(
    case: VerdictWords, findings: Sequence[Finding], tested: RandomisationTest, sound: Sequence[int]
) -> tuple[str, str]:
    """What the strongest attack achieves, and its label."""
    assert tested.strongest is not None
    attack, statistic = tested.strongest
    achieved = case.describe_result(attack, statistic, _confidence(case, sound))
    who = "The attack" if len(sound) == 1 else f"The strongest of the {len(sound)} attacks"
    return f"{who} {achieved}", showable.make_showable(findings[attack].label)


def _confidence(case: VerdictWords, sound: Sequence[int]) -> float:
    """The confidence of each limit, so that all limits hold together (Bonferroni)."""
    return 1 - ERROR / (case.figures * len(sound))


def _test_words(tested: RandomisationTest, sound: Sequence[int]) -> str:
    over = "" if len(sound) == 1 else f", one test over all {len(sound)} attacks"
    return f"{p_words(tested.p)}{over}"
