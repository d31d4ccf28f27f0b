"""One exact test over all attacks decides whether a federation leaks, whatever the secret is."""

from collections.abc import Collection, Sequence

from divulge._util import showable
from divulge.attacks.catalog import UNINFORMED
from divulge.core import Finding, Status
from divulge.metrics.uninformed.draws import ERROR, RandomisationTest
from divulge.report import words
from divulge.report.federation.verdicts.case import Judgement, VerdictWords

_AGAIN = "run the audit again"
_CANARIES = "To measure what sums leak of a client, let canary clients take part (divulge canary)."


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
    tried = tried_attacks(findings)
    tested = case.test
    if not tried:
        return _conclude_sums(case) if case.sums else _conclude_nothing_tried(len(findings))
    if tested is None:
        return case.judge_expected(findings, tried) or _conclude_unchecked(case)
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


def tried_attacks(findings: Sequence[Finding]) -> list[int]:
    """Positions of the attacks that are done and look at something.

    Args:
        findings: one an attack.
    """
    return [
        k
        for k, finding in enumerate(findings)
        if finding.status is Status.DONE and not is_uninformed(finding)
    ]


def is_uninformed(finding: Finding) -> bool:
    """Whether the attack looks at nothing, so that it can find no leak."""
    return finding.attack in UNINFORMED or finding.settings.get("method") in UNINFORMED


def _conclude_nothing_tried(count: int) -> Judgement:
    return Judgement(
        "nothing measured",
        "No attack could be carried out",
        (
            f"Of {words.format_count(count, 'attack')} asked for, none ran to its end, apart from "
            "baselines that look at nothing.",
            "This audit says nothing about what the federation leaks.",
        ),
        f"The table of attacks gives the reasons: fix them, then {_AGAIN}.",
        None,
        None,
    )


def _conclude_sums(case: VerdictWords) -> Judgement:
    fewest, rounds = min(case.sums), words.format_count(len(case.sums), "round")
    if fewest < 3:
        visible = (
            "A sum of one client is its update."
            if fewest == 1
            else "Either client of two takes its own update off, and has the other's."
        )
        return Judgement(
            "undecided",
            "Some sums are of so few clients that they hide little",
            (
                f"A defence shows the server sums of updates alone in {rounds}; the fewest clients "
                f"of a sum are {fewest}. {visible}",
                f"No attack here reads {case.subject} from a sum, so nothing was measured.",
            ),
            f"Keep the protection, and let each sum be of more clients. {_CANARIES}",
            None,
            None,
        )
    return Judgement(
        "nothing measured",
        "A defence hides single updates: the server saw sums alone",
        (
            f"In {rounds} the server got the sum of {fewest} clients or more, and no client's own "
            "update, so attacks on single updates do not apply.",
            "A sum shows what its clients have in common. No attack here reads from it "
            f"{case.subject}: this audit rules out no leak by sums.",
        ),
        f"Keep the protection. {_CANARIES}",
        None,
        None,
    )


def _conclude_unchecked(case: VerdictWords) -> Judgement:
    return Judgement(
        "nothing measured",
        "The predictions could not be checked",
        (
            f"The attacks made predictions, but nobody gave the truth ({case.subject}), so no "
            "prediction was checked.",
            case.unjudged,
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
        f"{case.describe_enough()} Then {_AGAIN}.",
        None,
        None,
    )


def _conclude_leak(
    case: VerdictWords, findings: Sequence[Finding], tested: RandomisationTest, sound: Sequence[int]
) -> Judgement:
    result, label = _strongest_result(case, findings, tested, sound)
    return Judgement(
        "leak",
        case.leaks,
        (
            f"{result}.",
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
    achieved = case.describe_result(attack, statistic, confidence_of_each(case, sound))
    subject = "The attack" if len(sound) == 1 else f"The one furthest below of {len(sound)} attacks"
    p = min(1.0, 2 * below.p)
    over = "" if len(sound) == 1 else f", one test over all {len(sound)} attacks"
    return Judgement(
        "inputs doubtful",
        "Inputs doubtful: the truth looks reversed",
        (
            f"{subject} {achieved}: chance does not explain a result so far below guessing "
            f"({words.p_words(p)}{over}).",
            "If the truth is right, a defence overshoots, and whoever reverses the guesses finds "
            "the secret: this audit neither shows a leak nor rules one out.",
        ),
        f"Check the truth ({case.setting}), what its values mean and its order, and the sign of "
        f"what clients sent. Then {_AGAIN}.",
        p,
        showable.make_showable(findings[attack].label),
    )


def _conclude_no_leak(
    case: VerdictWords, findings: Sequence[Finding], tested: RandomisationTest, sound: Sequence[int]
) -> Judgement:
    result, label = _strongest_result(case, findings, tested, sound)
    return Judgement(
        "no leak found",
        f"No leak was found by the {words.format_count(len(sound), 'attack')} tried",
        (
            f"{result}: {case.explained} this ({_test_words(tested, sound)}).",
            f"{case.describe_hidden(sound, confidence_of_each(case, sound))} "
            f"{case.describe_detectable(tested)}".rstrip(),
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
    achieved = case.describe_result(attack, statistic, confidence_of_each(case, sound))
    subject = "The attack" if len(sound) == 1 else f"The strongest of the {len(sound)} attacks"
    return f"{subject} {achieved}", showable.make_showable(findings[attack].label)


def confidence_of_each(case: VerdictWords, sound: Sequence[int]) -> float:
    """The confidence of each limit, so that all limits hold together (Bonferroni).

    Args:
        case: what the attacks guessed, and the truth.
        sound: positions of the attacks whose limits hold together.
    """
    return 1 - ERROR / (case.figures * len(sound))


def _test_words(tested: RandomisationTest, sound: Sequence[int]) -> str:
    over = "" if len(sound) == 1 else f", one test over all {len(sound)} attacks"
    return f"{words.p_words(tested.p)}{over}"
