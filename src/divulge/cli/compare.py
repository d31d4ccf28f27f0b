"""The command that compares defences."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from divulge.cli.begin import begin
from divulge.cli.exit_codes import finish, print_estimates
from divulge.cli.options import Command
from divulge.cli.terminal import echo


@click.command(cls=Command)
@click.argument("settings", type=click.Path(path_type=Path))
@click.option(
    "--run", type=click.Path(path_type=Path), help="Run folder. Default: a new one in runs/."
)
@click.option("--resume", is_flag=True, help="Continue the run folder (default: the latest one).")
@click.option(
    "--workers",
    metavar="local|ray[:ADDRESS]",
    default="local",
    help="Where models are trained: on this machine, or on a Ray cluster (ray:auto, "
    "ray:HOST:PORT).",
)
@click.option(
    "--estimate",
    is_flag=True,
    help="Estimate the training time of each defence by a short trial, and stop.",
)
@click.option(
    "--export",
    "exported",
    type=(str, click.Path(path_type=Path)),
    metavar="NAME FOLDER",
    default=None,
    help="Write the model of one defence, and a section for its model card, into a new folder.",
)
@click.option(
    "--export-noise",
    type=click.Choice(["secure", "seeded"]),
    default="secure",
    help="Noise in the training of the exported model. secure: for publication; seeded: the "
    "audited model itself.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints one object as the last line: run, report and all figures.",
)
def compare(
    settings: Path,
    run: Path | None,
    resume: bool,  # noqa: FBT001 (a flag of the command line)
    workers: str,
    estimate: bool,  # noqa: FBT001
    exported: tuple[str, Path] | None,
    export_noise: Literal["secure", "seeded"],
    shape: str,
) -> None:
    """Train and audit the defences named in SETTINGS (a compare.toml file).

    Example: divulge compare compare.toml
    """
    if estimate:
        print_estimates(settings, shape, workers)
        return
    from divulge.studies.compare import config

    with begin(settings, run, config.read(settings).name, resume=resume) as folder:
        from divulge.studies.compare.run import compare_file

        comparison = compare_file(
            settings,
            folder,
            resume=resume,
            export=exported,
            export_noise=export_noise,
            progress=True,
            workers=workers,
        )
    if exported is not None:
        echo(f"Model: {exported[1]}", err=shape == "json")
    finish(comparison, shape)
