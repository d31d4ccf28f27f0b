"""An inspected transcript as a terminal shows it, and as one JSON object for programs."""

import json
import re
from collections.abc import Iterable, Sequence

import pydantic

from divulge.cli import terminal
from divulge.federation.transcript.inspect import ClientLine, Flag, Inspection, RoundLine
from divulge.report import words

SHOWN = 20
"""Rows of a table before it is cut: the first and the last ones are told."""


def as_json(inspection: Inspection) -> str:
    """All of it, in ASCII for any stream; what is not a finite number is null."""
    return json.dumps(json.loads(pydantic.TypeAdapter(Inspection).dump_json(inspection)))


def show(facts: Inspection) -> None:
    """Print a summary, a row a round, a row a client, and the flags."""
    rule = f", {facts.rule}" if facts.rule else ""
    terminal.show(
        "\n",
        (facts.name, "bold"),
        f": {len(facts.rounds)} rounds, "
        f"{len(facts.clients)} clients, {facts.tensors} tensors of {facts.parameters} "
        f"numbers; clients send their {facts.kind}{rule}; written by {facts.writer}",
    )
    metrics = sorted({name for line in facts.rounds for name in line.metrics})
    names = ["round", "clients", "records", "global step", *metrics]
    _print(names, [_round(line, metrics) for line in facts.rounds])
    names = ["client", "rounds", "records", "mean change", "claimed guarantee"]
    _print(names, [_client(line) for line in sorted(facts.clients, key=_by_name)])
    if facts.clients:
        terminal.show(
            "Clients have the names that the run gave them: with Flower the ids of its nodes, not "
            "the numbers of their data. A mean change is the L2 norm of an update."
        )
    if not facts.clients:
        terminal.show((_describe_empty(facts), "yellow"))
    for flag in facts.flags:
        terminal.show((_where(flag), "yellow"), f" {flag.text}")
    if facts.clients and not facts.flags:
        terminal.show("Nothing looks odd.")


def _by_name(line: ClientLine) -> list[tuple[int, str]]:
    """Names in order, numbers within them by their value."""
    parts = re.findall(r"\d+|\D+", line.client)
    return [(int(part) if part.isdecimal() and len(part) < 100 else 0, part) for part in parts]


def _describe_empty(inspection: Inspection) -> str:
    rounds = words.format_count(len(inspection.rounds), "round")
    return (
        f"This transcript holds nothing to audit: {rounds}, and no update of any client. If "
        "clients ended with an error, mend it, and record the run into a new folder."
    )


def _print(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = terminal.Grid()
    table.add_columns(names, right=True)
    half = SHOWN // 2
    for row in rows if len(rows) <= SHOWN else rows[:half]:
        table.add_row(row)
    if len(rows) > SHOWN:
        table.add_row(["..."])
        for row in rows[-half:]:
            table.add_row(row)
    terminal.show_table(table)


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
