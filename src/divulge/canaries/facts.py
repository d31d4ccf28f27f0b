"""What the canaries of one training show: bounds, estimates, and what they mean for a stated ε."""

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from divulge._util.json import JSON
from divulge.canaries.batches import BatchCheck
from divulge.canaries.noise import NoiseCheck
from divulge.core import Estimate, NoiseAssumption
from divulge.data.canary_scores import Box
from divulge.metrics.exposure import UNLEARNED
from divulge.report import words

CanaryLevel = Literal["contradicted", "inputs doubtful", "consistent", "undecidable"]

_LARGE_ROUNDING = 0.5
"""From this share of a round's change on, rounding is a noise of its own that counts."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round of a federation shows."""

    bound: Estimate
    """Lower bound on ε, at the δ stated; the bounds of all rounds hold at once."""
    gaussian: Estimate
    """An estimate of ε, no bound; see `metrics.epsilon.gaussian_estimate`."""


@dataclass(frozen=True, slots=True)
class BoxResult:
    """What one file of scores shows."""

    box: Box
    bound: Estimate
    """Lower bound on ε, at the δ stated; bounds of all files hold at once."""
    auc: Estimate
    """How well the scores tell inserted canaries from the others, with its 95 % interval."""
    steps: int
    """How many steps or rounds were seen; 0 for the black box."""
    model: str
    """Fingerprint of the trained model."""
    gaussian: Estimate | None = None
    """For canary clients an estimate of ε, no bound; see `metrics.epsilon.gaussian_estimate`.
    """
    rounds: tuple[RoundResult, ...] = ()
    """For canary clients what each round shows by itself, where there are several."""
    rounding: float | None = None
    """How large rounding by secure aggregation is, as a share of the change of a round, at most;
    None where nothing was rounded."""
    batches: BatchCheck | None = None
    """Whether batches are as the accountant was told; None where that is not known."""
    statistics: tuple[str, ...] = ()
    """Layers that kept running statistics of records while the training was watched."""
    noise: NoiseCheck | None = None
    """Whether the noise of every step is new and as large as stated; None where it was not looked
    at."""
    backwards: bool = False
    """Whether inserted canaries score further below the others than chance explains."""
    exposure: Estimate | None = None
    """Of texts the mean exposure of inserted canaries, in bits; see `metrics.exposure`."""

    @property
    def exposure_sentence(self) -> str:
        """What was learned of inserted texts, in bits; empty for other canaries."""
        if self.exposure is None:
            return ""
        return (
            f"mean exposure {_interval(self.exposure)} bits; about {UNLEARNED:.1f} where "
            "nothing is learned"
        )

    @property
    def highest(self) -> float:
        """The highest bound, of all steps together and of single rounds."""
        return max(self.bound.value, *(result.bound.value for result in self.rounds), 0.0)

    @property
    def statistics_fault(self) -> str:
        """What the model holds of records without noise; empty where it holds nothing."""
        if not self.statistics:
            return ""
        count = len(self.statistics)
        names = ", ".join(map(repr, self.statistics[:3])) + (", ..." if count > 3 else "")
        keep = "1 layer keeps" if count == 1 else f"{count:,} layers keep"
        return f"{keep} running statistics of records ({names}): the model holds them without noise"

    @property
    def noise_sentence(self) -> str:
        """What the noise of steps shows, or that it shows nothing; empty for the black box."""
        if self.box == "black":
            return ""
        if self.noise is None:
            return "whether it repeats or is too small was not looked at"
        return self.noise.sentence

    @property
    def rounding_sentence(self) -> str:
        """What rounding by secure aggregation hides; empty where nothing was rounded."""
        if self.rounding is None:
            return ""
        large = self.rounding >= _LARGE_ROUNDING
        also = ": it can hide canaries that noise does not hide" if large else ""
        share = max(self.rounding, 1e-4)
        return f"Rounding by secure aggregation: up to {share:.2%} of a round's change{also}."


@dataclass(frozen=True, slots=True)
class CanaryFacts:
    """What the canaries of one training show of the ε that is stated for it."""

    epsilon: float
    delta: float
    noise: NoiseAssumption
    canaries: int
    inserted: int
    commitment: str
    """SHA-256 digest of salt, coins and canaries, as in the trainer's files."""
    results: tuple[BoxResult, ...]
    reach: float
    """The bound of a training that gives every canary away: the largest ε to contradict."""
    needed: int | None
    """A number of canaries with which a bound can exceed the stated ε: this one, if it does; None
    above ten million."""
    utility: Estimate | None
    """Change of the accuracy by the canaries, with its 95 % interval; None where not given."""
    neighbours: str = "adding or removing one record"
    """What ε is for."""
    records_each: int = 1
    """How many records each canary has; from 2 on a canary is a person."""
    promise: str = ""
    """What ε was stated for one record, where the one for a person follows from it."""

    def __post_init__(self) -> None:
        if not self.results:  # a damaged file
            raise ValueError("no scores were looked at")
        if self.canaries < 1 or not 0 <= self.inserted <= self.canaries:
            raise ValueError(f"{self.inserted} of {self.canaries} canaries inserted")

    @property
    def bound(self) -> float:
        """The ε that the training has at least, with 95 % confidence."""
        return max(result.highest for result in self.results)

    @property
    def faults(self) -> tuple[str, ...]:
        """What was seen that is not as stated, whatever the canaries show."""
        statistics = [result.statistics_fault for result in self.results if result.statistics]
        checks = [
            check for result in self.results for check in (result.noise, result.batches) if check
        ]
        return tuple(statistics) + tuple(fault for check in checks for fault in check.faults)

    @property
    def level(self) -> CanaryLevel:
        """Contradicted, doubtful, consistent with what was measured, or undecidable with so few.

        Inputs are doubtful where inserted canaries score below the others: bounds suppose that they
        score above, so scores with their sign reversed contradict nothing.
        An ε whose accountant was told of other batches or of other noise is contradicted, too, and
        one of a model that holds statistics of records without noise: it is not this training's.
        """
        if self.bound > self.epsilon or self.faults:
            return "contradicted"
        if self._backwards:
            return "inputs doubtful"
        return "consistent" if self.reach > self.epsilon else "undecidable"

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        stated = f"ε = {self.epsilon:g} at δ = {self.delta:g}{self._whom}"
        if self.bound <= self.epsilon and self.faults:
            return f"{stated} is not this training's: {self._why}"
        if self.level == "contradicted":
            least = words.format_lower_bound(self.bound)
            return f"{stated} is contradicted: it is at least {least}"
        if self._backwards:
            auc = words.format_auc(self._backwards[0].auc)
            return (
                "Inputs doubtful: scores look reversed, since inserted canaries score below the "
                f"others (AUC {auc}), so nothing tests {stated}"
            )
        if self.level == "consistent":
            return f"The canaries do not contradict {stated}"
        many = "more than 10 million" if self.needed is None else f"{self.needed:,} or more"
        return f"{stated} cannot be tested with {self.canaries:,} canaries: make {many}"

    @property
    def _whom(self) -> str:
        return "" if self.records_each == 1 else " for one person"

    @property
    def unit(self) -> str:
        """What a canary is, in words; empty where it is one record or client."""
        if self.records_each == 1:
            return ""
        follows = f"; from {self.promise}" if self.promise else ""
        return f"a person with {self.records_each} records{follows}"

    @property
    def _backwards(self) -> tuple[BoxResult, ...]:
        return tuple(result for result in self.results if result.backwards)

    @property
    def _why(self) -> str:
        """The worst of what was seen that is not as stated."""
        if any(result.noise and result.noise.faults for result in self.results):
            return "its noise is not as stated"
        keeps_statistics = any(result.statistics for result in self.results)
        return (
            "it keeps statistics without noise"
            if keeps_statistics
            else "its batches are not as stated"
        )

    @property
    def next_step(self) -> str:
        """What to do after reading the verdict."""
        if self.level == "contradicted":
            return (
                "Do not state this ε. Check clipping, noise, the drawing of batches or clients, "
                "and what the accountant is told; then train again with new canaries."
            )
        if self.level == "inputs doubtful":
            return (
                "Check the sign of the scores, and that the inserted canaries are those of these "
                "coins; then train again with new canaries."
            )
        if self.level == "undecidable":
            return "Make more canaries (divulge canary plan says how many), and train again."
        if all(result.auc.low <= 0.5 for result in self.results):
            return (
                "Check that the inserted canaries were trained on, which nothing shows, and that "
                "scores are in their order. Then test the next training, with new canaries."
            )
        if all(result.box == "black" for result in self.results):
            return "Score the white box, too, with the next training: it sees far more."
        return "Test the next training, too, with new canaries: these were used up by this look."

    @property
    def sentence(self) -> str:
        """What the canaries do to utility."""
        if self.utility is None or self.utility.high is None:
            return "What the canaries cost in accuracy was not measured."
        change = self.utility
        return (
            f"With the canaries accuracy changed by {100 * change.value:+.1f} points "
            f"({100 * change.low:+.1f} to {100 * (change.high or 0):+.1f})."
        )

    def lines(self) -> tuple[str, ...]:
        """What each box shows, what the canaries cost, and what to do now; indented as a list."""
        lines = [f"  Unit: {self.unit}"] if self.unit else []
        for result in self.results:
            least = words.format_lower_bound(result.bound.value)
            lines.append(
                f"  {result.box} box: ε is at least {least}, AUC {words.format_auc(result.auc)}"
            )
            if result.exposure_sentence:
                lines.append(f"    Exposure: {result.exposure_sentence}.")
            if result.gaussian is not None:
                lines.append(f"    Gaussian estimate, no bound: {_interval(result.gaussian)}")
            if result.rounds:
                bounds_of = [each.bound.value for each in result.rounds]
                at = int(np.argmax(bounds_of))
                lines.append(
                    f"    of {len(bounds_of)} rounds, round {at + 1} shows most: ε is at least "
                    f"{words.format_lower_bound(bounds_of[at])}"
                )
            if result.rounding is not None:
                lines.append(f"    {result.rounding_sentence}")
            if result.statistics:
                lines.append(f"    Statistics: {result.statistics_fault}.")
            if result.noise_sentence:
                lines.append(f"    Noise: {result.noise_sentence}.")
            if result.batches is not None:
                lines.append(f"    Batches: {'; '.join(result.batches.faults) or 'as stated'}.")
                lines += [f"    {result.batches.note}."] if result.batches.note else []
        return (*lines, self.sentence, f"Next: {self.next_step}")

    def as_json(self) -> dict[str, JSON]:
        """The whole audit as plain data."""
        return {
            "kind": "canaries",
            **asdict(self),
            "bound": self.bound,
            "verdict": self.level,
            "headline": self.headline,
        }


def _interval(estimate: Estimate) -> str:
    high = estimate.value if estimate.high is None else estimate.high
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {high:.2f})"
