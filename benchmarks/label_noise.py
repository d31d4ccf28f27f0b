"""Measure assignment to clients against the share of relevant records that are no members."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.which_client import label_attack
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import Records
from divulge.federation.local_models import AssignmentGame
from divulge.metrics import assignment
from divulge.metrics.intervals import wilson
from divulge_papers.papers.nist import games

if TYPE_CHECKING:
    import altair as alt

SUMMARY = "accuracy of assignment by the share of non-members among relevant records"

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "label-noise.svg"

PUBLISHED = 0.43
"""In nist-stacking (arXiv 2604.12737)."""

LEVELS = (0.0, 0.15, 0.3, PUBLISHED, 0.6)

PACK = "real0"
"""Of real genotypes, without privacy; no setting was chosen on it."""

ATTACKS: tuple[tuple[str, dict[str, str]], ...] = (
    ("nobody", {}),
    ("stacking", {"protocol": "published"}),
    ("stacking", {"protocol": "crossfit"}),
    ("cluster-lira", {}),
)


class Point(NamedTuple):
    """One attack at one level."""

    attack: str
    noise: float
    hits: int
    trials: int
    recall: float
    specificity: float


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print accuracy, recall and specificity at each level; draw accuracy, unless it is a trial."""
    from divulge.report.charts import render

    print("| non-members | attack | accuracy (95 %, Wilson) | recall | specificity |")
    print("|---:|---|---|---:|---:|")
    points = []
    for noise in LEVELS[::4] if quick else LEVELS:
        game = add_label_noise(games.load_pack(PACK, "cnn"), noise)
        for attack, settings in ATTACKS:
            point = _point(game, attack, settings, noise)
            low, high = wilson(point.hits, point.trials)
            print(
                f"| {noise:.0%} | {point.attack} | {point.hits / point.trials:.3f} ({low:.3f} to "
                f"{high:.3f}) | {point.recall:.3f} | {point.specificity:.3f} |",
                flush=True,
            )
            points.append(point)
    if not quick:
        FIGURE.write_bytes(render(_figure(points), "svg"))


def add_label_noise(game: AssignmentGame, share: float) -> AssignmentGame:
    """The same game with this share of non-members among each client's relevant records.

    Each client has as many relevant records as it has members among them, whatever the share, so
    that nothing but the share differs.
    """
    view = game.challenge.view
    rows_of_clients = [_choose_rows(member, share) for member in game.relevant]
    relevant: tuple[Records, ...] = tuple(
        records.take(rows) for records, rows in zip(view.relevant, rows_of_clients, strict=True)
    )
    members = tuple(
        member[rows] for member, rows in zip(game.relevant, rows_of_clients, strict=True)
    )
    collusion = dataclasses.replace(view.collusion, relevant=members[view.collusion.colluder])
    changed = dataclasses.replace(view, relevant=relevant, collusion=collusion)
    return AssignmentGame(dataclasses.replace(game.challenge, view=changed), members)


def _choose_rows(member: np.ndarray, share: float) -> np.ndarray:
    """Rows, with members and non-members dropped evenly."""
    count = int(member.sum())
    others = min(round(share * count), int((~member).sum()))
    chosen = [
        np.flatnonzero(kind)[np.linspace(0, kind.sum() - 1, n).round().astype(int)]
        for kind, n in ((member, count - others), (~member, others))
    ]
    return np.sort(np.concatenate(chosen))


def _point(game: AssignmentGame, name: str, settings: dict[str, str], noise: float) -> Point:
    attack = catalog.federation_attack(name, **settings)
    guess, truth = attack(game.challenge.view, stream(0, "noise", name)), game.challenge.truth
    trials = len(truth.client)
    return Point(
        label_attack(name, settings),
        noise,
        round(assignment.accuracy(guess, truth).value * trials),
        trials,
        assignment.recall(guess, truth).value,
        assignment.specificity(guess, truth).value,
    )


def _figure(points: list[Point]) -> "alt.LayerChart":
    """Accuracy against the share of non-members, a line an attack; the paper's share is marked."""
    import altair as alt

    from divulge.report import chart_style

    names = [label_attack(*attack) for attack in ATTACKS]
    base = alt.Chart(chart_style.inline_data([_chart_row(point) for point in points]))
    shown = alt.Legend(
        title=None, orient="bottom", symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1
    )
    colour = alt.Color("attack:N", legend=shown).scale(
        domain=names, range=chart_style.COLOURS[: len(names)]
    )
    x = alt.X("noise:Q", title="Non-members among relevant records").axis(
        labelExpr=chart_style.PERCENT, values=LEVELS
    )
    y = (
        alt.Y("accuracy:Q", title="Accuracy")
        .scale(domain=[0, 1])
        .axis(labelExpr=chart_style.PERCENT)
    )
    dash = alt.StrokeDash("attack:N", legend=None).scale(
        domain=names, range=chart_style.DASHES[: len(names)]
    )
    lines = base.mark_line(strokeWidth=2, point=True).encode(
        x=x, y=y, color=colour, strokeDash=dash
    )
    band = base.mark_area(opacity=0.1).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    mark = alt.Chart(chart_style.inline_data([{"noise": PUBLISHED}])).mark_rule(
        color=chart_style.MUTED, strokeDash=[4, 3]
    )
    return chart_style.style_layers(band, lines, mark.encode(x="noise:Q"), height=260)


def _chart_row(point: Point) -> dict[str, Any]:
    low, high = wilson(point.hits, point.trials)
    accuracy = point.hits / point.trials
    return {
        "attack": point.attack,
        "noise": point.noise,
        "accuracy": accuracy,
        "low": low,
        "high": high,
    }
