"""These are the words of the verdict on what clients acted on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from divulge._util import showable
from divulge.core import Estimate, Finding, Interactions, Reconstruction
from divulge.metrics import interactions, membership
from divulge.metrics.uninformed.draws import RandomisationTest
from divulge.metrics.uninformed.interactions import FEWEST, BeyondPublic, SimulatedClicks
from divulge.report import words
from divulge.report.federation.verdicts.case import (
    OTHER_ROUNDS,
    PROTECT_UPDATES,
    Detectable,
    Judgement,
    VerdictWords,
)
from divulge.report.federation.verdicts.expected_clicks import judge_clicks
from divulge.report.schema import NotMeasured

SCOPE = (
    NotMeasured(
        "scope",
        "Clicks that anyone can guess",
        "The test takes off what the position and the features of an item and its clicks by other "
        "clients explain, and what the attack achieves on shuffled clicks. Without an update of "
        "shuffled clicks (the table of attacks says so), other public knowledge, such as what is "
        "popular elsewhere, can look like a leak.",
    ),
    NotMeasured(
        "scope",
        "Other secrets",
        "Only clicks on the items shown were attacked: not other interests, not who a client is.",
    ),
    OTHER_ROUNDS,
)


@dataclass(frozen=True)
class InteractionWords(VerdictWords):
    """Guesses of what each client acted on, and the truth if it is known."""

    guesses: Sequence[Sequence[Reconstruction] | None]
    truth: Sequence[Interactions] | None
    test: RandomisationTest | None
    beyond: Sequence[BeyondPublic | None] = ()
    """By attack, what its guess owes to nothing public."""
    simulated: Sequence[SimulatedClicks | None] = ()
    """By attack, how it does on simulated clients."""
    sums: Sequence[int] = ()
    leaks: ClassVar[str] = "This federation’s updates leak which items each client clicked"  # noqa: RUF001
    subject: ClassVar[str] = "what the clients acted on"
    setting: ClassVar[str] = "truth in [interactions]"
    defend: ClassVar[str] = PROTECT_UPDATES
    enough: ClassVar[str] = (
        f"Audit {FEWEST} or more clients who clicked some of their items and left others "
        "alone. Each client counts once: a client clicks similar items, so who guesses one of "
        "them by luck guesses many."
    )
    unjudged: ClassVar[str] = (
        "Attacks on simulated clients would say how good they are: that needs a learner "
        "(learner in [interactions]), which says how clients train."
    )
    explained: ClassVar[str] = "chance, or what is public, explains"
    detectable: ClassVar = Detectable("auc", "An attack that truly picks it {} of the time")
    figures: ClassVar[int] = 1

    def judge_expected(self, findings: Sequence[Finding], tried: Sequence[int]) -> Judgement | None:
        """See `VerdictWords`: by the first attack that was tried on simulated clients."""
        for attack in tried:
            told = self.simulated[attack] if self.simulated else None
            if told is not None:
                return judge_clicks(told, showable.make_showable(findings[attack].label))
        return None

    def describe_enough(self) -> str:
        """See `VerdictWords`; runs of earlier versions lack what the test needs."""
        beyond = [*self.beyond, *[None] * (len(self.guesses) - len(self.beyond))]
        done = [one for one, guess in zip(beyond, self.guesses, strict=True) if guess is not None]
        if any(one is None for one in done):
            return (
                "This run does not say how much of each guess public features explain: it was made "
                "by an earlier version."
            )
        return self.enough

    def describe_result(self, attack: int, statistic: str, confidence: float) -> str:
        """See `VerdictWords`."""
        del statistic
        told = self.beyond[attack] if self.beyond else None
        mixed = [interactions.is_mixed(one) for one in self.truth or ()]
        without = "not compared with shuffled clicks, so some of it may be public knowledge"
        if told is not None and told.shuffled is not None:
            share = words.percent_words(float(told.shuffled[mixed].mean()))
            without = f"the same attack on shuffled clicks: {share}"
        return (
            "picks the clicked one of two items, of which one was clicked, "
            f"{words.interval_words(self._auc(attack, confidence))} of the time (guessing: 50 %; "
            f"{without})"
        )

    def describe_hidden(self, attacks: Sequence[int], confidence: float) -> str:
        """See `VerdictWords`."""
        shares = [self._auc(k, confidence) for k in attacks]
        high = max(share.high or share.value for share in shares)
        return (
            "A leak that lets an attack pick the clicked item up to "
            f"{words.percent_words(high, math.ceil)} of the time could still hide."
        )

    def _auc(self, attack: int, confidence: float) -> Estimate:
        guess, truth, _ = self.measured(attack)
        return interactions.mean_over_users(
            [
                membership.auc(one.score, true.acted).value
                for one, true in zip(guess, truth, strict=True)
                if interactions.is_mixed(true)
            ],
            confidence,
        )
