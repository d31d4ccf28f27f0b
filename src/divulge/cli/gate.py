"""The options that ask for a gate, shared by the commands that hold a run against one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_WORDS = (
    "leak",
    "leak-or-shift",
    "confounded",
    "control-failed",
    "control-untested",
    "undecided",
)
_OF_CANARIES = ("contradicted", "undecidable")
_OPTIONS = (
    click.option(
        "--ceiling",
        "agreed",
        multiple=True,
        metavar="METRIC=CEILING",
        help="Agreed ceiling: exit with 0 only when every attack is shown to be at or below it "
        "(upper limit), with 3 when one is shown to be above (lower limit), else with 4: "
        "auc=0.6. Repeatable.",
    ),
    click.option(
        "--fail-above",
        "ceilings",
        multiple=True,
        metavar="METRIC=VALUE",
        help="Exit with 3 when a metric of any attack is proven to exceed this (lower limit): "
        "auc=0.6. With few records little is proven; --ceiling asks for the opposite. Repeatable.",
    ),
    click.option(
        "--judge",
        type=click.Choice(["low", "value"]),
        default=None,
        help="What --fail-above compares: the lower limit (default), or the value.",
    ),
    click.option(
        "--not-worse-than",
        type=click.Path(path_type=Path),
        metavar="RUN",
        help="Exit with 3 when an attack finds more than in this earlier run, and with 4 when that "
        "cannot be decided.",
    ),
)


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a gate on audits."""
    return _add_options(
        command,
        _WORDS,
        "Exit with 3 when this is the verdict (control-untested: when a control could not be "
        "run), and with 4 when it cannot be decided whether there is a leak. Repeatable.",
    )


def run_gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a gate on runs of any kind."""
    return _add_options(
        command,
        (*_WORDS, *_OF_CANARIES),
        "Exit with 3 when this is the verdict (control-untested: when a control could not be "
        "run; contradicted and undecidable: of an audit by canaries), and with 4 when it cannot "
        "be decided whether there is a leak. Repeatable.",
    )


def _add_options(
    command: Callable[..., Any], words: tuple[str, ...], about: str
) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return click.option(
        "--fail-on", "fail_on", multiple=True, type=click.Choice(words), help=about
    )(command)
