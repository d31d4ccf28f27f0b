"""The one way in which commands print: nothing in a text is obeyed by the terminal, or by Rich.

Names of clients, metrics, columns, attacks and files come from files of others. Control characters
become a replacement sign, and neither markup nor emoji is looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table
    from rich.text import Text

Part = str | tuple[str, str]
"""A text, or a text and its style."""


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


def show_table(table: Table) -> None:
    """Print a table that `grid` made."""
    from rich.console import Console

    Console().print(table)


def grid(title: str = "") -> Table:
    """An empty table."""
    from rich import box
    from rich.table import Table

    heading = styled(title) if title else None
    return Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD)


def add_columns(table: Table, names: Iterable[str], *, right: bool = False) -> None:
    """Add a column for each name; on the right, they are never broken."""
    for name in names:
        if right:
            table.add_column(styled(name), justify="right", no_wrap=True)
        else:
            table.add_column(styled(name), overflow="fold")


def add_row(table: Table, cells: Sequence[Part | list[Part]]) -> None:
    """Add a row; a cell is a text, with or without a style, or several of them."""
    table.add_row(*(styled(*cell) if isinstance(cell, list) else styled(cell) for cell in cells))
