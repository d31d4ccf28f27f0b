"""Write the figures of a table as CSV, and read them back.

A line holds a row at one size, or the difference of two rows that were measured on the same units.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from divulge.core import Estimate
from divulge_papers.controls import RowControls
from divulge_papers.figure import NOT_YET, Cell
from divulge_papers.provenance import Provenance
from divulge_papers.result import Completeness, Outcome
from divulge_papers.table import Size, Table, find_table

_PARTS = ("", " low", " high", " deviation", " paper")
"""Ends of the names of a column's columns: our figure, the ends of its interval, the standard
deviation where the table shows it, and the published figure where there is one."""
_COUNTS = ("attacks", "failed", "untested")
"""Columns with numbers of attacks, by how they did on their controls."""
_ABOUT = ("units", "seeds", *_COUNTS, "note", "CPU seconds", "date", "commit")
"""Columns about a row, with the numbers of units and of measured seeds, and its provenance."""
_Line = Mapping[str, str]


def to_csv(outcomes: Sequence[Outcome]) -> str:
    """Write one table at one size or at several; figures have six significant digits."""
    table = find_table(outcomes[0].table)
    lines = [line for outcome in outcomes for line in _lines(outcome, table)]
    columns = [f"{column}{part}" for column in table.columns for part in _PARTS]
    used = {key for line in lines for key, text in line.items() if text}
    text = io.StringIO()
    header = ["size", "row", "less", *(name for name in columns if name in used), *_ABOUT]
    writer = csv.DictWriter(text, header, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def from_csv(name: str, text: str) -> dict[Size, Outcome]:
    """Read back a table by size; sentences on intervals and controls, and pieces, are left out."""
    table, lines = find_table(name), list(csv.DictReader(io.StringIO(text)))
    sizes: tuple[Size, ...] = ("small", "paper")
    by_size = {size: [line for line in lines if line["size"] == size] for size in sizes}
    return {size: _outcome(name, table, size, own) for size, own in by_size.items() if own}


def _lines(outcome: Outcome, table: Table) -> Iterator[dict[str, str]]:
    for row in outcome.rows:
        figures = _figures(outcome.of_row(row))
        yield {"size": outcome.size, "row": row} | figures | _about(outcome, row, table)
    for (row, less), cells in zip(table.pairs, outcome.pairs.values(), strict=True):
        yield {"size": outcome.size, "row": row, "less": less} | _figures(cells)


def _figures(cells: Sequence[Cell]) -> dict[str, str]:
    line: dict[str, str] = {}
    for cell in cells:
        ours, ranged = cell.ours, cell.ours if cell.kind != "p-value" else None
        values = (
            ours.value if ours else cell.single,
            ranged.low if ranged else None,
            ranged.high if ranged else None,
            cell.deviation,
            cell.paper,
        )
        named = zip(_PARTS, values, strict=True)
        line |= {f"{cell.column}{part}": f"{v:.6g}" for part, v in named if v is not None}
    counts = sorted(cell.units for cell in cells if cell.units and cell.kind != "by definition")
    return line | {"units": _range(counts)}


def _about(outcome: Outcome, row: str, table: Table) -> dict[str, str]:
    made = [piece.made for piece in outcome.pieces if piece.row == row]
    seconds = f"{sum(measurement.cpu_seconds for measurement in made):.6g}" if made else ""
    line = {"seeds": f"{len(made)}", "CPU seconds": seconds}
    commits = [measurement.commit for measurement in made]
    dates = sorted(measurement.date[:10] for measurement in made)
    if outcome.state is None:  # from before tables knew of their pieces
        line["seeds"] = f"{table.seeds[outcome.size]}"
        commits, dates = [outcome.made.commit], [outcome.made.date[:10]]
    cells = outcome.of_row(row)
    lacks = all(cell.ours is None and cell.single is None for cell in cells)
    notes = [cell.reason for cell in cells if lacks]
    for control in outcome.controls or ():
        if control.row == row and not control.stopped:
            counts = (control.attacks, control.failed, control.untested)
            line |= dict(zip(_COUNTS, map(str, counts), strict=True))
            notes += control.reasons
    known = dict.fromkeys(note for note in notes if note not in ("", NOT_YET))
    return line | {
        "note": "; ".join(known),
        "date": _range(dates),
        "commit": " ".join(dict.fromkeys(commits)),
    }


def _range(values: Sequence[object]) -> str:
    """First and last of sorted values, or the one that all are."""
    return " to ".join(dict.fromkeys(map(str, (*values[:1], *values[-1:]))))


def _outcome(name: str, table: Table, size: Size, lines: Sequence[_Line]) -> Outcome:
    rows = [line for line in lines if not line["less"]]
    last = max(rows, key=lambda line: line["date"].split()[-1:])
    made = Provenance(
        command=f"divulge reproduce {name} --size {size}",
        commit=last["commit"].split()[-1],
        cores=0,
        processes=0,
        date=last["date"].split()[-1],
        cpu_seconds=sum(float(line["CPU seconds"] or 0) for line in rows),
    )
    pieces = sum(int(line["seeds"]) for line in rows)
    return Outcome(
        table=name,
        size=size,
        title=table.title,
        source=table.source,
        rows=tuple(line["row"] for line in rows),
        columns=table.columns,
        differs=table.differs[size],
        cells=tuple(_cells(table, rows)),
        made=made,
        drawn=table.drawn,
        measures=table.measures,
        differences=tuple(_cells(table, [line for line in lines if line["less"]])),
        controls=tuple(_controls(line) for line in rows if line["attacks"] or line["note"]) or None,
        state=Completeness(pieces, len(rows) * table.seeds[size], 0.0),
    )


def _controls(line: _Line) -> RowControls:
    attacks, failed, untested = (int(line[name] or 0) for name in _COUNTS)
    stopped = "" if line["attacks"] else line["note"]
    return RowControls(line["row"], attacks, failed, untested, stopped=stopped)


def _cells(table: Table, lines: Sequence[_Line]) -> Iterator[Cell]:
    for line in lines:
        name = f"{line['row']}, less {line['less']}" if line["less"] else line["row"]
        for column in table.columns:
            texts = (line.get(f"{column}{part}") for part in _PARTS)
            value, low, high, deviation, paper = (float(text) if text else None for text in texts)
            reason = NOT_YET if line["seeds"] == "0" else line["note"]
            cell = Cell(name, column, None, paper, reason, deviation)
            if value is None:
                yield cell
            elif low is not None and high is not None:
                kind: Literal["mean", "by definition"] = "by definition" if low == high else "mean"
                yield replace(cell, ours=Estimate(value, low, high), reason="", kind=kind)
            elif table.kinds.get(column) == "p-value":
                yield replace(cell, ours=Estimate(value, value, value), reason="", kind="p-value")
            else:
                yield replace(cell, single=value)
