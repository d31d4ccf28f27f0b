"""These are the words of the verdict on what clients acted on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from divulge._util import showable
from divulge.core import Estimate, Finding, Interactions, Reconstruction
from divulge.metrics import interactions, intervals, membership
from divulge.metrics.uninformed.draws import RandomisationTest
from divulge.metrics.uninformed.interactions import FEWEST, BeyondPublic, SimulatedClicks
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
from divulge.report.federation.verdicts.expected_clicks import count_clicks, judge_clicks
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
    question: ClassVar[str] = "May the server know what each user clicked?"
    protect: ClassVar[str] = HIDE_UPDATES
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
            clicks = self.simulated[attack] if self.simulated else None
            if clicks is not None:
                return judge_clicks(clicks, showable.make_showable(findings[attack].label))
        return None

    def describe_enough(self) -> str:
        """See `VerdictWords`; runs of earlier versions lack what the test needs."""
        beyond = [*self.beyond, *[None] * (len(self.guesses) - len(self.beyond))]
        done = [
            clicks for clicks, guess in zip(beyond, self.guesses, strict=True) if guess is not None
        ]
        if any(clicks is None for clicks in done):
            return (
                "This run does not say how much of each guess public features explain: it was made "
                "by an earlier version."
            )
        return self.enough

    def describe_result(self, attack: int, statistic: str, confidence: float) -> str:
        """See `VerdictWords`."""
        del statistic
        clicks = self.beyond[attack] if self.beyond else None
        mixed = [interactions.is_mixed(user) for user in self.truth or ()]
        without = "not compared with shuffled clicks, so some of it may be public knowledge"
        if clicks is not None and clicks.shuffled is not None:
            share = words.percent_words(float(clicks.shuffled[mixed].mean()))
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

    def count_result(self, attack: int, statistic: str, confidence: float) -> Count:
        """See `VerdictWords`: items that are named, or pairs if naming is no better than chance."""
        del statistic
        auc, named = self._auc(attack, confidence), self._named(attack, confidence)
        if named.share.low <= named.random:
            number, limits, dots = round_share(auc, auc.high or auc.value, "pairs are told apart")
            pairs = f"{_PAIRS}, the server picks the clicked one in {number}{limits}."
            return Count(f"{number} of 100 pairs", (pairs, self._count_without(attack)), dots)
        most = named.share.high or named.share.value
        number, limits, dots = round_share(named.share, most, "clicked items are named")
        return Count(
            f"{number} of 100",
            (
                f"Of 100 items that users clicked, the server names {number}{limits}. "
                f"As many names drawn at random would hit {round(100 * named.random)}.",
                f"{_PAIRS}, it picks the clicked one in {round(100 * auc.value)}. "
                f"{self._count_without(attack)}",
            ),
            dots,
        )

    def count_hidden(self, attacks: Sequence[int], confidence: float) -> Count:
        """See `VerdictWords`."""
        shares = {k: self._auc(k, confidence) for k in attacks}
        highest = max(attacks, key=lambda k: shares[k].high or shares[k].value)
        most = shares[highest].high or shares[highest].value
        number, _, dots = round_share(None, most, "pairs are told apart")
        sentence = f"{_PAIRS}, the server picks the clicked one in {number}."
        guessing = f"Guessing would be right in 50. {self._count_without(highest)}"
        return Count(f"{number} of 100 pairs", (sentence, guessing), dots)

    def count_expected(self, findings: Sequence[Finding], tried: Sequence[int]) -> Count | None:
        """See `VerdictWords`."""
        del findings
        simulated = (self.simulated[k] if self.simulated else None for k in tried)
        return next((count_clicks(clicks) for clicks in simulated if clicks is not None), None)

    def describe_attacker(self) -> str:
        """See `VerdictWords`."""
        return (
            "The server. It sees what each user's device sends, knows how it trains, and which "
            "items each user was shown."
        )

    def _named(self, attack: int, confidence: float) -> "_NamedItems":
        guess, truth, _ = self.measured(attack)
        pairs = [
            (guessed.decided, true.acted)
            for guessed, true in zip(guess, truth, strict=True)
            if interactions.is_mixed(true)
        ]
        acted = np.array([int(acted.sum()) for _, acted in pairs])
        right = np.array([int((decided & acted).sum()) for decided, acted in pairs])
        # a user of whom a share s of the items is named loses s of the clicks to chance alone
        chance = (
            sum(float(decided.mean()) * int(acted.sum()) for decided, acted in pairs) / acted.sum()
        )
        limits = intervals.clustered_proportion(right, acted, confidence)
        return _NamedItems(Estimate(float(right.sum() / acted.sum()), *limits), float(chance))

    def _count_without(self, attack: int) -> str:
        """What the same attack reaches where clicks were shuffled before training."""
        clicks = self.beyond[attack] if self.beyond else None
        if clicks is None or clicks.shuffled is None:
            return "A part of that may come from what everybody knows."
        mixed = [interactions.is_mixed(user) for user in self.truth or ()]
        right = round(100 * clicks.shuffled[mixed].mean())
        return f"Where clicks are shuffled, it is right in {right}."

    def _auc(self, attack: int, confidence: float) -> Estimate:
        guess, truth, _ = self.measured(attack)
        return interactions.mean_over_users(
            [
                membership.auc(guessed.score, true.acted).value
                for guessed, true in zip(guess, truth, strict=True)
                if interactions.is_mixed(true)
            ],
            confidence,
        )


_PAIRS = "Shown 100 pairs, each of a clicked item and another one"


class _NamedItems(NamedTuple):
    """Clicked items that an attack names."""

    share: Estimate
    """Of the clicked items, as a share."""
    random: float
    """The share that as many names drawn at random would hit."""
