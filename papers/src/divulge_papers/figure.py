"""Hold one figure of a table beside the published one, and write it as text."""

import math
from dataclasses import dataclass
from typing import Literal

from divulge.core import Estimate

NOT_YET = "not measured yet"


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure beside the published one."""

    row: str
    column: str
    ours: Estimate | None
    """Our figure with its 95 % interval; None where it could not be measured."""
    paper: float | None
    """Published figure; None where the paper has none."""
    reason: str = ""
    """Reason why our figure could not be measured; empty where it was."""
    deviation: float | None = None
    """Standard deviation of the values whose mean is our figure, in tables that show it."""
    units: int | None = None
    """Number of independent units that the interval is over."""
    kind: Literal["mean", "by definition", "p-value"] = "mean"
    """Kind of our figure; only a mean has an interval."""
    single: float | None = None
    """Figure of the only unit that is measured, which has no interval and is compared with
    nothing; None where there are more units, or none."""

    @property
    def difference(self) -> float | None:
        """Our figure minus the paper's; None unless there are both."""
        return None if self.ours is None or self.paper is None else self.ours.value - self.paper

    @property
    def covers(self) -> bool:
        """Whether our interval holds the paper's figure."""
        if self.ours is None or self.paper is None or self.ours.high is None:
            return False
        return self.ours.low <= self.paper <= self.ours.high


def interval(estimate: Estimate) -> str:
    """Format a value and its interval to three digits, or to as many as separate its limits.

    Examples:
        >>> interval(Estimate(0.5, 0.25, 0.75)), interval(Estimate(0.0021, 0.0019, 0.0024))
        ('0.500 (0.250 to 0.750)', '0.00210 (0.00190 to 0.00240)')
    """
    high = estimate.value if estimate.high is None else estimate.high
    # adding zero turns the minus zero of a rounded small negative into zero
    width = high - estimate.low
    digits = max(3, 1 - math.floor(math.log10(width))) if 0 < width < 0.002 else 3
    parts = (round(part, digits) + 0.0 for part in (estimate.value, estimate.low, high))
    shown, least, most = (f"{part:.{digits}f}" for part in parts)
    return f"{shown} ({least} to {most})"


def figure(cell: Cell) -> str:
    """Format our figure with its interval, or with the reason why it has none."""
    if cell.single is not None:
        return f"{cell.single:.3f} of one unit, no interval"
    if cell.ours is None:
        return NOT_YET if cell.reason == NOT_YET else "not measured"
    if cell.kind == "by definition":
        return f"{cell.ours.value:.3f} by definition"
    if cell.kind == "p-value":
        return f"{cell.ours.value:.2g}"
    return interval(cell.ours)


def cell_text(cell: Cell) -> str:
    """Format our figure, its standard deviation where the table shows one, and the paper's."""
    ours = figure(cell)
    ours += "" if cell.deviation is None else f" ± {cell.deviation:.3f}"
    if cell.paper is None:
        return ours
    difference = "" if cell.difference is None else f", {cell.difference:+.3f}"
    return f"{ours}; paper {cell.paper:.3f}{difference}"


def cell_values(cell: Cell) -> dict[str, str | float | None]:
    """Values of a figure as JSON holds them; limits only where it is a mean."""
    limits = cell.ours if cell.kind == "mean" else None
    return {
        "row": cell.row,
        "column": cell.column,
        "ours": cell.ours.value if cell.ours else None,
        "single": cell.single,
        "low": limits.low if limits else None,
        "high": limits.high if limits else None,
        "deviation": cell.deviation,
        "paper": cell.paper,
        "units": cell.units,
        "kind": cell.kind,
    }
