"""Tables as a terminal shows them: which there are, and how one came out."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from divulge.reproduce.result import Cell, Outcome, figure
from divulge.reproduce.table import TABLES, find_table


def show_all() -> None:
    """Print every table with its source and what each size costs."""
    grid = _grid("Published tables that can be measured again; minutes of one core, by size")
    grid.add_column("table", no_wrap=True)
    grid.add_column("what and where from")
    for size in ("small", "medium", "full"):
        grid.add_column(size, justify="right", no_wrap=True)
    total = [0, 0, 0]
    for name in TABLES:
        table = find_table(name)
        total = [so_far + more for so_far, more in zip(total, table.minutes.values(), strict=True)]
        about = f"{escape(table.title)}\n[dim]{escape(table.source)}[/dim]"
        grid.add_row(name, about, *map(str, table.minutes.values()))
    grid.add_section()
    grid.add_row("all, at most", "", *map(str, total))
    console = Console()
    console.print(grid)
    console.print(
        "Several cores share the work, and so do tables that need the same. To measure one: "
        "divulge reproduce TABLE. To measure all: divulge reproduce --size small.",
        highlight=False,
    )


def show(outcome: Outcome) -> None:
    """Print a line for each figure: ours, its interval, the paper's, the difference."""
    grid = _grid(f"{escape(outcome.title)} ({outcome.size})")
    grid.add_column("row")
    grid.add_column("column")
    for name in ("ours", "95 % interval", "paper", "difference"):
        grid.add_column(name, justify="right", no_wrap=True)
    for row in outcome.rows:
        _add(grid, row, outcome.of_row(row))
        grid.add_row("", "controls", outcome.control(row))
    for name, cells in outcome.pairs.items():
        _add(grid, name, cells)
    console = Console()
    console.print(grid)
    console.print(outcome.intervals, markup=False, highlight=False)
    for sentence in outcome.control_sentences:
        console.print(sentence, markup=False, highlight=False)
    for reason, rows in outcome.unmeasured.items():
        console.print(f"Not measured ({reason}): {rows}", markup=False, highlight=False)
    console.print(f"Paper: {outcome.source}", markup=False, highlight=False)
    console.print(f"What differs: {outcome.differs}", markup=False, highlight=False)


def _add(grid: Grid, row: str, cells: tuple[Cell, ...]) -> None:
    for k, cell in enumerate(cells):
        grid.add_row(escape(row) if k == 0 else "", escape(cell.column), *_figures(cell))


def _grid(title: str) -> Grid:
    return Grid(title=title, title_justify="left", box=box.SIMPLE_HEAD)


def _figures(cell: Cell) -> list[str]:
    published = "" if cell.paper is None else f"{cell.paper:.3f}"
    if cell.ours is None:
        return ["not measured", "", published, ""]
    value, _, limits = figure(cell).partition(" ")
    less = "" if cell.difference is None else f"{cell.difference:+.3f}"
    return [value, limits.strip("()"), published, less]
