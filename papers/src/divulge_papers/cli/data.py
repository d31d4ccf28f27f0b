"""The commands about the data sets of published tables."""

from __future__ import annotations

from collections.abc import Iterator
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
        for line in data_sets():
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
    from divulge_papers.conversion import convert

    echo(f"Written: {convert(name, source, folder)}")


def data_sets() -> Iterator[str]:
    """What `divulge data` prints: each data set of tables, and whether it is there."""
    from divulge_papers import datasets

    folder = datasets.data_folder()
    yield (
        f"Folder in {datasets.VARIABLE}: {folder}" if folder else f"{datasets.VARIABLE} is not set."
    )
    for name, data_set in datasets.DATA_SETS.items():
        there = "there" if datasets.is_there(name) else "missing"
        yield f"\n{name}: {data_set.title} ({there})"
        yield f"  source: {data_set.source}"
        yield f"  licence: {data_set.licence}"
        yield f"  files that tables read: {', '.join(data_set.files)}"
        for archive, digest in data_set.archives.items():
            yield f"  published as {archive} ({digest}) with"
        for file in data_set.published:
            names = " or ".join(
                f"{path} ({digest or 'no checksum known'})" for path, digest in file.names.items()
            )
            yield f"  published file: {names}"
        if not data_set.published:
            yield f"  no conversion: {data_set.instead}"
    yield "\nTo convert one: divulge data convert NAME FROM"
