"""The command that writes a finished run for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from divulge._util.progress import track_visibly
from divulge.cli.exit_codes import leave, ruling_code, show_ruling
from divulge.cli.gate import run_gate_options
from divulge.cli.options import Command
from divulge.cli.terminal import echo

if TYPE_CHECKING:
    from divulge.finished_runs.gate import CanaryFailOn, FailOn

_OWN = "its own"
"""Stands for where MLflow tracks anyway: ``--mlflow`` without a URI."""
_FROM_GITHUB = Path()
"""Stands for the file that GitHub names: ``--job-summary`` without one."""


@click.command(cls=Command)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write JUnit XML: a test case for each thing that the gate asks for, and for each attack.",
)
@click.option(
    "--sarif",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write SARIF 2.1.0 for code scanning: a result for each thing that is wrong.",
)
@click.option(
    "--job-summary",
    is_flag=False,
    flag_value=_FROM_GITHUB,
    type=click.Path(path_type=Path),
    metavar="[FILE]",
    help="Write the gate and the report in Markdown. Without FILE, append to the summary of the "
    "step in GitHub Actions.",
)
@click.option(
    "--model-card",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Put a section about the audit into a model card, such as the README.md of a model on "
    "Hugging Face; a section of an earlier audit is replaced.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the whole run folder as one zip file.",
)
@click.option(
    "--model-index",
    metavar="NAME",
    help="With --model-card: also put the figures into the card's metadata, as model-index of the "
    "model NAME; needs the extra [report].",
)
@click.option(
    "--mlflow",
    is_flag=False,
    flag_value=_OWN,
    metavar="[URI]",
    help="Write a run of MLflow with metrics, verdict and report. Without URI, where MLflow is set "
    "up to track; needs the extra [report].",
)
@click.option(
    "--wandb",
    is_flag=False,
    flag_value=Path(),
    type=click.Path(path_type=Path),
    metavar="[FOLDER]",
    help="Write the same as an offline run of Weights & Biases in FOLDER, for `wandb sync`; needs "
    "the extra [report].",
)
@click.option(
    "--settings",
    type=click.Path(path_type=Path),
    default="audit.toml",
    metavar="PATH",
    help="The settings file as its repository names it, where SARIF places its results and a "
    "relative path in [gate] starts.",
)
@run_gate_options
def export(
    run: Path,
    junit: Path | None,
    sarif: Path | None,
    job_summary: Path | None,
    model_card: Path | None,
    archive: Path | None,
    model_index: str | None,
    mlflow: str | None,
    wandb: Path | None,
    settings: Path,
    fail_on: tuple[FailOn | CanaryFailOn, ...],
    agreed: tuple[str, ...],
    ceilings: tuple[str, ...],
    judge: Literal["low", "value"] | None,
    not_worse_than: Path | None,
) -> None:
    """Write RUN as JUnit XML, SARIF, a model card, a zip file or a tracker's run, with a gate.

    The gate of the run's settings holds too. Exits with 3 when the gate failed, and with 4 when it
    could not be decided; the files are written all the same. With --fail-on and no file it only
    judges.

    Example: divulge export runs/demo-001 --junit junit.xml --sarif divulge.sarif --fail-on leak
    """
    with track_visibly.step("Exporting the run"):
        from divulge.exports import export as exporting
        from divulge.finished_runs.gate import read_ceiling

        ruling = exporting.export(
            run,
            junit=junit,
            sarif=sarif,
            job_summary=True if job_summary == _FROM_GITHUB else job_summary,
            model_card=model_card,
            model_index=model_index,
            archive=archive,
            mlflow=True if mlflow == _OWN else mlflow,
            wandb=wandb,
            settings=settings,
            fail_on=fail_on,
            fail_above=tuple(map(read_ceiling, ceilings)),
            judge=judge,
            not_worse_than=not_worse_than,
            ceiling=tuple(map(read_ceiling, agreed)),
        )
    code = ruling_code(ruling)
    for path in (junit, sarif, job_summary, model_card, archive):
        if path not in (None, _FROM_GITHUB):
            echo(path)
    show_ruling(ruling)
    leave(code)
