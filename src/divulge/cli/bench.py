"""The command that puts an attack of somebody's own beside those of divulge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divulge._util.progress import track_visibly
from divulge.cli.exit_codes import FAILED, leave
from divulge.cli.options import Command
from divulge.cli.terminal import echo

if TYPE_CHECKING:
    from divulge.studies.bench.result import AttackBench


@click.command(cls=Command)
@click.argument("attack")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    help="Run folder; one that was begun is continued. Default: a new one in runs/.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of all random draws.")
def bench(attack: str, settings: tuple[str, ...], run: Path | None, seed: int) -> None:
    """Compare an attack of your own, ATTACK (file.py:Class), with five of divulge on six targets.

    The targets are small models of scikit-learn, which are trained here in minutes, on its own
    data. The folder gets an audit for each, and the table as CSV, LaTeX and SVG. The exit code is 1
    if an attack ended with an error.

    Example: divulge bench mine.py:Surest power=2.0
    """
    with track_visibly.step("Loading divulge"):
        from divulge._util.toml import read_pairs
        from divulge.studies.bench.run import CSV, LATEX, PLOT, bench_attack

    result = bench_attack(attack, settings=read_pairs(settings), run=run, seed=seed, progress=True)
    _show(result)
    for name in (CSV, LATEX, PLOT):
        echo(result.path / name)
    lost = any(row.status == "failed" for audit in result.audits.values() for row in audit.findings)
    leave(FAILED if lost else 0)


def _show(result: AttackBench) -> None:
    from divulge.cli.terminal import Grid, show, show_table
    from divulge.report import words
    from divulge.studies.bench.result import METRICS
    from divulge.studies.bench.targets import TARGETS

    figures = Grid(f"AUC of {result.attack}, and of the best other attack, with 95 % intervals")
    figures.add_columns(["target"])
    figures.add_columns(["AUC", "best other", "its AUC"], right=True)
    for name, about in TARGETS.items():
        figures.add_row([f"{name} ({about.about})", *_figures_of(result, name)])
    show_table(figures)
    means = Grid(f"{result.attack} less each other attack, the mean over targets")
    means.add_columns(["other attack"])
    means.add_columns([words.metric_title(name) for name in METRICS], right=True)
    for label in result.builtin:
        each = [result.mean(label, name) for name in METRICS]
        cells = [
            "" if difference is None else words.format_difference(difference) for difference in each
        ]
        means.add_row([label, *cells])
    show_table(means)
    show(
        "Differences are paired: both attacks score the same records. Their intervals hold for all "
        "other attacks at once. Targets are small and over-fitted, and stand for no model in use."
    )
    for row in result.rows:
        if row.attack == result.attack and row.reason:
            show(f"{row.target}: no figure, {row.reason}")


def _figures_of(result: AttackBench, target: str) -> list[str]:
    from divulge.report import words

    counting = {
        row.attack: row.metrics["auc"]
        for row in result.rows
        if row.target == target and not row.reason and "auc" in row.metrics
    }
    mine = counting.pop(result.attack, None)
    best = max(counting, key=lambda label: counting[label].value, default=None)
    return [
        "" if mine is None else words.format_auc(mine),
        best or "",
        "" if best is None else words.format_auc(counting[best]),
    ]
