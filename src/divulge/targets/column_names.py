"""Names of classes in the names of the columns that hold a model's answers."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from divulge.data.class_keys import class_key, class_number, find_places

Names = tuple[str, ...]

_WILDCARD = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")
"""What stands for other characters in a pattern of `fnmatch`."""

_BETWEEN = "_ :."
"""Characters between the class and the rest of a column's name; a minus may be a sign."""

_SAYS_CLASS = re.compile(
    r"(?:y|p|pr|prob|proba|probs|probability|probabilities|pred|prediction|predictions|class|label"
    r"|score|logit|logits|[-_. :])*(0+|0*1|true|false)",
    re.IGNORECASE,
)
"""The name of a column of probabilities that is chosen by its whole name."""


class ColumnNames(NamedTuple):
    """What the columns with the answers are called."""

    pattern: str
    """By which the user chose them."""
    columns: Names
    """In the order of the file."""

    @property
    def single(self) -> bool:
        """Whether one column alone stands for two classes."""
        return len(self.columns) == 1

    @property
    def classes(self) -> int:
        """How many classes the columns are about."""
        return max(2, len(self.columns))

    @property
    def reversed(self) -> bool:
        """Whether the only column is about class 0, as its name says, and not about class 1."""
        return self.single and class_key(self.only_name) in (("number", 0), ("truth", 0))

    @property
    def only_name(self) -> str:
        """What the only column calls its class; empty where it does not."""
        (column,) = self.columns
        chosen = _WILDCARD.search(self.pattern) is not None
        name = _cut(column, self.pattern).strip(_BETWEEN) if chosen else column.strip()
        says = _SAYS_CLASS.fullmatch(name)
        return says[1] if says else name if chosen else ""

    def class_names(self, labels: Sequence[str], given: Names) -> Names:
        """What the columns call the classes, class 0 first; empty where they say nothing.

        The pattern says which part of a column's name is that of the class. Where it cuts too
        little for the labels, what all columns have in common is cut as well.

        Args:
            labels: those that occur.
            given: the names that the user gave.
        """
        if self.single:
            return self._two_classes(labels, given)
        candidates = [names for names in self._candidates() if len(set(names)) == len(names)]

        counted = any(class_number(label) is not None for label in labels)

        def fit(names: Names) -> tuple[bool, int, int]:
            named = bool(given) and len(find_places(names, given)) == len(names)
            numbers = counted and sum(class_number(name) is not None for name in names)
            return named, len(find_places(labels, names)), numbers

        return max(candidates, key=fit, default=())  # the first of several that fit alike

    def arrange(
        self, answers: Float[np.ndarray, "records columns"], further: int = 0
    ) -> Float[np.ndarray, "records classes"]:
        """The answers with class 0 first.

        Args:
            answers: in the order of the columns; two of a single column, as if it were class 1.
            further: how many classes have no column; they get zeros.
        """
        arranged = answers[:, ::-1] if self.reversed else answers
        return np.pad(arranged, ((0, 0), (0, further))) if further else arranged

    def _two_classes(self, labels: Sequence[str], given: Names) -> Names:
        own = self.only_name
        kind, value = class_key(own)
        others = [name for name in given if class_key(name) != (kind, value)]
        if len(given) == 2 and len(others) == 1:
            return (own, others[0]) if self.reversed else (others[0], own)
        if kind == "truth":
            return "false", "true"
        if kind == "number" and value in (0, 1):
            return "0", "1"
        alone = all(class_key(label) == (kind, value) for label in labels)
        return (f"not {own}", own) if alone else ()

    def _candidates(self) -> Iterator[Names]:
        """Names by the pattern, and with less and less that all columns have in common."""
        by_pattern = tuple(_cut(column, self.pattern) for column in self.columns)
        yield by_pattern
        yield tuple(name.strip(_BETWEEN) for name in by_pattern)
        for signed in (True, False):
            start = _shared_start(self.columns, signed=signed)
            rest = [column[start:] for column in self.columns]
            yield tuple(name.strip() for name in rest)
            end = _shared_end(rest)
            yield tuple(name[: len(name) - end].strip() for name in rest)


def sort_by_number(columns: Sequence[str], pattern: str) -> list[str]:
    """Columns of numbered classes by number, and those of others as they are.

    Of classes with equal probabilities the first is the predicted one, in any order of the file.

    Examples:
        >>> sort_by_number(["p_10", "p_1", "p_2"], "p_*"), sort_by_number(["p_b", "p_a"], "p_*")
        (['p_1', 'p_2', 'p_10'], ['p_b', 'p_a'])
    """
    keys = {column: class_key(_cut(column, pattern)) for column in columns}
    kinds = {kind for kind, _ in keys.values()}
    if kinds not in ({"number"}, {"truth"}):
        return list(columns)
    return sorted(columns, key=lambda column: keys[column][1])


def _cut(column: str, pattern: str) -> str:
    """A column's name without the plain text before the first wildcard and after the last one.

    Examples:
        >>> _cut("p_cat", "p_*"), _cut("p_1_x", "p_[01]_x"), _cut("cat", "[bc]*")
        ('cat', '1', 'cat')
    """
    wild = [match.span() for match in _WILDCARD.finditer(pattern)]
    if not wild:
        return ""
    before, after = wild[0][0], len(pattern) - wild[-1][1]
    return column[before : len(column) - after].strip()


def _shared_start(names: Sequence[str], *, signed: bool) -> int:
    """How many first characters all names share, up to where a word or a number begins.

    Args:
        names: of columns.
        signed: whether a minus before the rest belongs to a number.
    """
    shared = _common_start(names).rstrip("0123456789.")
    if signed:
        shared = shared.rstrip("-")
    if not all(name[len(shared) :][:1] in "-+.0123456789" for name in names):
        shared = re.sub(r"[^\W\d_]+$", "", shared)
    return len(shared)


def _shared_end(names: Sequence[str]) -> int:
    """How many last characters all names share, from where a word ends.

    Examples:
        >>> _shared_end(["cat_prob-1", "dog_prob-1"]), _shared_end(["cat", "rat"])
        (7, 0)
    """
    shared = _common_start([name[::-1] for name in names])[::-1]
    separator = re.search(r"[-_ :]", shared)
    return len(shared) - separator.start() if separator else 0


def _common_start(texts: Sequence[str]) -> str:
    alike = takewhile(lambda each: len(set(each)) == 1, zip(*texts, strict=False))
    return "".join(each[0] for each in alike)
