"""An inspected transcript as a terminal shows it, and as one JSON object for programs."""

from collections.abc import Iterable, Sequence

import pydantic
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from divulge.federation.transcript.inspect import ClientLine, Flag, Inspection, RoundLine

SHOWN = 20
"""Rows of a table before it is cut: the first and the last ones are told."""


def as_json(found: Inspection) -> str:
    """All of it; what is not a finite number is null."""
    return pydantic.TypeAdapter(Inspection).dump_json(found).decode()


def show(found: Inspection) -> None:
    """Print a summary, a row a round, a row a client, and the flags."""
    console = Console()
    rule = f", {found.rule}" if found.rule else ""
    console.print(
        f"\n[bold]{escape(found.name)}[/bold]: {len(found.rounds)} rounds, "
        f"{len(found.clients)} clients, {found.tensors} tensors of {found.parameters} numbers; "
        f"clients send their {found.kind}{escape(rule)}; written by {escape(found.writer)}",
        highlight=False,
    )
    metrics = sorted({name for line in found.rounds for name in line.metrics})
    names = ["round", "clients", "records", "global step", *metrics]
    _print(console, names, [_round(line, metrics) for line in found.rounds])
    names = ["client", "rounds", "records", "mean change", "claimed guarantee"]
    _print(console, names, [_client(line) for line in found.clients])
    for flag in found.flags:
        console.print(
            f"[yellow]{escape(_where(flag))}[/yellow] {escape(flag.text)}", highlight=False
        )
    if not found.flags:
        console.print("Nothing looks odd.")


def _print(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for name in names:
        table.add_column(escape(name), justify="right")
    half = SHOWN // 2
    for row in rows if len(rows) <= SHOWN else rows[:half]:
        table.add_row(*map(escape, row))
    if len(rows) > SHOWN:
        table.add_row("...")
        for row in rows[-half:]:
            table.add_row(*map(escape, row))
    console.print(table)


def _round(line: RoundLine, metrics: Iterable[str]) -> list[str]:
    clients = f"{line.clients}, summed" if line.hidden else str(line.clients)
    measured = [_number(line.metrics.get(name)) for name in metrics]
    return [str(line.number), clients, _whole(line.records), _number(line.step), *measured]


def _client(line: ClientLine) -> list[str]:
    claim = line.guarantee
    promised = f"({claim.epsilon:.4g}, {claim.delta:.2g})" if claim else "none"
    return [line.client, str(line.rounds), _whole(line.records), _number(line.norm), promised]


def _where(flag: Flag) -> str:
    return f"round {flag.round}" + (f", client {flag.client}" if flag.client else "") + ":"


def _whole(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _number(value: float | None) -> str:
    return "hidden" if value is None else f"{value:.4g}"
