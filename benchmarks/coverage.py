"""Honesty: how often 95 % intervals cover the truth of a known leak, and how wide they are.

Scores are drawn from populations whose ROC is known in closed form, so each interval can be held
against the truth. On a real model it cannot: nobody knows how much the model truly leaks.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy import stats

from divulge._util.random import stream
from divulge.core import Estimate
from divulge.metrics import measure, membership
from divulge.metrics.intervals import clopper_pearson

SUMMARY = "coverage and mean width of the intervals of AUC, TPR and advantage at known leaks"

FPRS = (0.1, 0.01, 0.001)
METRICS = ("AUC", *(f"TPR at {100 * fpr:g} %" for fpr in FPRS), "advantage")

Draw = Callable[[np.random.Generator, int], Float64[np.ndarray, " records"]]


class Population(NamedTuple):
    """Distribution of scores, and the true values of its metrics."""

    inside: Draw
    """Function that draws the scores of so many members."""
    outside: Draw
    """Function that draws the scores of so many non-members."""
    auc: float
    tpr: Callable[[float], float]
    """True TPR by FPR; ties are broken by coins."""
    advantage: float
    """True advantage at the best threshold."""

    def truth(self, metric: str) -> float:
        """The true value of one of `METRICS`."""
        if metric.startswith("TPR"):
            return self.tpr(FPRS[METRICS.index(metric) - 1])
        return self.auc if metric == "AUC" else self.advantage


class Cell(NamedTuple):
    """Audits of one size of one population."""

    name: str
    members: int
    nonmembers: int
    audits: int


def shifted(by: float, share: float = 1.0, noise: str = "norm") -> Population:
    """Scores without ties: this share of the members stands higher by so much.

    Args:
        by: the shift, in units of the noise's scale.
        share: of the members that are shifted.
        noise: the name of a symmetric distribution of SciPy with one peak.
    """
    law = getattr(stats, noise)
    difference = law(scale=2.0 if noise == "cauchy" else np.sqrt(2.0))

    def inside(rng: np.random.Generator, size: int) -> Float64[np.ndarray, " records"]:
        moved = by * (rng.random(size) < share)
        return np.asarray(law.rvs(size=size, random_state=rng) + moved)

    def tpr(fpr: float) -> float:
        return float(share * law.sf(law.isf(fpr) - by) + (1 - share) * fpr)

    return Population(
        inside,
        lambda rng, size: np.asarray(law.rvs(size=size, random_state=rng)),
        float(share * difference.cdf(by) + (1 - share) / 2),
        tpr,
        # where both densities cross: midway
        float(share * (law.cdf(by / 2) - law.cdf(-by / 2))),
    )


def tied(members: list[float], nonmembers: list[float]) -> Population:
    """Scores with as many levels as these shares, the highest level first."""
    p, q = np.array(members), np.array(nonmembers)
    tpr, fpr = (np.append(0.0, np.cumsum(shares)) for shares in (p, q))

    def levels(shares: Float64[np.ndarray, " levels"]) -> Draw:
        return lambda rng, size: -rng.choice(len(shares), size, p=shares).astype(np.float64)

    return Population(
        levels(p),
        levels(q),
        float(np.sum(q * (tpr[:-1] + p / 2))),
        lambda rate: float(np.interp(rate, fpr, tpr)),
        float(np.max(tpr - fpr)),
    )


POPULATIONS = {
    "normal, shift 0": shifted(0.0),
    "normal, shift 0.3": shifted(0.3),
    "normal, shift 1": shifted(1.0),
    "normal, shift 2": shifted(2.0),
    "Cauchy, shift 1": shifted(1.0, noise="cauchy"),
    "5 % exposed": shifted(4.0, share=0.05),
    "2 levels, tie up to 0.1": tied([0.6, 0.4], [0.1, 0.9]),
    "5 levels, tie up to 0.1": tied([0.25, 0.25, 0.2, 0.15, 0.15], [0.1, 0.2, 0.2, 0.25, 0.25]),
    "8 levels, tie up to 0.01": tied(
        [0.08, 0.12, 0.15, 0.15, 0.15, 0.15, 0.1, 0.1],
        [0.01, 0.09, 0.1, 0.15, 0.15, 0.2, 0.15, 0.15],
    ),
    "40 % of all at the top": tied([0.5, 0.2, 0.15, 0.1, 0.05], [0.3, 0.2, 0.2, 0.2, 0.1]),
}
"""By name. The last is a forest whose answers are often exactly one."""

CELLS = (
    Cell("normal, shift 0", 200, 200, 800),
    Cell("normal, shift 0.3", 50, 50, 800),
    Cell("normal, shift 0.3", 200, 200, 800),
    Cell("normal, shift 1", 50, 50, 800),
    Cell("normal, shift 1", 200, 200, 800),
    Cell("normal, shift 1", 400, 400, 800),
    Cell("normal, shift 1", 1_000, 1_000, 600),
    Cell("normal, shift 1", 10_000, 10_000, 200),
    Cell("normal, shift 1", 100, 1_000, 800),
    Cell("normal, shift 1", 1_000, 100, 800),
    Cell("normal, shift 2", 200, 200, 800),
    Cell("Cauchy, shift 1", 200, 200, 800),
    Cell("5 % exposed", 200, 200, 800),
    Cell("5 % exposed", 1_000, 1_000, 600),
    Cell("2 levels, tie up to 0.1", 50, 50, 800),
    Cell("2 levels, tie up to 0.1", 1_000, 1_000, 600),
    Cell("5 levels, tie up to 0.1", 50, 50, 800),
    Cell("5 levels, tie up to 0.1", 1_000, 1_000, 600),
    Cell("5 levels, tie up to 0.1", 100, 1_000, 800),
    Cell("8 levels, tie up to 0.01", 400, 400, 800),
    Cell("8 levels, tie up to 0.01", 1_000, 1_000, 600),
    Cell("8 levels, tie up to 0.01", 10_000, 10_000, 200),
    Cell("40 % of all at the top", 200, 200, 800),
    Cell("40 % of all at the top", 1_000, 1_000, 600),
)


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print one row a cell: coverage with its own exact 95 % interval, and the mean width."""
    print(f"| scores | members/non-members | audits | {' | '.join(METRICS)} |")
    print("|---|---:|---:|" + "---|" * len(METRICS))
    for cell in CELLS:
        audits = 20 if quick else cell.audits
        print(_row(cell._replace(audits=audits)), flush=True)
    print("\n* fewer non-members than a lower limit needs, so the lower limit is 0")


def estimates(cell: Cell) -> Iterator[dict[str, Estimate]]:
    """What each audit of a cell measures, by metric; those that it cannot measure are left out."""
    rng = stream(0, "coverage", cell.name, f"{cell.members}/{cell.nonmembers}")
    population = POPULATIONS[cell.name]
    member = np.arange(cell.members + cell.nonmembers) < cell.members
    rates = [fpr for fpr in FPRS if round(fpr * cell.nonmembers, 9) >= 1]
    for _ in range(cell.audits):
        groups = population.inside(rng, cell.members), population.outside(rng, cell.nonmembers)
        score = np.concatenate(groups)
        yield {
            "AUC": membership.auc(score, member),
            **{
                METRICS[FPRS.index(fpr) + 1]: membership.tpr_at_fpr(score, member, fpr)
                for fpr in rates
            },
            "advantage": measure.advantage(score, member),
        }


def _row(cell: Cell) -> str:
    by_audit = list(estimates(cell))
    shown = [
        _format_coverage(cell, metric, [audit[metric] for audit in by_audit if metric in audit])
        for metric in METRICS
    ]
    sizes = f"{cell.members:,}/{cell.nonmembers:,}"
    return f"| {cell.name} | {sizes} | {cell.audits} | {' | '.join(shown)} |"


def _format_coverage(cell: Cell, metric: str, measured: list[Estimate]) -> str:
    if not measured:
        return "-"
    truth = POPULATIONS[cell.name].truth(metric)
    covered = sum(truth in estimate for estimate in measured)
    width = np.mean(
        [estimate.high - estimate.low for estimate in measured if estimate.high is not None]
    )
    low, high = clopper_pearson(covered, len(measured))
    fewest = membership.fewest_nonmembers(FPRS[METRICS.index(metric) - 1]) if "TPR" in metric else 0
    mark = "*" if cell.nonmembers < fewest else ""
    return f"{covered / len(measured):.3f} ({low:.3f} to {high:.3f}), {width:.3f}{mark}"
