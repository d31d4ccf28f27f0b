"""These are the words of the verdict on which client trained on each record."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from divulge.core import Assignment, Collusion
from divulge.metrics import assignment, membership
from divulge.metrics.uninformed.assignment import TOPS
from divulge.metrics.uninformed.draws import RandomisationTest
from divulge.report import words
from divulge.report.brief import round_share
from divulge.report.federation.verdicts.case import (
    Count,
    Detectable,
    VerdictWords,
)
from divulge.report.parts import Dots
from divulge.report.schema import NotMeasured

SCOPE = (
    NotMeasured(
        "scope",
        "Records that differ between clients",
        "The test shuffles owners among candidates of the same class. If the records of a class "
        "also differ from client to client, an attack can name clients by that difference alone.",
    ),
    NotMeasured(
        "scope",
        "Other secrets",
        "Only who trained on a record was attacked: not the class shares of clients, not what "
        "records contain.",
    ),
    NotMeasured(
        "scope", "Other training runs", "One model of each client: another run may leak more."
    ),
)


@dataclass(frozen=True)
class AssignmentWords(VerdictWords):
    """Guesses of who trained on each candidate, and the truth if it is known."""

    guesses: Sequence[Assignment | None]
    truth: Assignment | None
    known: Collusion
    test: RandomisationTest | None
    leaks: ClassVar[str] = "The clients’ models leak who trained on a record"  # noqa: RUF001
    subject: ClassVar[str] = "who trained on the candidates"
    setting: ClassVar[str] = "truth in [assignment]"
    defend: ClassVar[str] = (
        "Train the clients’ models with differential privacy (DP-SGD), or stop training "  # noqa: RUF001
        "earlier."
    )
    question: ClassVar[str] = "May others find out which client trained on a record?"
    protect: ClassVar[str] = "train with noise (differential privacy), or stop training earlier"
    unjudged: ClassVar[str] = (
        "No attack here simulates clients whose records it knows, so nothing says how often they "
        "are right."
    )
    enough: ClassVar[str] = (
        "Give more candidates: 4 that a client trained on and 4 others, all of one class, are "
        "enough to show a perfect leak."
    )
    detectable: ClassVar = Detectable(
        "accuracy", "An attack of this kind that is truly right for {} of them"
    )

    def describe_result(self, attack: int, statistic: str, confidence: float) -> str:
        """See `VerdictWords`."""
        guess, truth, tested = self.measured(attack)
        without = tested.null_mean(attack, statistic)
        if statistic == "accuracy":
            share = assignment.accuracy(guess, truth, confidence)
            return (
                "names the right client, or rightly nobody, for "
                f"{words.interval_words(share)} of the candidates; without information it would be "
                f"{words.percent_words(without)}"
            )
        pairs = assignment.pairs(guess, truth, self.known)
        if statistic == "auc":
            area = membership.auc(*pairs, confidence)
            return (
                "tells a record that a client trained on from another one in "
                f"{words.interval_words(area)} of cases; without information it would be "
                f"{words.percent_words(without)}"
            )
        share_of_pairs = float(statistic.partition("@")[2])
        assert share_of_pairs in TOPS
        count = max(1, round(share_of_pairs * len(pairs.score)))
        return (
            f"is right about {tested.observed_value(attack, statistic):.3g} of the {count} pairs "
            "of record and client that it is surest of; without information it would be "
            f"{without:.2g}"
        )

    def describe_hidden(self, attacks: Sequence[int], confidence: float) -> str:
        """See `VerdictWords`."""
        assert self.truth is not None
        shares = [assignment.accuracy(*self.measured(k)[:2], confidence) for k in attacks]
        high = max(share.high or share.value for share in shares)
        best = assignment.best_constant(self.truth, self.known.records)
        return (
            "A leak that names the right client for up to "
            f"{words.percent_words(high, math.ceil)} of the candidates could still hide; the best "
            "single answer for all is right for "
            f"{words.percent_words(best.value)}."
        )

    def count_result(self, attack: int, statistic: str, confidence: float) -> Count:
        """See `VerdictWords`."""
        guess, truth, tested = self.measured(attack)
        without = tested.null_mean(attack, statistic)
        guessing = f"Without the clients' models {round(100 * without)} would be right."
        if statistic == "accuracy":
            share = assignment.accuracy(guess, truth, confidence)
            what = "records are judged rightly"
            number, limits, dots = round_share(share, share.high or share.value, what)
            sentence = f"{_NAMES} for {number}{limits}."
            return Count(f"{number} of 100", (sentence, guessing), dots)
        if statistic == "auc":
            area = membership.auc(*assignment.pairs(guess, truth, self.known), confidence)
            number, limits, dots = round_share(
                area, area.high or area.value, "pairs are told apart"
            )
            sentence = f"{_PAIRS}, the attacker picks the right one in {number}{limits}."
            return Count(f"{number} of 100 pairs", (sentence, guessing), dots)
        pairs = assignment.pairs(guess, truth, self.known)
        count = max(1, round(float(statistic.partition("@")[2]) * len(pairs.score)))
        right = tested.observed_value(attack, statistic)
        sentence = (
            f"The attacker names {words.format_count(count, 'record')} with their client, those "
            f"it is surest of. It is right about {right:.3g}."
        )
        guessing = f"Without the clients' models {without:.2g} would be right."
        place = round(100 * right / count)
        text = f"100 dots, {place} of them marked: so many of 100 names are right."
        dots = Dots(0, place, place, 1, text)
        return Count(f"{right:.3g} of {count:,}", (sentence, guessing), dots, limited=False)

    def count_hidden(self, attacks: Sequence[int], confidence: float) -> Count:
        """See `VerdictWords`."""
        assert self.truth is not None
        shares = [assignment.accuracy(*self.measured(k)[:2], confidence) for k in attacks]
        most = max(share.high or share.value for share in shares)
        number, _, dots = round_share(None, most, "records are judged rightly")
        best = assignment.best_constant(self.truth, self.known.records).value
        guessing = f"The best single answer for all of them is right for {round(100 * best)}."
        return Count(f"{number} of 100", (f"{_NAMES} for {number}.", guessing), dots)

    def describe_attacker(self) -> str:
        """See `VerdictWords`."""
        if self.known.client is None:
            return "The server. It has the model of each client, and the records in question."
        return (
            "A client that takes part. It has the answers of each client's model, its own "
            "records, and the records in question."
        )


_NAMES = "Of 100 records, the attacker names the right client, or rightly nobody,"
_PAIRS = "Shown 100 pairs, each of a client's own record and another one"
