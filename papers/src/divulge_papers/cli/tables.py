"""Tables as a terminal shows them: which there are, and how one came out."""

import math
from collections.abc import Sequence
from importlib.util import find_spec

from divulge.cli.terminal import Grid, Part, show_table
from divulge.cli.terminal import show as show_text
from divulge_papers.datasets import is_there
from divulge_papers.figure import Cell, figure
from divulge_papers.result import Outcome, format_hours
from divulge_papers.table import TABLES, find_table

WITHOUT_NATIVE = (
    "These minutes are with native code (divulge-fast and Numba), which is not installed here. "
    "Without it, tables of federations (decaf) take about 20 times as long: decaf-table3 at size "
    "small took 54 s of a core for one of 22 pieces. Once a piece is measured, estimates follow it."
)


def show_all() -> None:
    """Print every table with its source and what each size costs."""
    listed = Grid("Published tables that can be measured again; minutes of one core, by size")
    listed.add_columns(["table", "what and where from"])
    listed.add_columns(["small", "paper"], right=True)
    total = [0, 0]
    for name in TABLES:
        table = find_table(name)
        total = [so_far + more for so_far, more in zip(total, table.minutes.values(), strict=True)]
        reads = ", ".join(
            f"{data_set}{'' if is_there(data_set) else ' (missing)'}" for data_set in table.data
        )
        about: list[Part] = [f"{table.title}\n", (f"{table.source}\nreads {reads}", "dim")]
        listed.add_row([name, about, *map(str, table.minutes.values())])
    listed.add_section()
    listed.add_row(["all, at most", "", *map(str, total)])
    show_table(listed)
    if not _has_native_code():
        show_text(WITHOUT_NATIVE)
    show_text(
        "Several cores share the work, and so do tables that need the same. To measure one: "
        "divulge reproduce TABLE. To measure all: divulge reproduce --size small. Where to get "
        "data that is missing: divulge data."
    )


def _has_native_code() -> bool:
    """Whether divulge-fast and its compiler are installed; neither is loaded."""
    return all(find_spec(name) is not None for name in ("divulge_fast", "numba"))


def show(outcome: Outcome) -> None:
    """Print a line for each figure: ours, its interval, the paper's, the difference."""
    measured = Grid(f"{outcome.title} ({outcome.size})")
    measured.add_columns(["row", "column"])
    measured.add_columns(["ours", "95 % interval", "paper", "difference"], right=True)
    for row in outcome.rows:
        _add(measured, row, outcome.of_row(row))
        if not outcome.complete:
            measured.add_row(["", "seeds", outcome.seeds(row)])
        measured.add_row(["", "controls", outcome.control(row)])
    for name, cells in outcome.pairs.items():
        _add(measured, name, cells)
    show_table(measured)
    if outcome.state:
        show_text(describe_state(outcome))
    show_text(outcome.intervals)
    for sentence in outcome.control_sentences:
        show_text(sentence)
    for reason, rows in outcome.unmeasured.items():
        show_text(f"Not measured ({reason}): {rows}")
    show_text(f"Paper: {outcome.source}")
    show_text(f"What differs: {outcome.differs}")


def describe_state(outcome: Outcome) -> str:
    """Say how much of a table is measured, and what to do about the rest."""
    text = f"{outcome.table}, size {outcome.size}: {outcome.state}"
    if not outcome.complete:
        text += " To go on: the same command with --resume, and --budget if you like."
    if outcome.state and outcome.state.older:
        text += " To measure those again: --resume --refresh."
    return text


def describe_all(outcomes: Sequence[Outcome]) -> str:
    """Say how many of several tables are complete, and what the others lack."""
    states = [outcome.state for outcome in outcomes if outcome.state]
    hours = format_hours(math.fsum(state.core_hours_missing for state in states))
    whole = sum(outcome.complete for outcome in outcomes)
    return (
        f"{whole} of {len(outcomes)} tables are complete. About {hours} core-hours are missing, "
        "with what tables share counted in each."
    )


def _add(table: Grid, row: str, cells: tuple[Cell, ...]) -> None:
    for k, cell in enumerate(cells):
        table.add_row([row if k == 0 else "", cell.column, *_figures(cell)])


def _figures(cell: Cell) -> list[str]:
    published = "" if cell.paper is None else f"{cell.paper:.3f}"
    if cell.ours is None:
        return [figure(cell), "", published, ""]
    value, _, limits = figure(cell).partition(" ")
    less = "" if cell.difference is None else f"{cell.difference:+.3f}"
    return [value, limits.strip("()"), published, less]
