"""The commands that end an audit by canaries: all steps in one, and the audit itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from divulge._util.progress import track_visibly
from divulge.cli.canary_options import (
    fails_on,
    formats,
    noises,
    records_each,
    run_folder,
    stated,
    unit,
)
from divulge.cli.exit_codes import leave, ruling_code, show_ruling
from divulge.cli.options import Command
from divulge.cli.terminal import echo

if TYPE_CHECKING:
    from divulge.canaries.result import CanaryAudit
    from divulge.core import NoiseAssumption


@click.command("run", cls=Command)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("records")
@stated[0]
@stated[1]
@click.option(
    "--count",
    type=int,
    help="Number of canaries. Default: as many as contradict ε if four times as much leaks.",
)
@records_each
@unit
@noises
@click.option("--label", default="label", show_default=True, help="Column of a table's classes.")
@click.option(
    "--canaries",
    "folder",
    type=click.Path(path_type=Path),
    default="canaries",
    show_default=True,
    help="Folder of the canaries.",
)
@click.option(
    "--scores",
    type=click.Path(path_type=Path),
    multiple=True,
    default=["white.npz"],
    show_default=True,
    help="File of scores that SCRIPT writes. Repeatable.",
)
@run_folder
@fails_on
@formats
def run_(
    script: Path,
    records: str,
    epsilon: float,
    delta: float,
    count: int | None,
    records_each: int,
    unit: Literal["record", "person"],
    noise: NoiseAssumption,
    label: str,
    folder: Path,
    scores: tuple[Path, ...],
    run: Path | None,
    fail_on: tuple[str, ...],
    shape: str,
) -> None:
    """Plan, make canaries like RECORDS, train by SCRIPT, and audit: all in one command.

    SCRIPT trains on RECORDS and on for-trainer/train.npz in the folder of the canaries, and saves
    scores with CanaryRecorder. After a failure the same command goes on: what is there is kept.

    Example: divulge canary run train.py train.npz --epsilon 4 --delta 1e-5
    """
    with track_visibly.step("Loading divulge"):
        from divulge.canaries.pipeline import CanaryOrder, audit_script

    result = audit_script(
        script,
        records,
        folder,
        scores,
        epsilon=epsilon,
        delta=delta,
        of=CanaryOrder(count, records_each, unit),
        noise=noise,
        label=label,
        run=run,
    )
    _finish(result, fail_on, shape)


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("scores", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--epsilon", type=float, help="The ε that is stated. Default: as the transcript says."
)
@click.option("--delta", type=float, help="The δ of the same statement.")
@unit
@noises
@click.option(
    "--utility",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Which test records are right, with canaries and without (.npz of two boolean arrays).",
)
@run_folder
@fails_on
@formats
def audit(
    folder: Path,
    scores: tuple[Path, ...],
    epsilon: float | None,
    delta: float | None,
    unit: Literal["record", "person"],
    noise: NoiseAssumption,
    utility: Path | None,
    run: Path | None,
    fail_on: tuple[str, ...],
    shape: str,
) -> None:
    """Test the stated ε: compare SCORES of the training with the secret coins in FOLDER.

    SCORES are files of `divulge canary score`, CanaryRecorder, score_checkpoints or score_canaries.

    Example: divulge canary audit canaries scores.npz --epsilon 4 --delta 1e-5
    """
    with track_visibly.step("Opening the coins"):
        from divulge._util.folders import numbered_folder
        from divulge.canaries.audit import audit_canaries

        place = run or numbered_folder(Path("runs") / "canaries")
        result = audit_canaries(
            folder,
            scores,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            noise=noise,
            utility=utility,
            run=place,
        )
    _finish(result, fail_on, shape)


def _finish(result: CanaryAudit, fail_on: tuple[str, ...], shape: str) -> NoReturn:
    """Say what the gate rules, then what was found, and exit."""
    assert result.path is not None
    ruling = result.gate(fail_on=fail_on)
    show_ruling(ruling)
    report = result.path / result.page
    if shape == "json":
        echo(json.dumps({**result.as_json(), "report": str(report)}))
    else:
        echo(result)
    echo(f"Report: {report}", err=shape == "json")
    leave(ruling_code(ruling))
