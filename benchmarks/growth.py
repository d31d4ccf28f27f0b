"""How CPU seconds of an audit grow with records, classes, attacks and shadow models.

All data is SYNTHETIC. Sizes of one kind take turns in one process of one thread. A fixed time is
fitted and taken off: charts, and checks of a fixed number of records, would hide how the rest
grows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from benchmarks import answers, large_tables
from benchmarks.timing import environment

if TYPE_CHECKING:
    import altair as alt

    from divulge.core import ModelView, Need, Scores

SUMMARY = "slopes of CPU seconds over records, classes, attacks and shadow models"

GOAL = 1.05

CHART = Path(__file__).parents[1] / "docs" / "images" / "growth.svg"

TIMES = (1, 2, 4, 8)

CONFIDENCE = 0.95


class Axis(NamedTuple):
    """What grows, and an audit of each size."""

    unit: str
    what: str
    base: int
    """A smaller size, which tells what is fixed."""
    first: int
    """The smallest of the sizes that are compared; the others are 2, 4 and 8 times as large."""
    call: Callable[[int, Path], float]
    """Prepares and runs one size in an empty folder; returns the CPU seconds of the run."""


class Growth(NamedTuple):
    """A fixed time and a power of the size."""

    fixed: float
    """CPU seconds that every size takes."""
    of_first: float
    """CPU seconds of the first size besides."""
    slope: float
    """The exponent, with its 95 % interval."""
    low: float
    high: float


Point = dict[str, float | str]


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print times and slopes, and draw them unless it is a trial: some minutes.

    A trial measures four sizes of each, once.
    """
    print(environment(("divulge", "numpy")))
    points: list[Point] = []
    for axis in AXES:
        sizes = [axis.first * times for times in (TIMES[:3] if quick else TIMES)]
        spent = _measure(axis, sizes, 1 if quick else 2)
        points += _report(axis, sizes, spent)
    if not quick:
        from divulge.report.charts import render

        CHART.write_bytes(render(_figure(points), "svg"))


def _measure(axis: Axis, sizes: Sequence[int], repeats: int) -> np.ndarray:
    """CPU seconds, one row a turn: of the base, and of each size."""
    rows = []
    with TemporaryDirectory() as folder:
        for turn in range(-1, repeats):
            # the first turn, which loads and compiles, is not counted
            turn_sizes = [axis.base, *(sizes if turn >= 0 else ())]
            places = [Path(folder, f"{turn}-{size}") for size in turn_sizes]
            for place in places:
                place.mkdir()
            rows.append([axis.call(*pair) for pair in zip(turn_sizes, places, strict=True)])
    return np.array(rows[1:])


def _report(axis: Axis, sizes: Sequence[int], spent: np.ndarray) -> Iterator[Point]:
    size = np.array([axis.base, *sizes], float)
    grown = fit_growth(size, spent)
    print(f"\n{axis.what}\n{axis.unit:>12}{'CPU s':>10}{'less fixed':>12}")
    for count, seconds in zip(size, np.median(spent, axis=0), strict=True):
        print(f"{count:12,.0f}{seconds:10.2f}{seconds - grown.fixed:12.2f}")
        yield {
            "what": f"{axis.unit}, from {sizes[0]:,}: slope {grown.slope:.2f}",
            "size": count / sizes[0],
            "share": (seconds - grown.fixed) / grown.of_first,
        }
    verdict = "at most" if grown.slope <= GOAL else "ABOVE"
    print(
        f"fixed {grown.fixed:.2f}, slope {grown.slope:.2f} ({grown.low:.2f} to {grown.high:.2f}), "
        f"{verdict} {GOAL}",
        flush=True,
    )


def fit_growth(size: np.ndarray, seconds: np.ndarray) -> Growth:
    """Fit a fixed time and a power of the size, by least squares of the logarithms of times.

    Args:
        size: at least three, above 0; the second is the first that is compared.
        seconds: one row a turn, one column a size.

    Examples:
        >>> size = np.array([1.0, 4, 8, 16, 32])
        >>> round(fit_growth(size, 3 + 0.1 * size[None] ** 1.5).slope, 4)
        1.5
    """
    from scipy import optimize, stats

    times, spent = np.tile(size, len(seconds)), np.log(seconds.ravel())

    def expected(n: np.ndarray, fixed: float, first: float, slope: float) -> np.ndarray:
        return np.asarray(np.log(np.exp(fixed) + np.exp(first) * (n / size[1]) ** slope))

    begin = np.log(seconds.mean(axis=0))
    values, spread = optimize.curve_fit(
        expected, times, spent, (begin[0], begin[1] - np.log(2), 1.0), maxfev=10_000
    )
    fixed, first, slope = values.tolist()
    freedom = max(1, len(spent) - len(values))
    margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(spread[2, 2]))
    return Growth(np.exp(fixed), np.exp(first), slope, slope - margin, slope + margin)


@dataclass(frozen=True)
class _NoisyLoss:
    """The loss with noise of its own: as many attacks as one likes, of one cost."""

    seed: int

    name: ClassVar[str] = "noisy-loss"
    paper: ClassVar[str] = ""

    @property
    def needs(self) -> "Need":
        from divulge.core import Need

        return Need.PROBABILITIES | Need.LABELS

    def __call__(self, view: "ModelView", rng: np.random.Generator) -> "Scores":
        from divulge.core import Scores
        from divulge.metrics import signals

        p = view.target.predict(view.records.x)
        score = signals.compute_signal("loss", p, view.records.y)
        return Scores(score + rng.normal(0, 0.1, len(score)))


def _attacks(count: int, folder: Path) -> float:
    """An audit of 5,000 candidates that a function answers about."""
    import divulge

    synthetic = answers.synthetic(5_000, 10)
    rows = np.arange(5_000.0)[:, None]
    sets = [
        (rows[synthetic.member == inside], synthetic.y[synthetic.member == inside])
        for inside in (1, 0)
    ]
    return large_tables.time_call(
        lambda: divulge.audit(
            lambda x: synthetic.p[x[:, 0].astype(int)],
            members=sets[0],
            nonmembers=sets[1],
            attacks=[_NoisyLoss(seed) for seed in range(count)],
            run=folder / "run",
        )
    )


AXES = (
    Axis(
        "records",
        "Table of answers, 10 classes, seven attacks",
        12_500,
        50_000,
        lambda size, folder: large_tables.audit_table(size, 10, folder),
    ),
    Axis(
        "classes",
        "Table of 10,000 answers, seven attacks",
        50,
        100,
        lambda size, folder: large_tables.audit_table(10_000, size, folder),
    ),
    Axis("attacks", "Audit of 5,000 candidates", 1, 3, _attacks),
    Axis(
        "shadows",
        "Audit of 2,000 candidates, lira and rmia",
        32,
        128,
        large_tables.audit_with_shadows,
    ),
)


def _figure(points: list[Point]) -> "alt.LayerChart":
    import altair as alt

    from divulge.report import chart_style

    names = list(dict.fromkeys(point["what"] for point in points))
    scale = alt.Scale(domain=names, range=chart_style.COLOURS[: len(names)])
    legend = alt.Legend(orient="top", title=None, columns=2)
    x = alt.X("size:Q", title="Times the smallest size", axis=alt.Axis(values=list(TIMES)))
    y = alt.Y(
        "share:Q", title="Times its CPU seconds, less fixed ones", axis=alt.Axis(values=list(TIMES))
    )
    base = alt.Chart(chart_style.inline_data(points)).encode(
        x=x.scale(type="log"), color=alt.Color("what:N", legend=legend, scale=scale)
    )
    points = [point for point in points if point["size"] in TIMES]
    even = alt.Chart(chart_style.inline_data([{"size": k, "share": k} for k in TIMES]))
    return chart_style.style_layers(
        even.mark_line(strokeDash=(2, 2), color=chart_style.MUTED).encode(
            x=x.scale(type="log"), y=y.scale(type="log")
        ),
        base.mark_line().encode(y=y.scale(type="log")),
        base.mark_point(filled=True).encode(y=y.scale(type="log")),
        height=280,
    )
