"""The command that searches for the most accurate model or federation under a limit on leakage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divulge.cli.begin import begin
from divulge.cli.exit_codes import TRIPPED, UNDECIDED, finish, print_estimates
from divulge.cli.options import Command
from divulge.errors import SpecError

if TYPE_CHECKING:
    from divulge.studies.harden.federated_result import HardenedFederation
    from divulge.studies.harden.result import HardenedModel

_CODES = {"under": 0, "within": 0, "over": TRIPPED, "undecided": UNDECIDED}


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
    help="Estimate the cost of the search by a short trial of an undefended model, and stop.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints one object as the last line: run, report and all figures.",
)
def harden(
    settings: Path,
    run: Path | None,
    resume: bool,  # noqa: FBT001 (a flag of the command line)
    workers: str,
    estimate: bool,  # noqa: FBT001
    shape: str,
) -> None:
    """Search for the most accurate model under a ceiling on leakage (SETTINGS: a harden.toml file).

    A federate.toml with a section [harden] is searched for the most accurate federation within
    limits on what its server learns. Exit code 0 means that the final model is under every ceiling,
    or the federation within every limit, 3 that none was found, 4 that it could not be decided.

    Example: divulge harden harden.toml
    """
    if estimate:
        print_estimates(settings, shape, workers)
        return
    from divulge._util import toml
    from divulge.federation import config as federations
    from divulge.studies.harden import config

    federated = federations.is_federation(toml.read_toml(settings))
    if federated and workers != "local":
        raise SpecError(
            f"expected --workers local for a federation, got {workers}: its clients train here"
        )
    name = (federations if federated else config).read(settings).name
    hardened: HardenedModel | HardenedFederation
    with begin(settings, run, name, resume=resume) as folder:
        if federated:
            from divulge.studies.harden.federated import harden_federation_file

            hardened = harden_federation_file(settings, folder, resume=resume, progress=True)
        else:
            from divulge.studies.harden.run import harden_file

            hardened = harden_file(settings, folder, resume=resume, progress=True, workers=workers)
    finish(hardened, shape, _CODES[hardened.outcome])
