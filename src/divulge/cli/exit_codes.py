"""How commands that audit end: the exit code is decided, then what was found is printed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from divulge.cli.terminal import echo

if TYPE_CHECKING:
    from divulge.finished_runs.finished_run import FinishedRun
    from divulge.finished_runs.judged import Ruling

FAILED, TRIPPED, UNDECIDED = 1, 3, 4
"""Exit codes: an attack failed; the gate failed; the gate could not be decided."""


def finish(
    result: FinishedRun,
    shape: str,
    code: int = 0,
    *,
    ruling: Ruling | None = None,
) -> NoReturn:
    """Print what was found, and exit.

    Args:
        result: by an audit, a comparison or a search, with a run folder.
        shape: ``text``, or ``json`` for one object as the last line.
        code: the exit code; where it is 0, an attack that failed makes it 1.
        ruling: what the gate says, if there is one; then the code is its own.
    """
    from divulge.cli import render

    failed = any(finding.status == "failed" for finding in result.findings)
    code = (ruling_code(ruling) if ruling else code) or (FAILED if failed else 0)
    if ruling is not None:
        show_ruling(ruling)
    if shape == "text":
        render.show_result(result)
    answer = render.result_as_json(result)
    echo(f"Report: {answer['report']}", err=shape == "json")
    if shape == "json":
        echo(json.dumps(answer))
    leave(code)


def leave(code: int) -> NoReturn:
    """End the command; ``sys.exit`` is left to code of the user's, which the program refuses."""
    raise click.exceptions.Exit(code)


def print_estimates(settings: Path, shape: str, workers: str = "local") -> None:
    """Print about what the work that settings ask for will cost, after a short trial.

    Args:
        settings: the file, of any kind.
        shape: ``text``, or ``json`` for one object by what is done.
        workers: who trains models.
    """
    from divulge.studies.cost import estimate_file

    costs = estimate_file(settings, workers)
    if shape == "json":
        echo(json.dumps({name: asdict(cost) for name, cost in costs.items()}))
        return
    for name, cost in costs.items():
        echo(cost if len(costs) == 1 else f"{name}\n{cost}")


def show_ruling(ruling: Ruling) -> None:
    """Print what the gate says: a line for each thing that was asked, on standard error."""
    for what, sentences in asdict(ruling).items():
        for sentence in sentences:
            echo(f"Gate {what}: {sentence}", err=True)


def ruling_code(ruling: Ruling) -> int:
    """The exit code that a gate gives."""
    if ruling.failed:
        return TRIPPED
    return UNDECIDED if ruling.undecided else 0
