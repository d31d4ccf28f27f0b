"""The one way in which commands print: nothing in a text is obeyed by the terminal, or by Rich.

Names of clients, metrics, columns, attacks and files come from files of others. Control characters
become a replacement sign, and neither markup nor emoji is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table
    from rich.text import Text

Part = str | tuple[str, str]
"""A text, or a text and its style."""
_LONGEST_WORD = 20
"""Characters after which a column of names breaks a word."""


def echo(text: object, *, err: bool = False) -> None:
    """Print a text and a line end.

    Args:
        text: any text, or what has one.
        err: whether it goes to the standard error instead of the output.
    """
    from divulge._util.showable import make_showable

    click.echo(make_showable(str(text)), err=err)


def styled(*parts: Part) -> Text:
    """Texts with their styles, as Rich prints them without looking into them."""
    from rich.text import Text

    from divulge._util.showable import make_showable

    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((make_showable(text), style) for text, style in pairs))


def show(*parts: Part, wrap: bool = True) -> None:
    """Print texts with their styles and a line end.

    Args:
        parts: the texts.
        wrap: whether Rich breaks lines between words; else the terminal does, anywhere.
    """
    from rich.console import Console

    Console().print(styled(*parts), soft_wrap=not wrap)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table for the terminal: its headings and rows, before anybody knows how wide it may be."""

    title: str = ""
    names: list[str] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    """Of each column, whether it holds figures: they are broken before a bracket or not at all."""
    rows: list[list[list[Part]]] = field(default_factory=list)
    sections: set[int] = field(default_factory=set)
    """Rows before which a line is drawn."""

    def add_columns(self, names: Iterable[str], *, right: bool = False) -> None:
        """Add a column for each name; figures stand on the right."""
        for name in names:
            self.names.append(name)
            self.right.append(right)

    def add_row(self, cells: Sequence[Part | list[Part]]) -> None:
        """Add a row; a cell is a text, with or without a style, or several of them."""
        row = [list(cell) if isinstance(cell, list) else [cell] for cell in cells]
        self.rows.append(row + [[""]] * (len(self.names) - len(row)))

    def add_section(self) -> None:
        """Draw a line before the next row."""
        self.sections.add(len(self.rows))


def show_table(grid: Grid) -> None:
    """Print a table that fits the terminal.

    Where it is too wide, intervals go below their values. Where that does not fit either, each row
    becomes a list.
    """
    from rich.console import Console

    console = Console()
    for broken in (False, True):
        widths = [_width(grid, place, broken=broken) for place in range(len(grid.names))]
        between = 2 * (len(widths) - 1) if broken else 3 * len(widths) + 1
        if sum(widths) + between <= console.width:
            table = _draw(grid, widths, broken=broken)
            console.print(*(["", table, ""] if broken else [table]), sep="\n")
            return
    if grid.title:
        show("\n", (grid.title, "italic"))
    for row in grid.rows:
        first, *others = row
        show("\n", *first)
        for name, cell in zip(grid.names[1:], others, strict=True):
            if any(_plain(part) for part in cell):
                show(f"  {name}: ", *cell)


def _width(grid: Grid, place: int, *, broken: bool) -> int:
    """The fewest characters that a column needs: of figures all, of names the longest word."""
    texts = ["".join(map(_plain, row[place])) for row in grid.rows]
    if not grid.right[place]:
        words = [word for text in (*texts, grid.names[place]) for word in text.split()]
        return min(max(map(len, words), default=0), _LONGEST_WORD)
    lines = [line for text in texts for line in (_break(text) if broken else text).split("\n")]
    heading = grid.names[place].split() if broken else [grid.names[place]]
    return max(map(len, (*lines, *heading)), default=0)


def _draw(grid: Grid, widths: Sequence[int], *, broken: bool) -> Table:
    from rich import box
    from rich.table import Table

    heading = styled(grid.title) if grid.title else None
    table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD)
    if broken:
        table.show_edge, table.pad_edge, table.padding, table.leading = (
            False,
            False,
            (0, 1, 0, 0),
            1,
        )
    for name, right, width in zip(grid.names, grid.right, widths, strict=True):
        if right:
            table.add_column(styled(name), justify="right", width=width, overflow="fold")
        else:
            table.add_column(styled(name), min_width=width, overflow="fold")
    for number, row in enumerate(grid.rows):
        if number in grid.sections:
            table.add_section()
        table.add_row(
            *(
                styled(*(_break_part(part) for part in cell) if broken and right else cell)
                for cell, right in zip(row, grid.right, strict=True)
            )
        )
    return table


def _break(figure: str) -> str:
    """Put an interval below its value, without brackets."""
    value, opened, limits = figure.partition(" (")
    return f"{value}\n{limits.removesuffix(')')}" if opened else figure


def _break_part(part: Part) -> Part:
    return _break(part) if isinstance(part, str) else (_break(part[0]), part[1])


def _plain(part: Part) -> str:
    return part if isinstance(part, str) else part[0]
