"""These are the words of the verdict on what clients acted on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from divulge.core import Estimate, Interactions, Reconstruction
from divulge.metrics import interactions, membership
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
        "Clicks that anyone can guess",
        "The test supposes that, without the update, each item shown to a client is as likely to "
        "be clicked as any other. Where clients prefer the first or the most popular items, an "
        "attack can find clicks by that habit alone.",
    ),
    NotMeasured(
        "scope",
        "Other secrets",
        "Only clicks on the items shown were attacked: not other interests, not who a client is.",
    ),
    OTHER_ROUNDS,
)


@dataclass(frozen=True)
class InteractionWords:
    """Guesses of what each client acted on, and the truth if it is known."""

    guesses: Sequence[Sequence[Reconstruction] | None]
    truth: Sequence[Interactions] | None
    test: RandomisationTest | None
    leaks: ClassVar[str] = "This federation’s updates leak which items each client clicked"  # noqa: RUF001
    asked: ClassVar[str] = "what the clients acted on"
    setting: ClassVar[str] = "truth in [interactions]"
    defend: ClassVar[str] = PROTECT_UPDATES
    enough: ClassVar[str] = (
        "Audit more clients, or clients who were shown more items: one client who clicked 4 of 8 "
        "is enough to show a perfect leak."
    )
    figures: ClassVar[int] = 1

    def describe_result(self, attack: int, statistic: str, confidence: float) -> str:
        """See `VerdictWords`."""
        del statistic
        return (
            "picks the clicked one of two items, of which one was clicked, "
            f"{interval_words(self._auc(attack, confidence))} of the time (guessing: 50 %)"
        )

    def describe_hidden(self, attacks: Sequence[int], confidence: float) -> str:
        """See `VerdictWords`."""
        shares = [self._auc(k, confidence) for k in attacks]
        high = max(share.high or share.value for share in shares)
        return (
            "A leak that lets an attack pick the clicked item up to "
            f"{percent_words(high, math.ceil)} of the time could still hide."
        )

    def describe_visible(self, tested: RandomisationTest) -> str:
        """See `VerdictWords`."""
        needed = tested.detectable_value("auc")
        if needed is None:
            return ""
        return (
            f"An attack that truly picks it {percent_words(needed, math.ceil)} of the time would "
            "be found in four of five such audits."
        )

    def _auc(self, attack: int, confidence: float) -> Estimate:
        guess, truth = self.guesses[attack], self.truth
        assert guess is not None
        assert truth is not None
        return interactions.mean_over_users(
            [
                membership.auc(one.score, true.acted).value
                for one, true in zip(guess, truth, strict=True)
                if interactions.is_mixed(true)
            ],
            confidence,
        )
