"""The commands that test a stated ε by canaries in one training."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from divulge._util.progress import track_visibly
from divulge.cli.exit_codes import ruling_code, show_ruling
from divulge.cli.options import Group
from divulge.cli.terminal import echo

if TYPE_CHECKING:
    from divulge.canaries.clients import Sees
    from divulge.canaries.make import CanaryKind
    from divulge.canaries.result import CanaryAudit
    from divulge.core import NoiseAssumption
    from divulge.data.canary_files import Neighbours

noises = click.option(
    "--noise",
    type=click.Choice(["any", "gaussian", "independent-gaussian"]),
    default="any",
    show_default=True,
    help="What is supposed about the training: nothing; that its trade-off curve is that of "
    "Gaussian noise; or also that canaries do not interact.",
)
stated = (
    click.option("--epsilon", type=float, required=True, help="The ε that is stated."),
    click.option("--delta", type=float, required=True, help="The δ of the same statement."),
)
run_folder = click.option(
    "--run", type=click.Path(path_type=Path), help="Run folder. Default: a new one in runs/."
)
fails_on = click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    type=click.Choice(["contradicted", "undecidable"]),
    help="Exit with 3 when this is the verdict; with 4 when contradicted is asked for and the "
    "number of canaries cannot decide it. Repeatable.",
)
formats = click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints one object with all figures.",
)


records_each = click.option(
    "--records-each",
    type=int,
    default=1,
    show_default=True,
    help="Records of each canary. From 2 on a canary is a person, and ε is for one person.",
)


@click.group(cls=Group)
def canary() -> None:
    """Test a stated ε of differential privacy by canaries in one training.

    Plan how many, make them, train with the file for the trainer, score them, audit; `run` does all
    of it. For a federation make canary clients.

    Example: divulge canary run train.py train.npz --epsilon 4 --delta 1e-5
    """


@canary.command()
@stated[0]
@stated[1]
@click.option("--canaries", type=int, help="Their number. Default: as many as it takes.")
@records_each
@noises
@click.option(
    "--power", type=float, default=0.8, show_default=True, help="Probability of finding a fault."
)
def plan(
    epsilon: float,
    delta: float,
    canaries: int | None,
    records_each: int,
    noise: NoiseAssumption,
    power: float,
) -> None:
    """Show how many canaries contradict a stated ε when more is let through.

    Example: divulge canary plan --epsilon 4 --delta 1e-5
    """
    with track_visibly.step("Loading divulge"):
        from divulge.canaries.plan import plan_canaries

    echo(
        plan_canaries(
            epsilon,
            delta,
            canaries=canaries,
            records_each=records_each,
            noise=noise,
            power=power,
            progress=True,
        )
    )


@canary.command()
@click.argument("records")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--count", type=int, required=True, help="Number of canaries; half are inserted.")
@records_each
@click.option(
    "--kind",
    type=click.Choice(["direction", "out-of-distribution", "mislabelled"]),
    help="Default: direction for numbers, out-of-distribution for texts.",
)
@click.option("--label", default="label", show_default=True, help="Column of a table's classes.")
def make(
    records: str, folder: Path, count: int, records_each: int, kind: CanaryKind | None, label: str
) -> None:
    """Make canaries like RECORDS in FOLDER: a file to train on, and sealed coins.

    RECORDS is a data file (.npz, .csv, ...), or FILE.py:NAME.

    Example: divulge canary make train.npz canaries --count 1000
    """
    with track_visibly.step("Making canaries"):
        from divulge.canaries.make import make_canaries
        from divulge.data import canary_files as files
        from divulge.data.records import load_record_sets

        (found,) = load_record_sets([records], label, Path())
        made = make_canaries(found, folder, count, records_each=records_each, kind=kind)
    many = f" people, each with {records_each:,} records," if records_each > 1 else ""
    echo(f"Train on: your records and the {made.inserted:,}{many} of {folder / files.TRAIN}")
    echo(f"Score: the {made.canaries:,}{many} of {folder / files.CANDIDATES} (kind {made.kind})")
    echo(f"Sealed, for the auditor alone: {folder / files.SEALED}")
    echo(f"Commitment (SHA-256): {made.commitment}")


@canary.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--count", type=int, required=True, help="Number of canaries.")
@click.option(
    "--neighbours",
    type=click.Choice(["add-or-remove", "replace"]),
    default="add-or-remove",
    show_default=True,
    help="What ε is stated for: one client more or less (central and distributed noise; half of "
    "the canaries take part), or another update of one client (local noise; all take part).",
)
def clients(folder: Path, count: int, neighbours: Neighbours) -> None:
    """Make canary clients for a federation in FOLDER: secret directions, and sealed coins.

    Example: divulge canary clients canaries --count 500
    """
    from divulge.canaries.clients import make_canary_clients
    from divulge.data import canary_files as files

    made = make_canary_clients(folder, count, neighbours=neighbours)
    echo(f"Canary clients that take part: {made.taking_part:,} of {folder / files.TRAIN}")
    echo(f"Sealed, for the auditor alone: {folder / files.SEALED}")
    echo(f"Commitment (SHA-256): {made.commitment}")


@canary.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("scores", type=click.Path(path_type=Path))
@click.option(
    "--sees",
    type=click.Choice(["rounds", "final", "messages", "differences"]),
    default="rounds",
    show_default=True,
    help="The new weights of each round; the final model alone; what each canary client sent "
    "(where all take part); or how rounds differ (finds noise that repeats).",
)
def score(folder: Path, run: Path, scores: Path, sees: Sees) -> None:
    """Score the canary clients in FOLDER by RUN, the transcript of a federation, into SCORES.

    Example: divulge canary score canaries runs/federation-001 scores.npz
    """
    with track_visibly.step("Scoring canary clients"):
        from divulge.canaries.clients import score_transcript

        path = score_transcript(folder, run, scores, sees=sees)
    echo(f"Scores: {path}")


@canary.command("run")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("records")
@stated[0]
@stated[1]
@click.option(
    "--count",
    type=int,
    help="Number of canaries. Default: as many as contradict ε if four times as much leaks.",
)
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
        from divulge.canaries.pipeline import audit_script

    found = audit_script(
        script,
        records,
        folder,
        scores,
        epsilon=epsilon,
        delta=delta,
        count=count,
        noise=noise,
        label=label,
        run=run,
    )
    _finish(found, fail_on, shape)


@canary.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("scores", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--epsilon", type=float, help="The ε that is stated. Default: as the transcript says."
)
@click.option("--delta", type=float, help="The δ of the same statement.")
@click.option(
    "--unit",
    type=click.Choice(["record", "person"]),
    default="record",
    show_default=True,
    help="Who the statement is for. What is stated for a record is turned into what it promises a "
    "canary with several.",
)
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
        found = audit_canaries(
            folder,
            scores,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            noise=noise,
            utility=utility,
            run=place,
        )
    _finish(found, fail_on, shape)


def _finish(found: CanaryAudit, fail_on: tuple[str, ...], shape: str) -> NoReturn:
    """Say what the gate rules, then what was found, and exit."""
    assert found.path is not None
    ruling = found.gate(fail_on=fail_on)
    show_ruling(ruling)
    report = found.path / found.page
    if shape == "json":
        echo(json.dumps({**found.as_json(), "report": str(report)}))
    else:
        echo(found)
    echo(f"Report: {report}", err=shape == "json")
    sys.exit(ruling_code(ruling))
