"""Commands whose options hold: none that takes one value is given twice, the last in silence."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from divulge.errors import SpecError


class Command(click.Command):
    """A command that refuses a repeated option, of which click itself would keep the last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line.

        Raises:
            SpecError: an option that takes one value was given more often; names it.
        """
        words = list(args)  # which the parser takes apart
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(words)
            _refuse_repeated(order)
        return rest


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


class SecretChoice(click.Choice):  # type: ignore[type-arg]
    """The name of a secret; they are looked up where one is read, as that loads NumPy."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of all secrets."""
        from divulge.secrets.registry import SECRETS

        return tuple(SECRETS)


def _refuse_repeated(order: list[Any]) -> None:
    """Refuse an option with one value that was given more often, also where the values agree."""
    for option, times in Counter(
        parameter for parameter in order if isinstance(parameter, click.Option)
    ).items():
        single = not (option.multiple or option.is_flag or option.count)
        if single and times > 1:
            raise SpecError(
                f"expected {option.opts[-1]} once, got it {times} times: keep the one that is meant"
            )
