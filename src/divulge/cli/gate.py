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
        "--fail-above",
        "ceilings",
        multiple=True,
        metavar="METRIC=CEILING",
        help="Exit with 3 when a metric of any attack exceeds this: auc=0.6. Repeatable.",
    ),
    click.option(
        "--judge",
        type=click.Choice(["low", "value"]),
        default=None,
        help="What is compared with the ceiling: the lower limit (default), or the value.",
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
