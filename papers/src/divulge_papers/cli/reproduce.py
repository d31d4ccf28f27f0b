"""The command that measures published tables again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from divulge.cli.begin import take
from divulge.cli.exit_codes import leave
from divulge.cli.options import Command
from divulge.cli.terminal import echo
from divulge.errors import SpecError

if TYPE_CHECKING:
    from divulge.training.cluster import RayCluster
    from divulge_papers.result import Outcome

NOTHING_MEASURED = 2
"""The exit code of bad input."""


@click.command(cls=Command)
@click.argument("table", required=False)
@click.option(
    "--size",
    type=click.Choice(["small", "paper"]),
    help="How much is computed; each table says what differs from the paper. Default: small. "
    "Without TABLE: all tables.",
)
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    help="Folder. Default: a new one in runs/. Without TABLE: it gets a folder for each table.",
)
@click.option(
    "--row",
    "rows",
    multiple=True,
    metavar="PATTERN",
    help="Measure rows whose name matches, such as 'Fashion-MNIST: DAP_v*'; * stands for any text. "
    "Can be given several times. Default: all rows.",
)
@click.option("--resume", is_flag=True, help="Continue the folder (default: the latest one).")
@click.option(
    "--budget",
    metavar="TIME",
    help="Time on the clock, such as 2h, 90m or 1h30m. divulge measures the cheapest missing "
    "pieces first, and starts none that would end later by its estimate. Continues the folder as "
    "--resume does.",
)
@click.option(
    "--refresh",
    is_flag=True,
    help="Measure pieces again that an older source of the study measured.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Number of processes. Default: one for each core.",
)
@click.option(
    "--workers",
    metavar="local|ray[:ADDRESS]",
    default="local",
    help="Where pieces are measured: on this machine, or on a Ray cluster (ray:auto, "
    "ray:HOST:PORT).",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints, as the last line, one object with table and cells; of all tables, one each.",
)
def reproduce(
    table: str | None,
    size: Literal["small", "paper"] | None,
    run: Path | None,
    rows: tuple[str, ...],
    resume: bool,  # noqa: FBT001 (a flag of the command line)
    budget: str | None,
    refresh: bool,  # noqa: FBT001 (a flag of the command line)
    processes: int | None,
    workers: str,
    shape: str,
) -> None:
    """Measure a published TABLE again, and print it beside the paper's figures.

    Without TABLE, list all tables; with --size alone, measure all of them. Data sets are read from
    the folder that DIVULGE_DATA names.

    The exit code is 2 if nothing of a table could be measured, for example without its data. An
    incomplete table is not a failure.

    Example: divulge reproduce decaf-table3 --size small
    """
    from divulge_papers.table import TABLES, find_table

    if table is None and size is None:
        from divulge_papers.cli import tables

        tables.show_all()
        return
    cluster = _find_cluster(workers, processes)
    wanted, size = [table] if table else list(TABLES), size or "small"
    names = _with_data({name: find_table(name).data for name in wanted})
    resume = resume or budget is not None
    runs = (run.parent if table else run) if run else Path("runs")
    folders = _run_folders(names, size, run, single=table is not None, resume=resume)
    with ExitStack() as stack:
        for folder in folders.values():
            stack.enter_context(take(folder))
        _create_folders(folders.values(), resume=resume)
        from divulge_papers.pool import AnyCellWorkers, CellWorkers, RemoteCellWorkers, cores
        from divulge_papers.run import reproduce

        cell_workers: AbstractContextManager[AnyCellWorkers] = (
            CellWorkers(processes or cores()) if cluster is None else RemoteCellWorkers(cluster)
        )
        # each is in its folder when whole
        outcomes = list(
            reproduce(
                folders,
                size,
                stack.enter_context(cell_workers),
                rows=rows,
                budget=budget,
                refresh=refresh,
                progress=True,
            )
        )
    _print_outcomes(outcomes, folders, runs, as_json=shape == "json")
    failed = any(outcome.empty and outcome.unmeasured for outcome in outcomes)
    leave(NOTHING_MEASURED if failed or names != wanted else 0)


def _find_cluster(workers: str, processes: int | None) -> RayCluster | None:
    """The cluster that measures; None for this machine.

    Raises:
        SpecError: there is no such cluster, or it has no use for a number of processes.
    """
    from divulge.training.cluster import cluster_by_name

    if workers != "local" and processes is not None:
        raise SpecError(
            f"expected no --processes beside --workers {workers}, got {processes}: the cluster has "
            "as many as it has processors"
        )
    return cluster_by_name(workers)


def _run_folders(
    names: Sequence[str], size: str, run: Path | None, *, single: bool, resume: bool
) -> dict[str, Path]:
    """The folder of each table: as named, or in the named folder of all, or a numbered one."""
    from divulge._util.folders import numbered_folder

    return {
        name: (run if single else run / name)
        if run
        else numbered_folder(Path("runs") / f"{name}-{size}", latest=resume)
        for name in names
    }


def _create_folders(folders: Iterable[Path], *, resume: bool) -> None:
    """Create each folder that does not hold pieces to continue from."""
    from divulge._util.folders import create_folder
    from divulge_papers.cells import PIECES_FILE

    for folder in folders:
        if not (resume and (folder / PIECES_FILE).is_file()):
            create_folder(folder, resumes=True)


def _print_outcomes(
    outcomes: Sequence[Outcome], folders: Mapping[str, Path], runs: Path, *, as_json: bool
) -> None:
    """Write the page of all tables, and print each outcome: not before the progress bar is gone."""
    from divulge_papers import page
    from divulge_papers.cli import tables

    written = page.write_page(runs)
    for outcome in outcomes:
        echo(f"Table: {folders[outcome.table] / 'table.md'}", err=True)
        if as_json:
            echo(outcome.as_json())
        elif outcome.unmeasured and outcome.empty:
            echo(f"{outcome.table}: nothing was measured: {'; '.join(outcome.unmeasured)}")
        elif outcome.empty:
            echo(tables.describe_state(outcome))
        else:
            tables.show(outcome)
    if len(outcomes) > 1 and not all(outcome.complete for outcome in outcomes):
        echo(tables.describe_all(outcomes), err=True)
    echo(f"Page of all tables: {written}", err=True)


def _with_data(reads: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Say which data sets are missing, and return the tables that can be measured.

    Args:
        reads: data sets that each table reads.

    Raises:
        DataError: no table can be measured.
    """
    from divulge_papers import datasets

    names = [name for name, data in reads.items() if datasets.can_measure(data)]
    every = dict.fromkeys(name for data in reads.values() for name in data)
    missing = [name for name in every if not datasets.is_there(name)]
    if not names:
        datasets.check_any_there(missing)
    for name in missing:
        echo(f"Missing data: {datasets.how_to_get(name)}", err=True)
    if left_out := [name for name in reads if name not in names]:
        echo(f"Left out for want of data: {', '.join(left_out)}", err=True)
    return names
