"""What a verdict on a federation says, and its words that depend on the secret."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from divulge.core import Finding
from divulge.metrics.uninformed.draws import RandomisationTest
from divulge.report import words
from divulge.report.parts import Dots
from divulge.report.schema import Level, NotMeasured

PROTECT_UPDATES = (
    "Hide single updates from the server (secure aggregation), or let clients add noise before "
    "they send (local noise)."
)
"""What protects clients whose updates leak."""
HIDE_UPDATES = (
    "let the server see sums of updates only (secure aggregation), or let clients add noise first"
)
"""The same, as a clause for a person who decides."""
OTHER_ROUNDS = NotMeasured(
    "scope",
    "Other rounds",
    "The audit covers only the rounds in the transcript: more rounds may leak more.",
)


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


class Detectable(NamedTuple):
    """A sentence on what four of five such audits would find."""

    statistic: str
    """The statistic of the test."""
    sentence: str
    """With a place for the share that would be found."""
    factor: float = 1.0
    """From the statistic to that share."""
    rounded: Callable[[float], int] = math.ceil


class Count(NamedTuple):
    """What decides, counted for a person who knows no term of statistics."""

    number: str
    """Such as "97 of 100"."""
    meaning: tuple[str, ...]
    """What was counted, and what guessing would reach; sentences."""
    dots: Dots | None
    limited: bool = True
    """Whether the number has limits."""


class VerdictWords(ABC):
    """The words of a verdict that depend on the secret."""

    leaks: ClassVar[str]
    """The headline for a leak."""
    subject: ClassVar[str]
    """A clause on what the attacks guess; it follows "nobody gave the truth"."""
    setting: ClassVar[str]
    """The settings in which the truth is given."""
    defend: ClassVar[str]
    """A sentence on what helps against a leak."""
    question: ClassVar[str]
    """What the owner has to decide about a leak; a question."""
    protect: ClassVar[str]
    """A clause on what to do if the answer is no."""
    enough: ClassVar[str]
    """A sentence on how many clients, records or items would be enough."""
    detectable: ClassVar[Detectable]
    explained: ClassVar[str] = "chance explains"
    """What explains a result that shows no leak, with its verb."""
    figures: ClassVar[int] = 2
    """Number of figures of each attack that sentences may give; their limits hold together."""
    guesses: Sequence[Any]
    """By attack, its guess; None where it is not done."""
    truth: Any
    """None where it is unknown."""
    test: RandomisationTest | None
    """The test of all done attacks; None without the truth."""
    unjudged: ClassVar[str]
    """A sentence on why nothing says how far off guesses are if the truth is unknown."""
    sums: Sequence[int] = ()
    """Of each round that showed the server no client's own update, how many clients it sums up."""

    def judge_expected(
        self, findings: Sequence[Finding], tried: Sequence[int]
    ) -> "Judgement | None":
        """The verdict by simulated clients, where nobody gave the truth; None if there are none.

        Args:
            findings: one an attack.
            tried: positions of the attacks that are done and look at something.
        """
        del findings, tried
        return None

    def measured(self, attack: int) -> tuple[Any, Any, RandomisationTest]:
        """The guess of an attack that is done, the truth that is known, and the test."""
        guess = self.guesses[attack]
        assert guess is not None
        assert self.truth is not None
        assert self.test is not None
        return guess, self.truth, self.test

    def describe_enough(self) -> str:
        """A sentence on how many clients, records or items would be enough here."""
        return self.enough

    @abstractmethod
    def describe_result(self, attack: int, statistic: str, confidence: float) -> str:
        """A clause, without its full stop, on what an attack achieves; it follows the name."""

    @abstractmethod
    def describe_hidden(self, attacks: Sequence[int], confidence: float) -> str:
        """A sentence on how large a leak could still hide from these attacks."""

    @abstractmethod
    def count_result(self, attack: int, statistic: str, confidence: float) -> Count:
        """What `describe_result` says, in counts."""

    @abstractmethod
    def count_hidden(self, attacks: Sequence[int], confidence: float) -> Count:
        """What `describe_hidden` says, in counts."""

    def count_expected(self, findings: Sequence[Finding], tried: Sequence[int]) -> Count | None:
        """What `judge_expected` says, in counts; None without simulated clients."""
        del findings, tried
        return None

    @abstractmethod
    def describe_attacker(self) -> str:
        """Who attacks and what they have, in sentences."""

    def describe_detectable(self, tested: RandomisationTest) -> str:
        """A sentence on what four of five such audits would find; empty if nothing can be said."""
        needed = tested.detectable_value(self.detectable.statistic)
        if needed is None:
            return ""
        share = words.percent_words(needed * self.detectable.factor, self.detectable.rounded)
        ending = "would be found in four of five such audits."
        return f"{self.detectable.sentence.format(share)} {ending}"
