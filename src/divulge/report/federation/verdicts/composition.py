"""These are the words of the verdict on which classes clients hold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from divulge._util import showable
from divulge.core import Estimate, Finding, Proportions
from divulge.metrics import composition
from divulge.metrics.uninformed.draws import RandomisationTest
from divulge.report import words
from divulge.report.brief import round_share
from divulge.report.federation.verdicts.case import (
    HIDE_UPDATES,
    OTHER_ROUNDS,
    PROTECT_UPDATES,
    Count,
    Detectable,
    Judgement,
    VerdictWords,
)
from divulge.report.federation.verdicts.expected_shares import ExpectedShares
from divulge.report.schema import NotMeasured

SCOPE = (
    NotMeasured(
        "scope",
        "What all clients have in common",
        "The test asks whether guesses fit their own client better than other clients. A mix of "
        "classes that all clients share can leak without being noticed here.",
    ),
    NotMeasured(
        "scope",
        "Other secrets",
        "Only class shares were attacked: not who a record belongs to, not what records contain.",
    ),
    OTHER_ROUNDS,
)


@dataclass(frozen=True)
class CompositionWords(VerdictWords):
    """Guesses of class shares, one a client, and the truth if it is known."""

    guesses: Sequence[Sequence[Proportions] | None]
    truth: Sequence[Proportions] | None
    test: RandomisationTest | None
    sums: Sequence[int] = ()
    leaks: ClassVar[str] = "This federation’s updates leak which classes each client holds"  # noqa: RUF001
    subject: ClassVar[str] = "what the clients hold"
    setting: ClassVar[str] = "counts in [updates]"
    defend: ClassVar[str] = PROTECT_UPDATES
    question: ClassVar[str] = "May the server know which classes each client holds?"
    protect: ClassVar[str] = HIDE_UPDATES
    enough: ClassVar[str] = (
        "Audit 4 or more clients whose class shares all differ: 4 are enough to show a "
        "perfect leak."
    )
    unjudged: ClassVar[str] = (
        "None of the attacks that ran simulates clients whose class shares it knows, as decaf "
        "(level virtual or refined) and ldia do, so nothing says how far off they are."
    )
    detectable: ClassVar = Detectable(
        "l1", "Guesses that truly put {} or fewer there", -0.5, math.floor
    )

    def judge_expected(self, findings: Sequence[Finding], tried: Sequence[int]) -> Judgement | None:
        """See `VerdictWords`: by the first attack that simulates clients."""
        expectations = ((k, ExpectedShares.of(self.guesses[k])) for k in tried)
        for attack, shares in expectations:
            if shares is not None:
                return shares.judge(showable.make_showable(findings[attack].label))
        return None

    def describe_result(self, attack: int, statistic: str, confidence: float) -> str:
        """See `VerdictWords`."""
        guess, truth, tested = self.measured(attack)
        without = tested.null_mean(attack, statistic)
        if statistic == "l1":
            misplaced = words.interval_words(_misplaced_share(guess, truth, confidence))
            return (
                f"puts {misplaced} of a client’s records into wrong classes; "  # noqa: RUF001
                "with guesses exchanged among clients it would be "
                f"{words.percent_words(-without / 2)}"
            )
        right = composition.measure_null_classes(guess, truth, confidence)[0]["null_accuracy"]
        return (
            f"says rightly of {words.interval_words(right)} of the classes whether a client holds "
            f"any; with guesses exchanged among clients it would be {words.percent_words(without)}"
        )

    def describe_hidden(self, attacks: Sequence[int], confidence: float) -> str:
        """See `VerdictWords`."""
        wrong = [_misplaced_share(*self.measured(k)[:2], confidence).low for k in attacks]
        return (
            "A leak that lets guesses put as few as "
            f"{words.percent_words(min(wrong), math.floor)} of a client’s records into wrong "  # noqa: RUF001
            "classes could still hide."
        )

    def count_result(self, attack: int, statistic: str, confidence: float) -> Count:
        """See `VerdictWords`."""
        guess, truth, tested = self.measured(attack)
        without = tested.null_mean(attack, statistic)
        if statistic == "l1":
            right = _right_share(_misplaced_share(guess, truth, confidence))
            sentence = _PLACES + "it puts {}{} into the right class."
            what, without = "records are put into the right class", 1 + without / 2
        else:
            right = composition.measure_null_classes(guess, truth, confidence)[0]["null_accuracy"]
            sentence = "Of 100 classes, the server tells for {}{} whether a client holds any of it."
            what = "classes are judged rightly"
        number, limits, dots = round_share(right, right.high or right.value, what)
        guessing = f"Its answers about other clients would be right for {round(100 * without)}."
        return Count(
            f"{number} of 100",
            (sentence.format(number, limits), guessing, *_count_absent(guess, truth)),
            dots,
        )

    def count_hidden(self, attacks: Sequence[int], confidence: float) -> Count:
        """See `VerdictWords`."""
        wrong = min(_misplaced_share(*self.measured(k)[:2], confidence).low for k in attacks)
        number, _, dots = round_share(None, 1 - wrong, "records are put into the right class")
        assert self.test is not None
        without = max(1 + self.test.null_mean(k, "l1") / 2 for k in attacks)
        sentence = f"{_PLACES}it puts {number} into the right class."
        guessing = f"Its answers about other clients would be right for {round(100 * without)}."
        return Count(f"{number} of 100", (sentence, guessing), dots)

    def count_expected(self, findings: Sequence[Finding], tried: Sequence[int]) -> Count | None:
        """See `VerdictWords`."""
        del findings
        expectations = (ExpectedShares.of(self.guesses[k]) for k in tried)
        return next((shares.count() for shares in expectations if shares is not None), None)

    def describe_attacker(self) -> str:
        """See `VerdictWords`."""
        return (
            "The server. It sees what each client sends, knows how clients train, and has some "
            "records of the same kind."
        )


_PLACES = "The server says how many records of each class a client holds. Of 100 records "


def _right_share(wrong: Estimate) -> Estimate:
    assert wrong.high is not None
    return Estimate(1 - wrong.value, 1 - wrong.high, 1 - wrong.low)


def _count_absent(guess: Sequence[Proportions], truth: Sequence[Proportions]) -> tuple[str, ...]:
    """For how many clients the classes that they lack are named; nothing if none lacks any."""
    if not any(client.null.any() for client in truth):
        return ()
    right = sum(bool((a.null == b.null).all()) for a, b in zip(guess, truth, strict=True))
    many = words.format_count(len(truth), "client")
    return (f"Of {many}, it tells for {right} exactly which classes they lack.",)


def _misplaced_share(
    guess: Sequence[Proportions], truth: Sequence[Proportions], confidence: float
) -> Estimate:
    """The mean share of a client's records in wrong classes: half of the L1 distance."""
    distance = composition.distances(guess, truth, confidence)["l1"]
    assert distance.high is not None
    return Estimate(distance.value / 2, distance.low / 2, distance.high / 2)
