"""Read a table with the log-probability of every token of some texts, one row a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.arguments import check_arguments
from divulge.core.tokens import Tokens
from divulge.data import tables
from divulge.data.cells import check_unpacked
from divulge.data.typed_columns import as_text
from divulge.errors import DataError
from divulge.targets import token_forms
from divulge.targets.member_column import read_members
from divulge.targets.token_alignment import check_vocabulary
from divulge.targets.token_target import TokenTableTarget
from divulge.targets.token_text_columns import TEXT_COLUMNS, TextColumns, refuse_cell

TOKEN_COLUMNS = ("mean", "sd", "top1", "rank", "token_ids")
"""Further lists of one number a token, by the names under which they are looked for."""

REFERENCE = "reference_logprobs"
SHADOWS = ("shadow_means", "shadow_members")
SHADOW_TOKENS = "shadow_logprobs"

_SEVERAL = (REFERENCE, SHADOW_TOKENS)
"""Lists of lists: of several models, one number a token each."""

MANY = 10
"""So many tokens in a row do not have the same log-probabilities by chance."""

_OTHERS = (*_SEVERAL, *TOKEN_COLUMNS, *SHADOWS, *TEXT_COLUMNS)


@check_arguments
@dataclass(frozen=True, slots=True)
class TokenTable:
    """The content of a table of token log-probabilities, one row a text."""

    tokens: Tokens
    member: Bool[np.ndarray, " texts"]
    membership: str
    """Which value was taken for a member, in a sentence."""
    notes: tuple[str, ...]
    """How the table was understood, in sentences."""
    texts: tuple[str, ...] = field(default=(), repr=False)
    """The texts themselves, which are not stored; empty where the table has none."""
    moment: Float64[np.ndarray, " texts"] | None = None
    """The date of each text, as a number; None where the table has none."""

    @property
    def target(self) -> TokenTableTarget:
        """The table as a target that is asked with row numbers."""
        return TokenTableTarget(self.tokens)

    @property
    def first(self) -> Int[np.ndarray, " texts"]:
        """By row, the first one with the same text: copies have one number.

        Without texts, rows are copies that have the same log-probabilities of many tokens.
        """
        known: dict[str | bytes, int] = {}
        contents: Sequence[str | bytes] = self.texts or [
            part.tobytes() if len(part) >= MANY else str(row)
            for row, part in enumerate(self.tokens.split(self.tokens.logprob))
        ]
        return np.array([known.setdefault(each, row) for row, each in enumerate(contents)])


def has_shadows(path: Path) -> bool:
    """Whether a table says what further fine-tunes think of its texts; not where there is no file.

    Raises:
        DataError: it cannot be read.
    """
    return path.is_file() and SHADOWS[1] in tables.read_header(path)


def read_tokens(
    path: Path,
    column: str = "logprobs",
    *,
    member: str = "member",
    member_value: str | None = None,
) -> TokenTable:
    """Read a table of token log-probabilities; further columns are found by their names.

    These are ``reference_logprobs`` (a list, or a list of lists for several models), ``mean`` and
    ``sd`` of the log-probability over the vocabulary at each token, ``top1`` (whether the token is
    the likeliest) or ``rank`` (from 1), ``token_ids`` (which token it is, as a whole number),
    ``shadow_logprobs`` (a list of lists, or ``shadow_means``, a list) and ``shadow_members`` (a
    list), with one entry a shadow model, ``lowercase_logprobs`` (a list, of the tokens of the text
    in lower case), ``gradient_norm`` (a number), ``text`` and ``date``.

    A first token without a log-probability, which no model can give without what precedes it, is
    left out of every list.

    Args:
        path: JSON lines, Parquet, Feather or Arrow.
        column: the column with the list of log-probabilities of each text, in nats.
        member: as for `divulge.targets.predictions.read_predictions`.
        member_value: likewise.

    Raises:
        DataError: the file cannot be read, a column is missing or holds something else, lists of a
            text differ in length, or the numbers are no natural logarithms of probabilities.
        MissingExtra: the file needs pyarrow, which is not installed.
    """
    header = tables.read_header(path)
    names = [column, member, *(name for name in _OTHERS if name in header and name != column)]
    if missing := [name for name in names if name not in header]:
        raise DataError(
            f"expected a column {missing[0]!r} in {path}, got {', '.join(header[:20])}: pass "
            "logprobs= and member= as they are called there"
        )
    if column == member:
        raise DataError(
            f"expected two columns for the log-probabilities and the membership, got {column!r} "
            "for both: pass logprobs= and member= as they are called there"
        )
    read = _Reader(path, names)
    for row, cells in enumerate(tables.read_rows(path, names)):
        read.add(row, dict(zip(names, cells, strict=True)))
    inside, sentence = read_members(path, member, read.members, member_value)
    tokens = read.join()
    token_forms.check_forms(path, column, tokens)
    check_vocabulary(path, tokens, inside)
    return TokenTable(
        tokens,
        inside,
        sentence,
        read.describe(tokens),
        tuple(read.of_texts.texts),
        read.of_texts.moments(),
    )


class _Reader:
    """Gathers the rows of a table, whose lists are checked as they come."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._path, self._names = path, names
        self._column, self._member = names[:2]
        self._lists: dict[str, list[Any]] = {name: [] for name in names if name in _LISTS}
        self._logprobs: list[np.ndarray] = []
        self.members: list[str] = []
        self.of_texts = TextColumns(path, names)
        self._begun = 0
        self._models: dict[str, int] = {}
        self._bytes = 0

    def add(self, row: int, cells: dict[str, Any]) -> None:
        """Check and keep one row."""
        lists = dict(self._aligned(row, cells))
        if any(np.isnan(values[..., :1]).any() for values in lists.values()):
            lists = {name: values[..., 1:] for name, values in lists.items()}
            self._begun += 1
        if not lists[self._column].size:
            raise self._refuse(row, self._column, "one token or more", "none with a number")
        for name, values in lists.items():
            if (gone := np.isnan(values)).any():
                at = int(gone.any(axis=0).argmax() if values.ndim > 1 else gone.argmax())
                raise self._refuse(row, name, "a number for each token", f"none at token {at + 1}")
            self._keep(name, values)
        self._keep_shadows(row, cells)
        self.members.append(as_text(cells[self._member]))
        self.of_texts.add(row, cells)
        check_unpacked(self._path, self._bytes + self.of_texts.bytes)

    def _aligned(self, row: int, cells: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
        """The lists with one number a token, as long as that of the log-probabilities."""
        logprobs = cells[self._column]
        if not isinstance(logprobs, np.ndarray):
            raise self._refuse(
                row,
                self._column,
                "a list with the log-probability of every token",
                "one number a text: a sum or a mean is audited as score= instead"
                if isinstance(logprobs, int | float)
                else type(logprobs).__name__,
            )
        yield self._column, logprobs
        for name in (*_SEVERAL, *TOKEN_COLUMNS):
            if name not in self._names:
                continue
            cell = cells[name]
            several = name in _SEVERAL and isinstance(cell, list)
            if not (several or isinstance(cell, np.ndarray)):
                raise self._refuse(row, name, "a list", "nothing" if cell is None else "no list")
            for part in cell if several else [cell]:
                if len(part) != len(logprobs):
                    raise self._refuse(
                        row,
                        name,
                        f"{len(logprobs)} numbers, one for each token of {self._column!r}",
                        f"{len(part)}, so that another tokenizer or another cut was used",
                    )
            yield name, np.array(cell if several else [cell]) if name in _SEVERAL else cell

    def _keep(self, name: str, values: np.ndarray) -> None:
        if name in _SEVERAL:
            wanted = self._models.setdefault(name, len(values))
            if len(values) != wanted:
                raise self._refuse(
                    len(self.members), name, f"{wanted} lists as in row 1", f"{len(values)}"
                )
        (self._logprobs if name == self._column else self._lists[name]).append(values)
        self._bytes += values.nbytes

    def _keep_shadows(self, row: int, cells: dict[str, Any]) -> None:
        given = [name for name in SHADOWS if name in self._names]
        for name in given:
            values = cells[name]
            wanted = len(self._lists[name][0]) if self._lists[name] else None
            if not isinstance(values, np.ndarray) or np.isnan(values).any():
                raise self._refuse(row, name, "a list, one number a shadow model", "something else")
            if wanted is not None and len(values) != wanted:
                raise self._refuse(row, name, f"{wanted} numbers as in row 1", f"{len(values)}")
            self._keep(name, values)
        counts = [len(cells[name]) for name in given]
        if SHADOW_TOKENS in self._models:
            counts.append(self._models[SHADOW_TOKENS])
        if counts and (SHADOWS[1] not in given or len(counts) < 2 or len(set(counts)) > 1):
            raise self._refuse(
                row,
                SHADOWS[1],
                f"a list as long as that of {SHADOW_TOKENS!r} or {SHADOWS[0]!r}",
                "one without the other",
            )

    def join(self) -> Tokens:
        """All rows in flat arrays."""
        count = [len(values) for values in self._logprobs]
        lists = {
            name: np.concatenate(values, axis=-1)
            for name, values in self._lists.items()
            if name not in SHADOWS
        }
        top = lists.get("top1")
        if top is not None:
            token_forms.check_flags(self._path, "top1", top)
        if top is None and "rank" in lists:
            token_forms.check_ranks(self._path, lists["rank"])
            top = lists["rank"] == 1
        shadow, inside = (
            np.column_stack(self._lists[name]) if name in self._lists else None for name in SHADOWS
        )
        if inside is not None:
            token_forms.check_flags(self._path, SHADOWS[1], inside)
        logprob = np.concatenate([*self._logprobs, np.zeros(0)])
        if shadow is None and SHADOW_TOKENS in self._lists:
            shadow = np.column_stack([column.mean(axis=1) for column in self._lists[SHADOW_TOKENS]])
        return Tokens(
            np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
            logprob,
            lists.get(REFERENCE, np.zeros((0, len(logprob)))),
            lists.get("mean"),
            lists.get("sd"),
            None if top is None else top.astype(bool),
            shadow=shadow,
            inside=None if inside is None else inside.astype(bool),
            shadow_logprob=lists.get(SHADOW_TOKENS),
            ids=token_forms.read_ids(self._path, lists.get("token_ids")),
            **self.of_texts.fields(),
        )

    def describe(self, tokens: Tokens) -> tuple[str, ...]:
        """How the table was understood, in sentences."""
        named = ", ".join(name for name in self._names if name in _OTHERS) or "none"
        sentences = [
            f"{len(tokens):,} texts with {tokens.start[-1]:,} tokens, {tokens.count.min():,} to "
            f"{tokens.count.max():,} each. Further columns that were read: {named}.",
            token_forms.describe_base(tokens),
        ]
        if self._begun:
            sentences.append(
                f"The first token of {self._begun:,} texts has no log-probability, and is left out."
            )
        return tuple(sentences)

    def _refuse(self, row: int, column: str, wanted: str, got: str) -> tables.CellError:
        return refuse_cell(self._path, row, column, wanted, got)


_LISTS = (*_SEVERAL, *TOKEN_COLUMNS, *SHADOWS)
