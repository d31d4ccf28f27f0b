"""Read and write the predictions of a federation's local models as CSV files, one a client.

A row is a record: the model's prediction, the true class, and whether the record is one of the
client's ``relevant`` records, one of its ``external`` ones, or, where both are 0, a candidate.
All files have the same candidates in the same order. The colluding client's file has a column
``member`` too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from divulge._util import atomic
from divulge.core import NOBODY, Assignment, Collusion, FederationView, Need, Records
from divulge.data import lines, tables
from divulge.errors import DataError, SpecError, did_you_mean
from divulge.targets import label_columns
from divulge.targets.column_names import ColumnNames
from divulge.targets.outputs import Output, to_logits, to_probabilities
from divulge.targets.recorded import TableTarget

RELEVANT, EXTERNAL, MEMBER, OWNER = "relevant", "external", "member", "client"
NOBODY_NAME = "nobody"
"""Word that stands for no client in a file of owners."""

_OFFERS = Need.PROBABILITIES | Need.HARD_LABELS


@dataclass(frozen=True, slots=True)
class _ClientTable:
    """One client's file, its candidates first."""

    path: Path
    columns: tuple[str, ...]
    """Names of the columns with answers, in the order of the file."""
    answers: Float[np.ndarray, "rows classes"]
    label: Int[np.ndarray, " rows"]
    member: Bool[np.ndarray, " rows"] | None
    candidates: int
    relevant: int
    logits: Float[np.ndarray, "rows classes"] | None
    """The file's logits; None where it holds something else."""

    def records(self, start: int, stop: int | None) -> Records:
        """Records of some of the rows, whose only feature is their row number."""
        rows = np.arange(len(self.label))[start:stop]
        return Records(rows, self.label[rows])


def read(
    files: Mapping[str, Path],
    colluder: str,
    *,
    probabilities: str = "p_*",
    label: str = "label",
    output: Output = "probabilities",
) -> FederationView:
    """Read a federation view from the clients' files.

    Args:
        files: paths of the files by client.
        colluder: name of the client that attacks.
        probabilities: pattern of the columns with predictions, in the order of the classes.
        label: column with the true class.
        output: kind of the predictions.

    Raises:
        SpecError: there are fewer than two clients, or the colluding one is not among them.
        DataError: a file cannot be read, holds something else, or is about other candidates.
        TargetError: the answers are not what ``output`` says.
    """
    names = tuple(files)
    if len(names) < 2:
        raise SpecError(f"expected two clients or more, got {len(names)}: name the others too")
    if colluder not in files:
        hint = did_you_mean(colluder, names)
        raise SpecError(f"expected the colluding client among the others, got {colluder!r}: {hint}")
    if NOBODY_NAME in files:
        raise SpecError(f"expected clients with names of their own, got {NOBODY_NAME!r}: rename it")
    tables = [
        _read_table(files[name], probabilities, label, output, known=name == colluder)
        for name in names
    ]
    _check_alike(tables)
    own = tables[names.index(colluder)]
    assert own.member is not None
    edge = own.candidates
    return FederationView(
        tuple(TableTarget(table.answers, _OFFERS, table.logits) for table in tables),
        own.records(0, edge),
        tuple(t.records(t.candidates, t.candidates + t.relevant) for t in tables),
        tuple(t.records(t.candidates + t.relevant, None) for t in tables),
        Collusion(names.index(colluder), own.member[edge : edge + own.relevant], own.member[:edge]),
    )


def read_owners(path: Path, names: Sequence[str], view: FederationView) -> Assignment:
    """Read which client trained on each candidate from a CSV file with one column, `OWNER`.

    Raises:
        DataError: it has another column, names somebody else, has more or fewer rows than there
            are candidates, or contradicts what the colluding client knows.
    """
    number = {**{name: k for k, name in enumerate(names)}, NOBODY_NAME: NOBODY}
    owners = []
    for row, text in lines.read_lines(path):
        if row == 1:
            if text.removeprefix("\ufeff") != OWNER:
                raise DataError(f"expected {OWNER!r} as the first line of {path}, got another one")
        elif text in number:
            owners.append(number[text])
        else:
            hint = did_you_mean(text[:80], number)
            raise DataError(
                f"expected a client or {NOBODY_NAME!r} in {path}, got "
                f"{tables.show_cell(text)} in line {row}: {hint}"
            )
    known = view.collusion
    if len(owners) != len(view.records):
        raise DataError(
            f"expected a client for each of {len(view.records)} candidates in {path}, got "
            f"{len(owners)}: give one row a candidate, in their order"
        )
    truth = np.array(owners, np.int64)
    if ((truth == known.client) != known.records).any():
        raise DataError(
            f"expected {path} to say of the colluding client's candidates what its own file says, "
            "got something else: check the order of the rows"
        )
    return Assignment(truth)


def write_owners(path: Path, truth: Assignment, names: Sequence[str]) -> None:
    """Write the client of each candidate, or `NOBODY_NAME`, as `read_owners` reads it.

    Raises:
        StoreError: it cannot be written.
    """
    names_of = [[NOBODY_NAME if k == NOBODY else names[k]] for k in truth.client.tolist()]
    _write_csv(path, [[OWNER], *names_of])


def write(
    folder: Path, view: FederationView, names: Sequence[str], truth: Assignment | None = None
) -> None:
    """Write a view as ``NAME.csv`` for each client, and ``owners.csv`` if the truth is given.

    Args:
        folder: folder for the files, which is made if need be.
        view: federation view to write.
        names: names of the clients, in the order of the view.
        truth: client that trained on each candidate.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = view.collusion
    for k, name in enumerate(names):
        sets = (view.records, view.relevant[k], view.external[k])
        sizes = [len(records) for records in sets]
        answers = np.concatenate([view.targets[k].predict(records.x) for records in sets])
        flags = np.repeat([[0, 0], [1, 0], [0, 1]], sizes, axis=0)
        label = np.concatenate([records.y for records in sets])
        header = [RELEVANT, EXTERNAL, "label", *(f"p_{c}" for c in range(answers.shape[1]))]
        parts = zip(flags.tolist(), label.tolist(), answers.tolist(), strict=True)
        rows = [[*map(str, flag), str(y), *map(repr, p)] for flag, y, p in parts]
        if k == known.client:
            member = [*known.records, *known.relevant, *np.zeros(sizes[2], bool)]
            header, rows = (
                [*header, MEMBER],
                [[*row, str(int(flag))] for row, flag in zip(rows, member, strict=True)],
            )
        _write_csv(folder / f"{name}.csv", [header, *rows])
    if truth is not None:
        write_owners(folder / "owners.csv", truth, names)


def _write_csv(path: Path, rows: Iterable[Sequence[str]]) -> None:
    atomic.write(path, "".join(",".join(row) + "\n" for row in rows).encode())


def _read_table(
    path: Path, probabilities: str, label: str, output: Output, *, known: bool
) -> _ClientTable:
    header = tables.read_header(path)
    plain = [label, RELEVANT, EXTERNAL, *([MEMBER] if known else [])]
    chosen = [n for n in header if fnmatchcase(n, probabilities) and n not in (*plain, MEMBER)]
    names = [*chosen, *plain]
    if len(set(plain)) < len(plain):
        raise DataError(f"expected a column of its own for the class in {path}, got {label!r}")
    tables.check_names(path, header, names if chosen else [probabilities])
    values = tables.read_columns(path, names)
    flags = values[:, len(chosen) + 1 :]
    _check_columns(path, names, values, len(chosen))
    relevant, external = flags[:, 0] == 1, flags[:, 1] == 1
    kind = relevant + 2 * external
    sizes = np.bincount(kind, minlength=4)
    if sizes[3] or not sizes[:3].all():
        raise DataError(
            f"expected candidates, relevant and external records in {path}, got {sizes[0]}, "
            f"{sizes[1]} and {sizes[2]}, and {sizes[3]} that are said to be both: give some of each"
        )
    order = np.argsort(kind, kind="stable")
    raw = values[order, : len(chosen)]
    named = ColumnNames(probabilities, tuple(chosen))
    answers = named.arrange(to_probabilities(raw, output, len(raw)))
    cells = [str(int(cell)) for cell in values[:, len(chosen)]]
    try:
        labels = label_columns.read_classes(path, label, cells, named, ()).number[order]
    except DataError as error:  # it advises class_names, which this table has not
        raise DataError(
            f"expected classes of the columns {', '.join(chosen[:20])} in {path}, "
            f"column {label!r}, got others: name these columns by their classes, "
            "such as p_0 and p_1, or correct the labels"
        ) from error
    member = (flags[order, 2] == 1) if known else None
    if member is not None and member[kind[order] == 2].any():
        raise DataError(f"expected no member among the external records in {path}, got some")
    logits = named.arrange(to_logits(raw, len(raw))) if output == "logits" else None
    return _ClientTable(
        path, tuple(chosen), answers, labels, member, int(sizes[0]), int(sizes[1]), logits
    )


def _check_columns(
    path: Path, names: Sequence[str], values: Float[np.ndarray, "rows columns"], count: int
) -> None:
    if not len(values):
        raise DataError(f"expected one row per record in {path}, got none: check the export")
    for k, (name, column) in enumerate(zip(names, values.T, strict=True)):
        wanted, right = "a number", ~np.isnan(column)
        if k == count:
            wanted = "a class number, 0, 1, 2..."
            right = np.isfinite(column) & (column >= 0) & (column == np.floor(column))
        elif k > count:
            wanted, right = "0 or 1", np.isin(column, (0, 1))
        if not right.all():
            row = int(right.argmin())
            raise tables.cell_error(path, name, row, wanted, column[row])


def _check_alike(tables: Sequence[_ClientTable]) -> None:
    """Refuse files about other candidates, with other classes, or all of one model."""
    first = tables[0]
    for other in tables[1:]:
        if other.columns != first.columns and set(other.columns) == set(first.columns):
            raise DataError(
                f"expected the columns of answers of {first.path} in the same order in "
                f"{other.path}, got {', '.join(other.columns[:20])}: export classes in one order"
            )
        same = first.candidates == other.candidates and np.array_equal(
            first.label[: first.candidates], other.label[: other.candidates]
        )
        if not same or first.answers.shape[1] != other.answers.shape[1]:
            raise DataError(
                f"expected the same candidates and classes in {first.path} and {other.path}, got "
                f"{first.candidates} and {other.candidates} candidates with "
                f"{'other' if not same else 'the same'} labels, and {first.answers.shape[1]} and "
                f"{other.answers.shape[1]} classes: export them in one order"
            )
    if all(_equal_answers(first, other) for other in tables[1:]):
        raise DataError(
            f"expected answers of each client's own model, got the same about all candidates in "
            f"{', '.join(str(table.path) for table in tables[:20])}: export each client's model, "
            "not the server's"
        )


def _equal_answers(first: _ClientTable, other: _ClientTable) -> bool:
    return np.array_equal(first.answers[: first.candidates], other.answers[: other.candidates])
