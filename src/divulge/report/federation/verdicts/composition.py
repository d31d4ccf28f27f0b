"""These are the words of the verdict on which classes clients hold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from divulge.core import Estimate, Proportions
from divulge.metrics import composition
from divulge.metrics.uninformed.draws import RandomisationTest
from divulge.report.federation.verdicts.judge import (
    OTHER_ROUNDS,
    PROTECT_UPDATES,
    interval_words,
    percent_words,
)
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
class CompositionWords:
    """Guesses of class shares, one a client, and the truth if it is known."""

    guesses: Sequence[Sequence[Proportions] | None]
    truth: Sequence[Proportions] | None
    test: RandomisationTest | None
    leaks: ClassVar[str] = "This federation’s updates leak which classes each client holds"  # noqa: RUF001
    asked: ClassVar[str] = "what the clients hold"
    setting: ClassVar[str] = "counts in [updates]"
    defend: ClassVar[str] = PROTECT_UPDATES
    enough: ClassVar[str] = (
        "Audit 4 or more clients whose class shares all differ: 4 are enough to show a "
        "perfect leak."
    )
    explained: ClassVar[str] = "chance explains"
    figures: ClassVar[int] = 2

    def describe_result(self, attack: int, statistic: str, confidence: float) -> str:
        """See `VerdictWords`."""
        guess, truth, tested = self.guesses[attack], self.truth, self.test
        assert guess is not None
        assert truth is not None
        assert tested is not None
        without = tested.null_mean(attack, statistic)
        if statistic == "l1":
            misplaced = interval_words(_misplaced_share(guess, truth, confidence))
            return (
                f"puts {misplaced} of a client’s records into wrong classes; "  # noqa: RUF001
                f"with guesses exchanged among clients it would be {percent_words(-without / 2)}"
            )
        right = composition.measure_null_classes(guess, truth, confidence)[0]["null_accuracy"]
        return (
            f"says rightly of {interval_words(right)} of the classes whether a client holds any; "
            f"with guesses exchanged among clients it would be {percent_words(without)}"
        )

    def describe_hidden(self, attacks: Sequence[int], confidence: float) -> str:
        """See `VerdictWords`."""
        truth = self.truth
        assert truth is not None
        wrong = [
            _misplaced_share(guess, truth, confidence).low
            for k in attacks
            if (guess := self.guesses[k]) is not None
        ]
        return (
            f"A leak that lets guesses put as few as {percent_words(min(wrong), math.floor)} of a "
            "client’s records into wrong classes could still hide."  # noqa: RUF001
        )

    def describe_visible(self, tested: RandomisationTest) -> str:
        """See `VerdictWords`."""
        needed = tested.detectable_value("l1")
        if needed is None:
            return ""
        return (
            f"Guesses that truly put {percent_words(-needed / 2, math.floor)} or fewer there would "
            "be found in four of five such audits."
        )


def _misplaced_share(
    guess: Sequence[Proportions], truth: Sequence[Proportions], confidence: float
) -> Estimate:
    """The mean share of a client's records in wrong classes: half of the L1 distance."""
    one = composition.distances(guess, truth, confidence)["l1"]
    assert one.high is not None
    return Estimate(one.value / 2, one.low / 2, one.high / 2)
