"""Measure the accuracy that DP-SGD clients cost: figure 6 of de Carvalho Bertoli (2026)."""

import time
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.timing import MissingPeer, environment
from divulge.core import Records
from divulge.metrics.intervals import wilson

if TYPE_CHECKING:
    import altair as alt
    from torch import nn

    from divulge.federation.fedavg import Federation
    from divulge.federation.transcript.reader import Transcript
    from divulge.training.recipe import Recipe

SUMMARY = "accuracy of a federation on soybean genotypes, round by round: no DP, ε = 200, ε = 10"

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "federated-utility.svg"

_CLIENTS = 4
_ROUNDS = 50
_EPOCHS = (1, 5, 20)
_HELD_OUT = 5
"""One record of so many is held out to measure accuracy on."""
_DELTA, _CLIP = 1e-5, 2.0


class Tier(NamedTuple):
    """One tier of privacy of the clients for the whole run."""

    name: str
    epsilon: float | None


TIERS = (Tier("no DP", None), Tier("ε = 200", 200.0), Tier("ε = 10", 10.0))


class Course(NamedTuple):
    """Accuracy of one tier with one number of local epochs, round by round."""

    tier: Tier
    epochs: int
    hits: "np.ndarray"
    """Number of held-out records classified right after each round."""
    trials: int
    said: str
    """Privacy guarantee, in words, that the last round of the transcript claims for clients."""


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print the accuracy after the last round; draw that of each round, unless it is a trial.

    Raises:
        MissingPeer: Opacus or dp-accounting is not installed.
        MissingData: there are no SoyNAM genotypes.
    """
    for package in ("opacus", "dp_accounting"):
        if find_spec(package) is None:
            raise MissingPeer(package, "dp")
    from divulge.report.charts import render

    records = data.soynam_families()
    rounds = 10 if quick else _ROUNDS
    print(environment(("divulge", "torch", "opacus", "dp-accounting")))
    print(
        f"SoyNAM, {len(records):,} lines of {records.y.max() + 1} families, {records.x.shape[1]:,} "
        f"SNPs; {_CLIENTS} clients, {rounds} rounds, δ = {_DELTA:g}, clipped to {_CLIP:g}\n"
    )
    print("| tier | local epochs | accuracy after the last round [95 %] | claimed | CPU s |")
    print("|---|---:|---|---|---:|")
    courses = []
    for epochs in _EPOCHS[:1] if quick else _EPOCHS:
        for tier in TIERS:
            begun = time.process_time()
            course = _course(records, tier, epochs, rounds)
            courses.append(course)
            print(f"{_row(course)} {time.process_time() - begun:.0f} |", flush=True)
        if not quick:  # a panel more each time: killed, it leaves those that are whole
            FIGURE.write_bytes(render(_figure(courses), "svg"))


def _course(records: Records, tier: Tier, epochs: int, rounds: int) -> Course:
    from divulge.federation.simulation import simulate

    order = np.random.default_rng(0).permutation(len(records))
    cut = len(records) // _HELD_OUT
    test, pool = records.take(order[:cut]), records.take(order[cut:])
    played = simulate(_federation(pool, test, tier, epochs, rounds), rounds)
    shares = np.array([seen.metrics["accuracy"] for seen in played.rounds])
    hits = np.rint(shares * len(test)).astype(np.int64)
    return Course(tier, epochs, hits, len(test), _claims(played))


def _federation(pool: Records, test: Records, tier: Tier, epochs: int, rounds: int) -> "Federation":
    from divulge.defences.training.dp_sgd.loop import layer_norm
    from divulge.defences.training.dp_sgd.trainer import DPSGD
    from divulge.federation import partition
    from divulge.federation.fedavg import Federation
    from divulge.federation.server import accuracy

    size, outputs = pool.x.shape[1], int(pool.y.max()) + 1
    plain = partial(_network, size, outputs)
    recipe = _recipe(plain if tier.epsilon is None else lambda: layer_norm(plain()), epochs)
    trainer = None
    if tier.epsilon is not None:
        trainer = DPSGD(
            recipe, _DELTA, epsilon=tier.epsilon, max_grad_norm=_CLIP, rounds=rounds, jobs=1
        )
    clients = partition.iid(pool, partition.equal_sizes(len(pool), _CLIENTS))
    return Federation(
        pool,
        clients,
        recipe,
        trainer=trainer,
        evaluate=accuracy(test),
        workers=1,
    )


def _recipe(network: Any, epochs: int) -> "Recipe":
    from divulge.training.recipe import Recipe

    # 28 of 112 records: every record enters a quarter of the batches
    return Recipe(network, lr=0.05, epochs=epochs, batch_size=28)


def _network(inputs: int, outputs: int) -> "nn.Module":
    """The head of the challenge's network; its convolutions, of one channel, are left out."""
    from torch import nn

    first = [nn.Linear(inputs, 24), nn.BatchNorm1d(24), nn.ReLU()]
    return nn.Sequential(*first, nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, outputs))


def _claims(played: "Transcript") -> str:
    promised = {got.guarantee for got in played.rounds[-1].received.values()}
    return ", ".join("nothing" if one is None else f"ε = {one.epsilon:g}" for one in promised)


def _row(course: Course) -> str:
    hits = int(course.hits[-1])
    low, high = wilson(hits, course.trials)
    return (
        f"| {course.tier.name} | {course.epochs} | {hits / course.trials:.3f} "
        f"[{low:.3f}, {high:.3f}] | {course.said} |"
    )


def _figure(courses: list[Course]) -> "alt.FacetChart":
    """Accuracy against round, a panel for each number of local epochs, a line a tier."""
    import altair as alt

    from divulge.report import chart_style

    names = [tier.name for tier in TIERS]
    panels = [_panel(epochs) for epochs in _EPOCHS]  # in this order
    base = alt.Chart(
        chart_style.inline_data([point for course in courses for point in _points(course)])
    )
    x = alt.X("round:Q", title="Round").scale(domain=[1, _ROUNDS], nice=False)
    y = (
        alt.Y("accuracy:Q", title="Accuracy")
        .scale(domain=[0, 1])
        .axis(labelExpr=chart_style.PERCENT)
    )
    colour = alt.Color("tier:N", legend=alt.Legend(title=None, orient="bottom")).scale(
        domain=names, range=chart_style.COLOURS[: len(names)]
    )
    lines = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)
    band = base.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    chance = base.mark_line(color=chart_style.MUTED, strokeDash=[4, 3]).encode(x=x, y="chance:Q")
    header = alt.Header(labelFont=chart_style.FONT, labelFontSize=13, labelColor=chart_style.INK)
    chart: alt.FacetChart = (
        alt.layer(band, chance, lines)
        .properties(width=220, height=220)
        .facet(column=alt.Column("panel:N", title=None, sort=panels, header=header))
        .properties(background="white", padding=8)
        .configure(font=chart_style.FONT, aria=False)
        .configure_view(stroke=None)
    )
    return chart


def _panel(epochs: int) -> str:
    return f"{epochs} local epoch{'s' if epochs > 1 else ''}"


def _points(course: Course) -> list[Mapping[str, Any]]:
    limits = [wilson(int(hits), course.trials) for hits in course.hits]
    return [
        {
            "panel": _panel(course.epochs),
            "tier": course.tier.name,
            "round": k + 1,
            "accuracy": float(course.hits[k]) / course.trials,
            "low": limits[k].low,
            "high": limits[k].high,
            "chance": 0.25,
        }
        for k in range(len(course.hits))
    ]
