"""The commands about the data sets of published tables."""

from __future__ import annotations

from pathlib import Path

import click

from divulge.cli.options import Group
from divulge.cli.terminal import echo


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def data(context: click.Context) -> None:
    """List the data sets of `divulge reproduce`, and say which are present.

    divulge looks in the folder that DIVULGE_DATA names. It downloads nothing.

    Example: divulge data
    """
    if context.invoked_subcommand is None:
        from divulge.cli import listing

        for line in listing.data_sets():
            echo(line)


@data.command()
@click.argument("name")
@click.argument("source", metavar="FROM", type=click.Path(path_type=Path))
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder of all data sets. Default: the one in DIVULGE_DATA.",
)
def convert(name: str, source: Path, folder: Path | None) -> None:
    """Convert the data set NAME from its published form.

    FROM is the folder of the published files, their archive, or the file itself if there is only
    one. divulge first checks sizes, known checksums and numbers.

    Example: divulge data convert mnist downloads/mnist
    """
    from divulge.reproduce.conversion import convert

    echo(f"Written: {convert(name, source, folder)}")
