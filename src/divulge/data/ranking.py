"""Queries with judged documents, in the format of LETOR, and a synthetic stand-in."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from divulge._util.contents import quote_error
from divulge.data import lines
from divulge.errors import DataError

GRADES = 5
"""Relevance goes from 0 to 4 at most."""
MOST_FEATURES = 10_000


@dataclass(frozen=True, slots=True)
class Queries:
    """Documents, each of one query, with features and a grade of relevance.

    Raises:
        DataError: there is none, a feature is not finite, a grade or a query is out of range.
    """

    x: Float[np.ndarray, "documents features"]
    relevance: Int[np.ndarray, " documents"]
    query: Int[np.ndarray, " documents"]
    """Numbered from 0, in order; the documents of a query follow each other."""

    def __post_init__(self) -> None:
        if not len(self.x):
            raise DataError("expected documents, got none: give one or more")
        if not np.isfinite(self.x).all():
            raise DataError("expected finite features, got NaN or infinity: clean them first")
        if self.relevance.min() < 0 or self.relevance.max() >= GRADES:
            raise DataError(f"expected relevance from 0 to {GRADES - 1}, got other grades")
        steps = np.diff(self.query)
        if self.query[0] != 0 or ((steps != 0) & (steps != 1)).any():
            raise DataError("expected queries numbered from 0 in order, got other numbers: sort")

    @property
    def count(self) -> int:
        """How many queries there are."""
        return int(self.query[-1]) + 1

    def of_each(self) -> list[slice]:
        """Where the documents of each query lie."""
        ends = np.searchsorted(self.query, np.arange(self.count + 1))
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def take(self, numbers: Int[np.ndarray, " chosen"]) -> "Queries":
        """Some of the queries, numbered anew in this order."""
        each = self.of_each()
        parts = [each[number] for number in numbers.tolist()]
        rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        sizes = [part.stop - part.start for part in parts]
        query = np.repeat(np.arange(len(parts)), sizes)
        return Queries(self.x[rows], self.relevance[rows], query)

    def standardise(self) -> "Queries":
        """Features shifted and scaled to mean 0 and deviation 1; constant ones become 0."""
        spread = self.x.std(axis=0)
        centred = self.x - self.x.mean(axis=0)
        return Queries(centred / np.where(spread > 0, spread, 1.0), self.relevance, self.query)


def read_queries(path: Path) -> Queries:
    """Queries from a file of lines ``GRADE qid:ID 1:VALUE 2:VALUE ... # comment``.

    Every line must have the same features in order, as MQ2007, MQ2008 and MSLR have.

    Args:
        path: the file, perhaps with ``.xz``.

    Raises:
        DataError: it cannot be read, or a line is of another kind.

    References:
        Qin and Liu (2013), Introducing LETOR 4.0 datasets.
    """
    rows: list[Float[np.ndarray, " features"]] = []
    grades, ids = [], []
    for number, text in lines.read_lines(path):
        try:
            grade, query, values = _parse_line(text, len(rows[0]) if rows else None)
        except ValueError as error:
            raise DataError(
                f"expected 'GRADE qid:ID 1:VALUE 2:VALUE ...' in {path}, got something else in "
                f"line {number}: {quote_error(error)}"
            ) from error
        rows.append(values)
        grades.append(grade)
        ids.append(query)
    if not rows:
        raise DataError(f"expected documents in {path}, got none: check the file")
    changes = [before != after for before, after in pairwise(ids)]
    if sum(changes) + 1 != len(set(ids)):
        raise DataError(f"expected the documents of a query together in {path}: sort it by qid")
    numbered = np.append(0, np.cumsum(changes)).astype(np.int64)
    return Queries(np.stack(rows), np.array(grades, np.int64), numbered)


def _parse_line(text: str, wanted: int | None) -> tuple[int, str, Float[np.ndarray, " features"]]:
    """Grade, query and features; ValueError says what is odd."""
    tokens = text.partition("#")[0].split()
    if len(tokens) < 3 or not tokens[1].startswith("qid:"):
        raise ValueError("no grade, qid and features")
    features = len(tokens) - 2
    if features > MOST_FEATURES or (wanted is not None and features != wanted):
        raise ValueError(f"{features} features")
    numbers = np.array(" ".join(tokens[2:]).replace(":", " ").split(), dtype=np.float64)
    if len(numbers) != 2 * features or (numbers[::2] != np.arange(1, features + 1)).any():
        raise ValueError("features that are not numbered 1, 2, 3...")
    return int(tokens[0]), tokens[1][4:], numbers[1::2]


def synthetic_queries(queries: int, features: int, rng: np.random.Generator) -> Queries:
    """SYNTHETIC queries of 5 to 20 documents, relevant (0 to 2) by a random linear rule."""
    sizes = rng.integers(5, 21, queries)
    x = rng.random((sizes.sum(), features))
    wanted = x @ rng.normal(size=features)
    grades = np.digitize(wanted, np.quantile(wanted, [0.7, 0.9]))
    return Queries(x, grades.astype(np.int64), np.repeat(np.arange(queries), sizes))


def concatenate_queries(parts: Sequence[Queries]) -> Queries:
    """The queries of several files, one after another.

    Raises:
        DataError: there is none, or their numbers of features differ.
    """
    if not parts or len({part.x.shape[1] for part in parts}) != 1:
        raise DataError("expected queries with the same features, got none, or others: sort them")
    starts = np.cumsum([0, *(part.count for part in parts)])
    numbered = [part.query + start for part, start in zip(parts, starts, strict=False)]
    return Queries(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.relevance for part in parts]),
        np.concatenate(numbered),
    )


def ndcg(
    score: Float[np.ndarray, " documents"],
    relevance: Int[np.ndarray, " documents"],
    k: int = 10,
) -> float:
    """Normalised discounted cumulative gain of the first k documents of one query.

    The gain of a document is 2^relevance - 1, the discount of rank r is log2(r + 1). Documents
    whose scores tie share their gain, which is the mean over all orders of the tie. A query without
    a relevant document counts as 0.

    References:
        Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques; Burges
        et al. (2005), Learning to rank using gradient descent (the gain).

    Examples:
        >>> ndcg(np.array([3.0, 2.0, 1.0]), np.array([0, 1, 0]))
        0.630...
    """
    from sklearn.metrics import ndcg_score  # loads much

    gain = np.exp2(relevance) - 1.0
    if len(gain) == 1:  # which scikit-learn refuses
        return float(gain[0] > 0)
    return float(ndcg_score([gain], [score], k=k))
