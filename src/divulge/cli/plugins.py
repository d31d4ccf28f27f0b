"""Commands that other distributions bring, found by their entry points."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import click

from divulge._util.extras import import_optional, name_missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "divulge.commands"
"""The group of entry points: a command's name, and ``module:object``."""

OF_PAPERS = ("data", "reproduce")
"""Commands of divulge-papers, which say how to get it where it is not installed."""


def find_commands() -> Iterator[tuple[str, click.Command]]:
    """Name and command of each that is installed, and of those of divulge-papers in any case."""
    commands = {}
    for point in entry_points(group=GROUP):
        if module := import_optional(point.module):
            commands[point.name] = getattr(module, point.attr)
    yield from commands.items()
    yield from ((name, _absent(name)) for name in OF_PAPERS if name not in commands)


def _absent(name: str) -> click.Command:
    """A command that takes any words, and says what it needs."""

    def refuse(words: tuple[str, ...]) -> None:
        del words
        with name_missing_extra():
            importlib.import_module(f"divulge_papers.cli.{name}")

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        help="Needs divulge-papers: run `pip install . ./papers` in a checkout of divulge.",
        add_help_option=False,
    )
