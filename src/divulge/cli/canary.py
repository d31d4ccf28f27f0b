"""The commands that test a stated ε by canaries in one training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divulge._util.progress import track_visibly
from divulge.cli.canary_audit import audit, run_
from divulge.cli.canary_options import noises, records_each, stated
from divulge.cli.options import Group
from divulge.cli.terminal import echo

if TYPE_CHECKING:
    from divulge.canaries.clients import Sees
    from divulge.canaries.make import CanaryKind
    from divulge.core import NoiseAssumption
    from divulge.data.canary_files import Neighbours


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
    type=click.Choice(["direction", "out-of-distribution", "in-distribution", "mislabelled"]),
    help="Default: direction for numbers, out-of-distribution for texts. With in-distribution the "
    "records are held-out ones, which become canaries themselves.",
)
@click.option("--label", default="label", show_default=True, help="Column of a table's classes.")
@click.option(
    "--texts", is_flag=True, help="For a language model: RECORDS has a column text and no classes."
)
def make(
    records: str,
    folder: Path,
    count: int,
    records_each: int,
    kind: CanaryKind | None,
    label: str,
    *,
    texts: bool,
) -> None:
    """Make canaries like RECORDS in FOLDER: a file to train on, and sealed coins.

    RECORDS is a data file (.npz, .csv, ...), or FILE.py:NAME.

    Example: divulge canary make train.npz canaries --count 1000
    """
    with track_visibly.step("Making canaries"):
        from divulge.canaries.make import make_canaries
        from divulge.data import canary_files as files
        from divulge.data.records import load_record_sets, load_texts

        if texts:
            loaded = load_texts(records, Path())
        else:
            (loaded,) = load_record_sets([records], label, Path())
        made = make_canaries(loaded, folder, count, records_each=records_each, kind=kind)
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


canary.add_command(run_)
canary.add_command(audit)
