"""The command that tests whether an attack does what every attack must do."""

from __future__ import annotations

import click

from divulge.cli.options import Command, SecretChoice
from divulge.cli.terminal import echo

_CODES = {"passed": 0, "failed": 3, "undecided": 4}


@click.command(cls=Command)
@click.argument("attack")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--about",
    type=SecretChoice(),
    help="The secret that the attack infers, if its code does not say what it returns.",
)
def check(attack: str, settings: tuple[str, ...], about: str | None) -> None:
    """Test an attack of your own, ATTACK (file.py:Class), on small games with a known truth.

    Membership attacks are also tried in small audits: the same information in another form, such
    as another order of the classes, may change no figure.

    KEY=VALUE sets a setting of the attack, as in audit.toml. The exit code is 3 if the attack lacks
    a property, and 4 if it can play none of the games.

    Example: divulge check mine.py:Surest power=2.0
    """
    from divulge._util.toml import read_pairs
    from divulge.testing.check import check_attack

    result = check_attack(attack, settings=read_pairs(settings), about=about)
    code = _CODES[result.outcome]
    echo(result)
    click.get_current_context().exit(code)
