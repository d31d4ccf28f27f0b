"""The command that measures published tables again."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from leakscope.progress import bar


@click.command()
@click.argument("table", required=False)
@click.option(
    "--size",
    type=click.Choice(["small", "medium", "full"]),
    default="small",
    help="How much is computed; each table says what differs from the paper.",
)
@click.option("--run", type=click.Path(path_type=Path), help="Folder. Default: a new one in runs/.")
@click.option("--resume", is_flag=True, help="Continue the folder (default: the latest one).")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints, as the last line, one object with table and cells.",
)
def reproduce(
    table: str | None,
    size: Literal["small", "medium", "full"],
    run: Path | None,
    resume: bool,  # noqa: FBT001 (a flag of the command line)
    shape: str,
) -> None:
    """Measure a published TABLE again, beside the paper's figures; without one, list them.

    Data sets are read from the folder in LEAKSCOPE_DATA.

    Example: leakscope reproduce decaf-table3 --size small
    """
    from leakscope import listing
    from leakscope.api import numbered
    from leakscope.experiments import table as tables
    from leakscope.store import new_folder

    if table is None:
        for name, text in listing.tables():
            click.echo(f"{name:<20} {text}")
        return
    tables.find(table)
    folder = run or numbered(Path("runs") / f"{table}-{size}", latest=resume)
    if not (resume and (folder / "cells").is_dir()):
        new_folder(folder)
    done = tables.reproduce(table, size, folder, bar)
    click.echo(done.markdown())
    click.echo(f"Table: {folder / 'table.md'}", err=shape == "json")
    if shape == "json":
        click.echo(done.as_json())
