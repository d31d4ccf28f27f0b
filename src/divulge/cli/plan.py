"""The command that plans an audit."""

from __future__ import annotations

from pathlib import Path

import click

from divulge.cli.options import Command
from divulge.cli.terminal import echo
from divulge.errors import SpecError


@click.command(cls=Command)
@click.argument("audit", type=click.Path(path_type=Path), required=False)
@click.option("--members", type=int, help="Number of members.")
@click.option("--nonmembers", type=int, help="Number of non-members.")
@click.option("--auc", type=float, help="AUC of the leak to detect, such as 0.6.")
@click.option("--exposed", type=float, help="Share of members that the leak exposes, such as 0.05.")
@click.option(
    "--people", type=int, help="Number of people with several records, half of them members."
)
@click.option("--records-each", type=int, help="With --people: number of records of each.")
@click.option(
    "--alike",
    type=float,
    help="With --people: correlation of the scores of two records of one person, 0 to 1.",
)
@click.option(
    "--power", type=float, default=0.8, show_default=True, help="Probability of detecting the leak."
)
@click.option(
    "--attacks", type=int, default=12, show_default=True, help="Number of attacks tested together."
)
def plan(
    audit: Path | None,
    members: int | None,
    nonmembers: int | None,
    auc: float | None,
    exposed: float | None,
    people: int | None,
    records_each: int | None,
    alike: float | None,
    power: float,
    attacks: int,
) -> None:
    """Show how large a leak an audit can detect, or how many records it needs.

    AUDIT is an audit.toml, or a run folder, of which it gives the figure of the report. Without it,
    give two sizes, one leak, or people.

    Example: divulge plan --exposed 0.05
    """
    from divulge.studies import planning

    if audit is not None:
        _refuse_sizes()
        echo(planning.plan_file(audit, power=power))
        return
    echo(
        planning.plan(
            members=members,
            nonmembers=nonmembers,
            auc=auc,
            exposed=exposed,
            people=people,
            records_each=records_each,
            alike=alike,
            power=power,
            attacks=attacks,
        )
    )


def _refuse_sizes() -> None:
    """Refuse sizes and leaks beside an audit, which has its own.

    Raises:
        SpecError: names the option.
    """
    source = click.get_current_context().get_parameter_source
    sizes = ("members", "nonmembers", "auc", "exposed", "people", "records_each", "alike")
    for name in (*sizes, "attacks"):
        if source(name) is click.core.ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise SpecError(
                f"expected AUDIT or --{option}, got both: an audit has its own records and attacks"
            )
