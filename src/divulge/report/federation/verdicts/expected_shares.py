"""What is expected of guesses of class shares whose truth nobody gave, by simulated clients."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge.core import Estimate, Proportions, SimulatedErrors
from divulge.metrics import expected, intervals
from divulge.metrics.uninformed.draws import ERROR
from divulge.report import words
from divulge.report.brief import round_share
from divulge.report.federation.verdicts.case import PROTECT_UPDATES, Count, Judgement

SUPPOSED = (
    "This supposes that real clients train as the transcript says, on records of the reference "
    "records’ population, in mixes like the simulated ones."  # noqa: RUF001
)
"""What every expected figure rests on."""

_FEW = 0.195
"""L1 distances below this get a decimal as a share of records."""

COLUMNS = ("Expected L1", "At most, for 90 %", "Of equal shares", "Uneven clients")
"""Headings of a table of what is expected of attacks."""


@dataclass(frozen=True)
class ExpectedShares:
    """What simulated clients say of the guesses of one attack."""

    guesses: Sequence[Proportions]
    errors: Sequence[SimulatedErrors]

    @classmethod
    def of(cls, guesses: Sequence[Proportions] | None) -> "ExpectedShares | None":
        """None where the attack simulated no clients, or tests no client for even shares."""
        errors = [guess.errors for guess in guesses or () if guess.errors is not None]
        if guesses is None or not errors or len(errors) < len(guesses):
            return None
        return None if any(guess.even is None for guess in guesses) else cls(guesses, errors)

    @cached_property
    def even(self) -> Float64[np.ndarray, " clients"]:
        """P-values of equal shares, corrected for the number of clients."""
        return expected.adjust_p_values(
            np.array([guess.even for guess in self.guesses], np.float64)
        )

    @cached_property
    def strange(self) -> Bool[np.ndarray, " clients"]:
        """Clients whose update is not like those of simulated clients (Bonferroni)."""
        limit = ERROR / len(self.errors)
        return np.array([simulated.far <= limit for simulated in self.errors])

    @cached_property
    def unlike(self) -> float:
        """P-value that all updates are like those of simulated clients."""
        return expected.merge_p_values(np.array([simulated.far for simulated in self.errors]))

    @cached_property
    def read(self) -> Bool[np.ndarray, " clients"]:
        """Clients shown to be uneven, of whose like guesses are nearer than equal shares."""
        nearer = np.array([self._beats_equal(simulated) for simulated in self.errors])
        read: Bool[np.ndarray, " clients"] = (self.even <= ERROR) & ~self.strange & nearer
        return read

    def _beats_equal(self, simulated: SimulatedErrors) -> bool:
        confidence = 1 - ERROR / len(self.errors)
        return intervals.student_mean((simulated.equal - simulated.l1).tolist(), confidence).low > 0

    def judge(self, attack: str) -> Judgement:
        """The verdict that simulated clients allow.

        Args:
            attack: label of the attack.
        """
        if self.unlike <= ERROR or self.strange.all():
            return self._conclude_unlike(attack)
        return self._conclude_read(attack) if self.read.any() else self._conclude_unread(attack)

    def count(self) -> Count:
        """What is expected of the clients that are read, in counts of 100 records."""
        alike = self._alike_read()
        off, equal = alike.l1.mean() / 2, alike.equal.mean() / 2
        most = min(1.0, expected.largest_error(alike.l1) / 2)
        right = Estimate(1 - off, 1 - most, 1 - off)
        number, _, dots = round_share(
            right, 1 - off, "records are expected in the right class", known="expected"
        )
        clients = words.format_count(len(self.guesses), "client")
        return Count(
            f"expected {number} of 100",
            (
                f"The server is expected to read the classes of {int(self.read.sum())} of "
                f"{clients}.",
                f"Of 100 of their records it is expected to put {number} into the right class. "
                f"For 9 in 10 clients like them it puts at least {dots.least} there.",
                f"Equal shares of all classes would be right for {round(100 * (1 - equal))}.",
            ),
            dots,
        )

    def _alike_read(self) -> SimulatedErrors:
        """The simulated clients like those that are read."""
        return _pool(
            [simulated for simulated, yes in zip(self.errors, self.read, strict=True) if yes]
        )

    def _conclude_read(self, attack: str) -> Judgement:
        alike = self._alike_read()
        off, most, equal = alike.l1.mean(), expected.largest_error(alike.l1), alike.equal.mean()
        clients = words.format_count(len(self.guesses), "client")
        return Judgement(
            "expected leak",
            "The server is expected to read which classes clients hold",
            (
                f"Uneven, and read by the server: {int(self.read.sum())} of {clients}. It is "
                f"expected to put {_misplaced(off)} of their records into wrong classes.",
                f"For 90 % of simulated clients like them it is at most "
                f"{_misplaced(most, math.ceil)}; equal shares of all classes would put "
                f"{_misplaced(equal)} there.",
                *_null_sentences(alike),
                "Nobody gave the truth: the attack simulated clients whose truth it knows. "
                f"{SUPPOSED} {self._likeness()}",
            ),
            f"{PROTECT_UPDATES} Then run the audit again, and compare. Optional: give the truth "
            "(counts in [updates]) to check the estimate.",
            None,
            attack,
        )

    def _conclude_unread(self, attack: str) -> Judgement:
        uneven = int((self.even <= ERROR).sum())
        why = (
            f"No client is shown to hold its classes unevenly ({words.p_words(self.even.min())}, "
            f"corrected for {words.format_count(len(self.guesses), 'client')})."
            if not uneven
            else f"Of {words.format_count(len(self.guesses), 'client')}, {uneven} look uneven, "
            "but guesses about simulated clients like them are no better than equal shares."
        )
        return Judgement(
            "undecided",
            "The server is not shown to read which classes clients hold",
            (
                why,
                f"The attack simulated clients whose truth it knows. {SUPPOSED} {self._likeness()}",
                "This audit neither shows a leak nor rules one out.",
            ),
            "Simulate more clients (clients of the attack), or record more rounds; or give the "
            "truth (counts in [updates]). Then run the audit again.",
            None,
            attack,
        )

    def _conclude_unlike(self, attack: str) -> Judgement:
        return Judgement(
            "undecided",
            "These updates do not look like those of simulated clients",
            (
                "They are further from simulated ones than these are from each other "
                f"({words.p_words(self.unlike)}), so errors of guesses about simulated clients "
                "say nothing about these.",
                "This audit neither shows a leak nor rules one out.",
            ),
            "Check how clients train (learning rate, epochs, batch size, optimiser, a defence) "
            "against the transcript, and that reference records are of their population. Then run "
            "the audit again.",
            None,
            attack,
        )

    def _likeness(self) -> str:
        odd = int(self.strange.sum())
        left = f" {odd} of them do not, and are left out." if odd else ""
        return f"Real updates look like simulated ones ({words.p_words(self.unlike)}).{left}"

    def describe_client(self, client: int) -> str:
        """A sentence on how far off the guess about one client is expected to be."""
        errors = self.errors[client]
        if self.strange[client]:
            return (
                f"Its update does not look like those of simulated clients (p = {errors.far:.2g}), "
                "so nothing says how far off this is."
            )
        most = _misplaced(expected.largest_error(errors.l1), math.ceil)
        return (
            f"Expected in wrong classes: {_misplaced(errors.l1.mean())} of its records; at most "
            f"{most} for 90 % of simulated clients like it."
        )

    def cells(self) -> tuple[str, ...]:
        """What stands in a table about one attack: a cell for each of `COLUMNS`."""
        most = [min(2.0, expected.largest_error(simulated.l1)) for simulated in self.errors]
        return (
            f"{np.mean([simulated.l1.mean() for simulated in self.errors]):.2f}",
            f"{np.mean(most):.2f}",
            f"{np.mean([simulated.equal.mean() for simulated in self.errors]):.2f}",
            f"{int((self.even <= ERROR).sum())} of {len(self.errors)}",
        )

    def figures(self) -> list[dict[str, float | bool]]:
        """Figures by client, for programs."""
        return [
            {
                "l1": float(simulated.l1.mean()),
                "l1_at_most": min(2.0, expected.largest_error(simulated.l1)),
                "l1_of_equal_shares": float(simulated.equal.mean()),
                "uneven_p": float(even),
                "like_simulated_p": simulated.far,
                "read": bool(read),
            }
            for simulated, even, read in zip(self.errors, self.even, self.read, strict=True)
        ]


def _pool(errors: Sequence[SimulatedErrors]) -> SimulatedErrors:
    """The simulated clients like any of the victims, each once."""
    which = np.concatenate([simulated.which for simulated in errors])
    _, first = np.unique(which, return_index=True)
    l1, equal, null = (
        np.concatenate([getattr(simulated, name) for simulated in errors])[first]
        for name in ("l1", "equal", "null")
    )
    return SimulatedErrors(which[first], l1, equal, null, 1.0)


def _misplaced(l1: float, rounded: Callable[[float], int] = round) -> str:
    """The share of records in wrong classes, half of the L1 distance, and that distance."""
    off = min(2.0, float(l1))
    percent = (
        words.percent_words(off / 2, rounded) if off >= 0.2 else f"{rounded(500 * off) / 10} %"
    )
    return f"{percent} (L1 {off:.2f})"


def _null_sentences(alike: SimulatedErrors) -> tuple[str, ...]:
    """How often null classes are wrong, and missed; nothing where too few show it."""
    declared, wrong, absent, missed = alike.null.T
    if min((declared > 0).sum(), (absent > 0).sum()) < 2:
        return ()
    return (
        f"A class that it declares absent is there in {_rate(wrong, declared)} of cases; of absent "
        f"classes it misses {_rate(missed, absent)}.",
    )


def _rate(hits: Int[np.ndarray, " clients"], trials: Int[np.ndarray, " clients"]) -> str:
    some = trials > 0
    limits = intervals.clustered_proportion(hits[some], trials[some])
    return words.interval_words(Estimate(float(hits.sum() / trials.sum()), *limits))
