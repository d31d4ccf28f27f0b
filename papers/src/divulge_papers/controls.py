"""Say row by row how the attacks of a table did on their controls."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from divulge.core import ControlOutcome, Entry

CONTROLS_NOTE = (
    "Controls: each attack ran again on shuffled input, which says nothing about the truth, and an "
    "attack on one model also on a leak planted on purpose."
)
NOT_RUN = "Controls: not run. These figures were measured before tables had controls."


@dataclass(frozen=True, slots=True)
class RowControls:
    """How the attacks of one row did on their controls: one for each challenge of each seed."""

    row: str
    attacks: int
    """Number of attacks that ran."""
    failed: int = 0
    """Number of these that failed a control."""
    untested: int = 0
    """Number of these that failed none, and that some control did not test."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Controls that were failed, and by how many attacks."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """What attacks were not tested on, with the reason, and how many."""
    stopped: str = ""
    """Reason why an attack of the row did not run; empty if all ran."""

    @property
    def outcome(self) -> str:
        """The worst that happened to an attack, and to how many of them."""
        if self.stopped:
            return "did not run"
        if not self.attacks:
            return "no attack"
        worst, count = ("FAILED", self.failed) if self.failed else ("not tested", self.untested)
        if not count:
            return "passed"
        return worst if count == self.attacks else f"{worst} {count} of {self.attacks}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Clauses on what failed and what was not tested."""
        faults = (f"FAILED: {fault}, {n} of {self.attacks}" for fault, n in self.faults.items())
        gaps = (f"not tested {gap}, {n} of {self.attacks}" for gap, n in self.gaps.items())
        return (*faults, *gaps)


def judge_attacks(row: str, entries: Sequence[Entry], stopped: str) -> RowControls:
    """How the attacks of a row with one seed did.

    Args:
        row: name of the row.
        entries: entries of its attacks.
        stopped: reason why an attack did not run; empty if all ran.
    """
    each = [(tuple(_faults(entry)), tuple(_gaps(entry))) for entry in entries]
    return RowControls(
        row,
        attacks=len(each),
        failed=sum(bool(faults) for faults, _ in each),
        untested=sum(bool(gaps) and not faults for faults, gaps in each),
        faults=dict(Counter(fault for faults, _ in each for fault in faults)),
        gaps=dict(Counter(gap for _, gaps in each for gap in gaps)),
        stopped=stopped,
    )


def add_up(row: str, seeds: Sequence[RowControls]) -> RowControls:
    """How the attacks of a row did with all seeds.

    Args:
        row: name of the row.
        seeds: how they did with each.
    """
    return RowControls(
        row,
        attacks=sum(own.attacks for own in seeds),
        failed=sum(own.failed for own in seeds),
        untested=sum(own.untested for own in seeds),
        faults=dict(sum((Counter(own.faults) for own in seeds), Counter())),
        gaps=dict(sum((Counter(own.gaps) for own in seeds), Counter())),
        stopped=next((own.stopped for own in seeds if own.stopped), ""),
    )


def _faults(entry: Entry) -> Iterator[str]:
    """Controls that an attack failed."""
    control = entry.control
    blind = entry.blind if control is None else control.blind
    if blind is not None and blind.outcome is ControlOutcome.FAILED:
        yield (
            f"it did not run on shuffled input: {blind.reason}"
            if blind.measured is None
            else "its guess fits the truth although its input was shuffled"
        )
    if control is not None and control.planted is not None and not control.sees:
        yield "it did not find a leak planted on purpose"
    if control is not None and not control.calm:
        yield "it raised false alarms on shuffled membership"


def _gaps(entry: Entry) -> Iterator[str]:
    """Reasons why controls did not test an attack."""
    control = entry.control
    blind = entry.blind if control is None else control.blind
    if blind is None:
        yield "on shuffled input: none could be made"
    elif blind.outcome is ControlOutcome.NOT_TESTED:
        yield f"on shuffled input: {blind.reason}"
    if control is not None and control.planted is None:
        yield f"on a planted leak: {control.reason}"
