"""What an audit by canaries found: bounds, estimates, and the verdict."""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import pydantic

from divulge._util import atomic
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import create_folder
from divulge._util.json import JSON
from divulge.audits.run_folder import has_head, hold_run, read_head, write_head
from divulge.canaries.batches import BatchCheck
from divulge.canaries.noise import NoiseCheck
from divulge.core import Estimate, NoiseAssumption
from divulge.core.runs import SCHEMA
from divulge.data.canary_scores import Box
from divulge.errors import StoreError
from divulge.report import words

REPORT, SUMMARY = "report.html", "summary.json"

CanaryVerdict = Literal["contradicted", "inputs doubtful", "consistent", "undecidable"]

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

    @property
    def highest(self) -> float:
        """The highest bound, of all steps together and of single rounds."""
        return max(self.bound.value, *(one.bound.value for one in self.rounds), 0.0)

    @property
    def statistics_fault(self) -> str:
        """What the model holds of records without noise; empty where it holds nothing."""
        if not self.statistics:
            return ""
        names = ", ".join(map(repr, self.statistics[:3]))
        more = ", ..." if len(self.statistics) > 3 else ""
        count = len(self.statistics)
        keep = "1 layer keeps" if count == 1 else f"{count:,} layers keep"
        return (
            f"{keep} running statistics of records ({names}{more}): the model holds them without "
            "noise"
        )

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
class CanaryAudit:
    """Whether a stated ε is kept, by the canaries of one training."""

    epsilon: float
    delta: float
    noise: NoiseAssumption
    canaries: int
    inserted: int
    commitment: str
    """SHA-256 digest of salt, coins and canaries, as in the trainer's files."""
    results: tuple[BoxResult, ...]
    reach: float
    """The bound of a training that gives away every canary: the largest ε that can be
    contradicted."""
    needed: int | None
    """A number of canaries with which a bound can exceed the stated ε: this one, if it does; None
    above ten million."""
    utility: Estimate | None
    """Change of the accuracy by the canaries, with its 95 % interval; None where not given."""
    neighbours: str = "adding or removing one record"
    """What ε is for."""

    def __post_init__(self) -> None:
        if not self.results:  # a damaged file
            raise ValueError("no scores were looked at")

    @property
    def bound(self) -> float:
        """The ε that the training has at least, with 95 % confidence."""
        return max(one.highest for one in self.results)

    @property
    def faults(self) -> tuple[str, ...]:
        """What was seen that is not as stated, whatever the canaries show."""
        found = [one.statistics_fault for one in self.results if one.statistics]
        checks = [check for one in self.results for check in (one.noise, one.batches) if check]
        return tuple(found) + tuple(fault for check in checks for fault in check.faults)

    @property
    def verdict(self) -> CanaryVerdict:
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
        stated = f"ε = {self.epsilon:g} at δ = {self.delta:g}"
        if self.bound <= self.epsilon and self.faults:
            return f"{stated} is not this training's: {self._why}"
        if self.verdict == "contradicted":
            least = words.format_lower_bound(self.bound)
            return f"{stated} is contradicted: it is at least {least}"
        if self._backwards:
            auc = words.format_auc(self._backwards[0].auc)
            return (
                "Inputs doubtful: scores look reversed, since inserted canaries score below the "
                f"others (AUC {auc}), so nothing tests {stated}"
            )
        if self.verdict == "consistent":
            return f"The canaries do not contradict {stated}"
        many = "more than 10 million" if self.needed is None else f"{self.needed:,} or more"
        return f"{stated} cannot be tested with {self.canaries:,} canaries: make {many}"

    @property
    def _backwards(self) -> tuple[BoxResult, ...]:
        return tuple(one for one in self.results if one.backwards)

    @property
    def _why(self) -> str:
        """The worst of what was seen that is not as stated."""
        if any(one.noise and one.noise.faults for one in self.results):
            return "its noise is not as stated"
        kept = any(one.statistics for one in self.results)
        return "it keeps statistics without noise" if kept else "its batches are not as stated"

    @property
    def next_step(self) -> str:
        """What to do after reading the verdict."""
        if self.verdict == "contradicted":
            return (
                "Do not state this ε. Check clipping, noise, the drawing of batches or clients, "
                "and what the accountant is told; then train again with new canaries."
            )
        if self.verdict == "inputs doubtful":
            return (
                "Check the sign of the scores, and that the inserted canaries are those of these "
                "coins; then train again with new canaries."
            )
        if self.verdict == "undecidable":
            return "Make more canaries (divulge canary plan says how many), and train again."
        if all(one.box == "black" for one in self.results):
            return "Score the white box, too, with the next training: it sees far more."
        return "Test the next training, too, with new canaries: these were used up by this look."

    @property
    def sentence(self) -> str:
        """What the canaries do to utility."""
        if self.utility is None or self.utility.high is None:
            return "What the canaries cost in accuracy was not measured."
        one = self.utility
        return (
            f"With the canaries accuracy changed by {100 * one.value:+.1f} points "
            f"({100 * one.low:+.1f} to {100 * (one.high or 0):+.1f})."
        )

    def __str__(self) -> str:
        lines = [self.headline]
        for one in self.results:
            least = words.format_lower_bound(one.bound.value)
            lines.append(f"  {one.box} box: ε is at least {least}, AUC {words.format_auc(one.auc)}")
            if one.gaussian is not None:
                lines.append(f"    Gaussian estimate, no bound: {_interval(one.gaussian)}")
            if one.rounds:
                bounds_of = [each.bound.value for each in one.rounds]
                at = int(np.argmax(bounds_of))
                lines.append(
                    f"    of {len(bounds_of)} rounds, round {at + 1} shows most: ε is at least "
                    f"{words.format_lower_bound(bounds_of[at])}"
                )
            if one.rounding is not None:
                lines.append(f"    {one.rounding_sentence}")
            if one.statistics:
                lines.append(f"    Statistics: {one.statistics_fault}.")
            if one.noise_sentence:
                lines.append(f"    Noise: {one.noise_sentence}.")
            if one.batches is not None:
                lines.append(f"    Batches: {'; '.join(one.batches.faults) or 'as stated'}.")
                lines += [f"    {one.batches.note}."] if one.batches.note else []
        return "\n".join([*lines, self.sentence, f"Next: {self.next_step}"])

    def as_json(self) -> dict[str, JSON]:
        """The whole audit as plain data."""
        return {
            "kind": "canaries",
            **asdict(self),
            "bound": self.bound,
            "verdict": self.verdict,
            "headline": self.headline,
        }

    @check_arguments
    def report(self, path: FilePath) -> Path:
        """Write the page, one self-contained HTML file; returns its path.

        Raises:
            StoreError: it cannot be written.
        """
        return _write_page(Path(path), self)

    def fails(self, fail_on: Collection[str]) -> bool | None:
        """Whether a gate on verdicts fails; None where it asks for more than can be decided.

        Where the inputs are doubtful every gate is undecided.
        """
        if self.verdict == "inputs doubtful" and fail_on:
            return None
        if self.verdict in fail_on:
            return True
        return None if "contradicted" in fail_on and self.verdict == "undecidable" else False


def _interval(one: Estimate) -> str:
    high = one.value if one.high is None else one.high
    return f"{one.value:.2f} ({one.low:.2f} to {high:.2f})"


@dataclass(frozen=True, slots=True)
class CanaryRun:
    """An audit by canaries in its run folder: ``run.json``."""

    created: str
    """UTC, ISO 8601."""
    audit: CanaryAudit
    divulge: str = version("divulge")
    schema: int = SCHEMA
    kind: Literal["canaries"] = "canaries"

    def write(self, folder: Path) -> Path:
        """Write the head, the summary and the page, which comes last; the page's path.

        Raises:
            StoreError: they cannot be written.
        """
        write_head(folder, self)
        summary = pydantic.TypeAdapter(dict).dump_json(self.audit.as_json(), indent=1)
        atomic.write_within(folder, SUMMARY, summary + b"\n")
        return _write_page(folder / REPORT, self.audit, self.created)


def begin_run(folder: Path, judge: Callable[[], CanaryAudit]) -> CanaryAudit:
    """Judge into a new run folder, or finish one whose page a kill prevented.

    Args:
        folder: a folder that this process holds.
        judge: opens the coins.

    Raises:
        StoreError: there is something else in the folder, such as another audit.
    """
    if not has_head(folder) or (folder / REPORT).exists():
        create_folder(folder)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        run = CanaryRun(now, judge())
    else:
        run = read_head(folder, CanaryRun)
        if run.audit != judge():
            raise StoreError(
                f"expected the audit that {folder} was begun with, got another one: name a new "
                "folder"
            )
    run.write(folder)
    return run.audit


def render_again(folder: Path) -> Path:
    """Write the page of a run folder again, without canaries or scores; returns its path.

    Raises:
        StoreError: it is no run of canaries, damaged, or cannot be written.
    """
    with hold_run(folder):
        return read_head(folder, CanaryRun).write(folder)


def _write_page(path: Path, audit: CanaryAudit, created: str = "") -> Path:
    from divulge.canaries import page as canary_page  # only pages need templates

    atomic.write(path, canary_page.render(audit, created).encode())
    return path
