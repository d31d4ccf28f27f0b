"""The commands that look at the transcript of a federated run."""

from __future__ import annotations

from pathlib import Path

import click

from divulge.cli.options import Group
from divulge.cli.terminal import echo


@click.group(cls=Group)
def transcript() -> None:
    """Inspect the transcript of a federated run.

    Example: divulge transcript inspect runs/federation-001
    """


@transcript.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints one object with rounds, clients and flags.",
)
def inspect(folder: Path, shape: str) -> None:
    """Show the rounds and clients in FOLDER, the norms of their updates, and anomalies.

    Example: divulge transcript inspect runs/federation-001
    """
    from divulge.cli import inspection
    from divulge.federation.transcript.inspect import inspect
    from divulge.federation.transcript.reader import Transcript

    inspected = inspect(Transcript.open(folder), progress=True)
    if shape == "json":
        echo(inspection.as_json(inspected))
    else:
        inspection.show(inspected)
