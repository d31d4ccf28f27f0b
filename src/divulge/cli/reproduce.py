"""The command that measures published tables again."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import click

from divulge.cli.begin import take
from divulge.cli.terminal import echo

NOTHING_MEASURED = 2
"""The exit code of bad input."""


@click.command()
@click.argument("table", required=False)
@click.option(
    "--size",
    type=click.Choice(["small", "paper"]),
    help="How much is computed; each table says what differs from the paper. Default: small. "
    "Without TABLE: all tables.",
)
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    help="Folder. Default: a new one in runs/. Without TABLE: what takes the place of runs/.",
)
@click.option("--resume", is_flag=True, help="Continue the folder (default: the latest one).")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="How many work at once. Default: one a core.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints, as the last line, one object with table and cells; of all tables, one each.",
)
def reproduce(
    table: str | None,
    size: Literal["small", "paper"] | None,
    run: Path | None,
    resume: bool,  # noqa: FBT001 (a flag of the command line)
    processes: int | None,
    shape: str,
) -> None:
    """Measure a published TABLE again, beside the paper's figures.

    Without TABLE, list them, or measure all of a --size. Data sets are read from the folder in
    DIVULGE_DATA.

    Exits with 2 if nothing of a table could be measured, as without its data.

    Example: divulge reproduce decaf-table3 --size small
    """
    from divulge._util.folders import create_folder, numbered_folder
    from divulge.reproduce.table import TABLES, find_table

    if table is None and size is None:
        from divulge.cli import tables

        tables.show_all()
        return
    names, size = [table] if table else list(TABLES), size or "small"
    find_table(names[0])
    runs = (run.parent if table else run) if run else Path("runs")
    folders = {
        name: run if run and table else numbered_folder(runs / f"{name}-{size}", latest=resume)
        for name in names
    }
    with ExitStack() as stack:
        for folder in folders.values():
            stack.enter_context(take(folder))
            if not (resume and (folder / "cells").is_dir()):
                create_folder(folder)
        from divulge.reproduce.pool import CellWorkers, cores
        from divulge.reproduce.run import reproduce

        crew = stack.enter_context(CellWorkers(processes or cores()))
        # each is in its folder when whole
        outcomes = list(reproduce(folders, size, progress=True, crew=crew))
    from divulge.cli import tables
    from divulge.reproduce import page

    failed = False
    for outcome in outcomes:  # not before: they would be written into the bar
        echo(f"Table: {folders[outcome.table] / 'table.md'}", err=True)
        empty = all(cell.ours is None for cell in outcome.cells)
        failed |= empty
        if shape == "json":
            echo(outcome.as_json())
        elif empty:
            echo(f"{outcome.table}: nothing was measured: {'; '.join(outcome.unmeasured)}")
        else:
            tables.show(outcome)
    echo(f"Page of all tables: {page.write_page(runs)}", err=True)
    sys.exit(NOTHING_MEASURED if failed else 0)
