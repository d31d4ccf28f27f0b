"""The commands that compare finished runs: a history of versions, and one run with another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from divulge.cli.options import Command
from divulge.cli.terminal import Grid, echo, show, show_table

if TYPE_CHECKING:
    from divulge.exports.history import History, RunDifference

formats = click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints one object with all figures.",
)


@click.command(cls=Command)
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a page with a chart of each metric.",
)
@formats
def history(runs: tuple[Path, ...], page: Path | None, shape: str) -> None:
    """Compare the versions of one model: its audits in RUNS, the earliest first.

    For each attack, the output says whether it finds more than in the version before.

    Example: divulge history runs/v1 runs/v2 runs/v3 --page history.html
    """
    from divulge.exports.history import history as put_together

    joined = put_together(runs)
    written = None if page is None else joined.report(page)
    if shape == "json":
        echo(json.dumps(joined.as_json()))
        return
    _show_history(joined)
    if written is not None:
        echo(f"Page: {written}")


@click.command(cls=Command)
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@formats
def diff(before: Path, after: Path, shape: str) -> None:
    """Show what changed from the run BEFORE to the run AFTER: settings, data and figures.

    Example: divulge diff runs/v1 runs/v2
    """
    from divulge.exports.history import diff as compare

    difference = compare(before, after)
    if shape == "json":
        echo(json.dumps(difference.as_json()))
        return
    _show_difference(difference)


def _show_history(joined: History) -> None:
    from divulge.exports.history import describe_change
    from divulge.report import words

    show((joined.headline, "bold"))
    for number, version in enumerate(joined.versions, 1):
        show(f"{number}: {version.run}, {version.created or 'no date'}, verdict: {version.level}")
    for metric, rows in joined.figures.items():
        table = Grid(f"{words.metric_title(metric)}, with 95 % intervals")
        table.add_columns(["attack"])
        table.add_columns([str(number + 1) for number in range(len(joined.versions))], right=True)
        for label, figures in rows.items():
            cells = [
                "none" if estimate is None else words.format_metric(metric, estimate)
                for estimate in figures
            ]
            table.add_row([label, *cells])
        show_table(table)
    show("A lower limit of 0 may mean too few records: the report of the run says so.")
    for number, changes in enumerate(joined.changes, 1):
        show(f"From {number} to {number + 1}; intervals of all differences hold at once:")
        for change in changes:
            show(f"  {describe_change(change)}", wrap=False)


def _show_difference(difference: RunDifference) -> None:
    from divulge.exports.history import describe_change

    for name, version in (("Before", difference.before), ("After", difference.after)):
        show(f"{name}: {version.run}, {version.created or 'no date'}, verdict: {version.level}")
    for title, changed in (("Data", difference.data), ("Settings", difference.settings)):
        show((title, "bold"), ": no difference" if not changed else "")
        for key, (earlier, later) in changed.items():
            show(f"  {key}: {json.dumps(earlier)} to {json.dumps(later)}", wrap=False)
    if difference.same_candidates is not None:
        sameness = (
            "the same, so differences allow for it"
            if difference.same_candidates
            else "not the same"
        )
        show(("Candidates", "bold"), f": {sameness}")
    intervals = "95 % intervals, which hold for all attacks at once"
    show(
        ("Figures", "bold"),
        f": {intervals}" if difference.figures else ": no attack stands in both",
    )
    for change in difference.figures:
        show(f"  {describe_change(change)}", wrap=False)
    for title, labels in (("Only before", difference.lost), ("Only after", difference.gained)):
        if labels:
            show(f"  {title}: {', '.join(labels)}")
