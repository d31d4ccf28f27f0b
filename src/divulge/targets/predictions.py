"""Use recorded predictions as a target, from memory or from a table.

The model itself may be gone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Real

from divulge._util.arguments import check_arguments
from divulge.core import Need
from divulge.data import tables
from divulge.errors import DataError, TargetError
from divulge.targets import forms, label_columns
from divulge.targets.answer_file import AnswerFile, rows_at_once
from divulge.targets.column_names import ColumnNames, sort_by_number
from divulge.targets.label_columns import ClassColumn
from divulge.targets.member_column import read_members
from divulge.targets.outputs import Output, access_of, to_answers, to_probabilities
from divulge.targets.recorded import TableTarget


@check_arguments
@dataclass(frozen=True, slots=True)
class PredictionTable:
    """The content of a table of predictions, one row per record."""

    rows: AnswerFile | Float[np.ndarray, "records classes"]
    """Probabilities or values: an array, or a file on the disk that was read from a large table."""
    label: Real[np.ndarray, " records"]
    """The class of each record, or its true value."""
    member: Bool[np.ndarray, " records"]
    output: Output
    classes: tuple[str, ...] = ()
    """What the report calls each class, where classes have names instead of numbers."""
    matching: str = ""
    """How labels were matched with columns, in a sentence; empty for plain class numbers."""
    membership: str = ""
    """Which value was taken for a member, in a sentence."""
    notation: str = ""
    """How the file was understood, in sentences; empty where it is plain."""

    @property
    def answers(self) -> Float[np.ndarray, "records classes"]:
        """All probabilities or values, read into memory."""
        return self.rows[:]

    @property
    def target(self) -> TableTarget:
        """The table as a target that is asked with row numbers."""
        offers, declared = access_of(self.output) & ~Need.FEATURES, self.output == "probabilities"
        return TableTarget(self.rows, offers, declared=declared)


def read_predictions(
    path: str | Path,
    *,
    probabilities: str = "p_*",
    label: str = "label",
    member: str = "member",
    member_value: str | None = None,
    class_names: tuple[str, ...] = (),
    output: Output = "probabilities",
    own_id: str | None = None,
    also: Collection[str] = (),
) -> PredictionTable:
    """Read a table of predictions, of any format that `divulge.data.tables` opens.

    Args:
        path: the file, whose first line names the columns if it is text.
        probabilities: a pattern for the columns with the answers; for values, the name of the one
            column.
        label: the column with the true class: what the pattern's wildcards stand for in one of
            those columns, or one of ``class_names``; or with the true value.
        member: the column that says whether the record was trained on.
        member_value: what it says of members; needed where that is none of `MEMBER_WORDS`.
        class_names: names of the classes in the order of the columns; or the same names as those of
            the columns, in the order of class numbers.
        output: what the answers are: probabilities, percentages, logits, labels or values.
        own_id: a column with the user's own ids.
        also: further columns that hold no answers, even if their names fit the pattern.

    Raises:
        DataError: the file cannot be read, or a column is missing or holds something else.
        TargetError: the answers are not what ``output`` says.
        MissingExtra: the file needs pyarrow, which is not installed.
    """
    path = Path(path)
    header = tables.read_header(path)
    further = (own_id, *also)
    columns = _select_columns(path, header, probabilities, label, member, further)
    cells, members = tables.read_texts(path, label, member)
    labels: Real[np.ndarray, " records"]
    names: tuple[str, ...] = ()
    how = rounding = ""
    if output == "values":
        labels, answers = _read_values(path, columns, label)
    elif output == "labels" and len(columns) == 1:
        predicted, true, answers = _read_labels(path, columns, label, cells, class_names)
        labels, names = true.number, true.match.titles
        how = label_columns.describe_match((predicted, true))
    else:
        if not class_names:  # which are in the order of the file
            columns = sort_by_number(columns, probabilities)
        raw = _read_numbers(path, columns)
        if output == "labels":
            _check_one_hot(path, columns, raw)
        by_column = _to_probabilities(raw, output, columns)
        named = ColumnNames(probabilities, tuple(columns))
        true = label_columns.read_classes(path, label, cells, named, class_names)
        answers = _arrange(by_column, named, true.match.further)
        rounding = forms.describe_rounding(raw.parts(), output)
        labels, names = true.number, true.match.titles
        how = label_columns.describe_match((true,), named)
    inside, membership = read_members(path, member, members, member_value)
    if not len(labels) == len(answers) == len(inside):
        raise DataError(
            f"expected one row per record in {path}, got {len(answers)} rows of answers and "
            f"{len(labels)} with a class: check the export"
        )
    notation = tables.describe(path, () if output == "labels" else columns)
    notation = " ".join(filter(None, (notation, rounding)))
    return PredictionTable(answers, labels, inside, output, names, how, membership, notation)


def _read_values(
    path: Path, columns: list[str], label: str
) -> tuple[Float[np.ndarray, " records"], AnswerFile]:
    """True values, and those that the model answered."""
    if len(columns) > 1:
        raise DataError(
            f"expected one column of predicted values in {path}, got {', '.join(columns[:20])}: "
            "name it in probabilities="
        )
    raw = _read_numbers(path, [*columns, label])[:]
    return raw[:, 1].copy(), AnswerFile.of([to_answers(raw[:, 0], "values", len(raw))], 1)


def _read_labels(
    path: Path, columns: list[str], label: str, cells: list[str], class_names: tuple[str, ...]
) -> tuple[ClassColumn, ClassColumn, AnswerFile]:
    """Predicted classes, true ones, and the predicted ones as probabilities of 0 and 1."""
    (predicted,) = tables.read_texts(path, columns[0])
    guesses, true, classes = label_columns.read_predicted_classes(
        path, (columns[0], label), predicted, cells, class_names
    )
    number, count = guesses.number, rows_at_once(classes)
    parts = (number[start : start + count] for start in range(0, len(number), count))
    rows = (to_probabilities(part, "labels", len(part), classes) for part in parts)
    return guesses, true, AnswerFile.of(rows, classes)


def _read_numbers(path: Path, columns: Sequence[str]) -> AnswerFile:
    rows = AnswerFile(len(columns))
    for above, numbers in tables.read_numbers(path, columns):
        if not above:  # also where all come anew
            rows = AnswerFile(len(columns))
        if (missing := np.isnan(numbers)).any():
            at = int(missing.any(axis=0).argmax())
            row = above + int(missing[:, at].argmax())
            raise tables.cell_error(path, columns[at], row, "a number", np.nan)
        rows.put(above, numbers)
    return rows


def _arrange(answers: AnswerFile, named: ColumnNames, further: int) -> AnswerFile:
    if not named.reversed and not further:
        return answers
    parts = (named.arrange(part, further) for part in answers.parts())
    return AnswerFile.of(parts, named.classes + further)


def _to_probabilities(raw: AnswerFile, output: Output, columns: Sequence[str]) -> AnswerFile:
    """Probabilities by parts; each part has the declared form, and so have rows from everywhere.

    Of rounded numbers the coarsest of a part say how far sums may be from one.
    """

    def convert(numbers: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows classes"]:
        return to_probabilities(numbers, output, len(numbers), len(columns), names=columns)

    classes = max(2, len(columns))
    try:
        if len(raw) > (count := rows_at_once(raw.shape[1])):
            convert(raw[:: -(-len(raw) // count)])
        return AnswerFile.of(map(convert, raw.parts()), classes)
    except TargetError:  # some rows by themselves may look like another form: judge all together
        return AnswerFile.of([convert(raw[:])], classes)


def _check_one_hot(path: Path, columns: list[str], answers: AnswerFile) -> None:
    if not all(map(forms.are_one_hot, answers.parts())):
        raise DataError(
            f"expected one column of predicted classes in {path}, or one column a class with 1 for "
            f"the predicted one and 0 elsewhere, got {', '.join(columns[:20])}: pass "
            'output="probabilities", or the column in probabilities='
        )


def _select_columns(
    path: Path,
    header: Sequence[str],
    probabilities: str,
    label: str,
    member: str,
    further: Collection[str | None],
) -> list[str]:
    """The columns with the answers in the order of the file."""
    others = (label, member, *further)
    answers = [n for n in header if fnmatchcase(n, probabilities) and n not in others]
    missing = [name for name in (label, member) if name not in header]
    if missing or not answers:
        raise DataError(
            f"expected a column {[*missing, probabilities][0]!r} in {path}, got "
            f"{', '.join(header[:20])}: pass probabilities=, label= and member= as they are called "
            "there"
        )
    if label == member:
        raise DataError(
            f"expected two columns for the class and the membership, got {label!r} for both: pass "
            "label= and member= as they are called there"
        )
    tables.check_names(path, header, (*answers, label, member))
    return answers
