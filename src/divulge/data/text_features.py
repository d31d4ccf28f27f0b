"""Numbers that describe texts, for classifiers that never saw the model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Shaped

from divulge.core import Encoding
from divulge.errors import DataError

COMPONENTS = 24
"""Numbers that stand for the words of a text, and as many for its characters."""

LOOKED_AT = 4_000
"""Texts from which these are learned: words are weighed without a look at who is a member."""

_BEGINNING = 1_000
"""Characters of a text whose threes are counted; all of its words are."""

_KINDS = (r"[A-Z]", r"\d", r"[^\w\s]", r"\n", r"[^\x00-\x7f]")

Features = Float64[np.ndarray, "texts columns"]


def describe_texts(texts: Sequence[str]) -> Features:
    """Words, pairs of words and threes of characters in few numbers; length, and kinds of signs.

    Args:
        texts: all of them, members or not.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import HashingVectorizer
    from threadpoolctl import threadpool_limits

    words = HashingVectorizer(n_features=2**14, ngram_range=(1, 2), alternate_sign=False)
    signs = HashingVectorizer(
        n_features=2**12, analyzer="char_wb", ngram_range=(3, 3), alternate_sign=False
    )
    parts = [_measure(texts)]
    # lone surrogates are no UTF-8, which words are hashed in
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    beginnings = [text[:_BEGINNING] for text in texts]
    for counting, read in ((words, texts), (signs, beginnings)):
        counted = counting.transform(read)
        learned = counted[:LOOKED_AT]
        if not learned.nnz:  # texts without words
            continue
        size = min(COMPONENTS, learned.shape[0] - 1)
        with threadpool_limits(1):
            parts.append(TruncatedSVD(size, random_state=0).fit(learned).transform(counted))
    return np.hstack(parts)


def _measure(texts: Sequence[str]) -> Features:
    kinds = [re.compile(kind) for kind in _KINDS]
    counted = np.array(
        [
            (len(text), len(text.split()), *(len(kind.findall(text)) for kind in kinds))
            for text in texts
        ],
        np.float64,
    )
    counted[:, 2:] /= np.maximum(1.0, counted[:, :1])
    return counted


@dataclass(frozen=True, slots=True)
class RowEncoding:
    """Rows of a table as records: the model is asked about their numbers, checks see features."""

    described: Features
    """Numbers that describe each row of the table."""
    text: str = ""
    """Empty: the model is asked with the row numbers themselves."""

    def decode(self, x: Shaped[np.ndarray, "records *features"]) -> np.ndarray:
        """The row numbers."""
        return x

    def features(
        self, x: Shaped[np.ndarray, "records *features"]
    ) -> Float64[np.ndarray, "records columns"]:
        """What describes these rows."""
        return np.asarray(self.described[x[:, 0]])

    def arranged(self, columns: tuple[str, ...]) -> "RowEncoding":
        """Itself: a row number has no columns."""
        del columns
        return self

    def joined(self, other: Encoding) -> "RowEncoding":
        """Itself: all rows are of one table.

        Raises:
            DataError: the others are not.
        """
        if other is not self:
            raise DataError("expected rows of one table, got those of two: audit one at a time")
        return self
