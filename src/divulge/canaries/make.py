"""Make canaries: records whose presence in the training data shows most, and coins for them."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pydantic
from jaxtyping import Int64

from divulge._util.arguments import LARGEST, FilePath, Seed, check_arguments
from divulge._util.folders import create_folder, take_folder
from divulge.core import Records
from divulge.data.canary_files import (
    Canaries,
    Coins,
    commit,
    digest_canaries,
    remove_unfinished,
    write_canaries,
)
from divulge.data.records import as_records, as_texts
from divulge.errors import DataError, SpecError

CanaryKind = Literal["direction", "out-of-distribution", "in-distribution", "mislabelled"]

_LOOKED_AT = 2000
"""Records whose directions are avoided."""

_LENGTH = 3.0
"""How many times as long as the longest record a canary of its own direction is."""

FEWEST = 20
"""Fewer canaries refute no ε worth stating."""

RecordsEach = Annotated[int, pydantic.Field(ge=1, lt=LARGEST)]
"""How many records each canary has; from 2 on a canary is a person."""

CanaryCount = Annotated[int, pydantic.Field(ge=FEWEST, lt=LARGEST)]


class MadeCanaries(NamedTuple):
    """The files of one set of canaries, and their sizes."""

    folder: Path
    kind: CanaryKind
    canaries: int
    inserted: int
    commitment: str
    """SHA-256 digest of salt, coins and canaries."""
    records_each: int = 1
    """How many records each canary has."""


_MOST_COPIES = 0.1
"""The share of canaries that may be copies of others: so many, of few words, do little harm."""


@check_arguments
def make_canaries(
    records: Any,
    folder: FilePath,
    count: CanaryCount,
    *,
    records_each: RecordsEach = 1,
    kind: CanaryKind | None = None,
    seed: Seed | None = None,
) -> MadeCanaries:
    """Make canaries in the shape of these records; a fair coin each says which are inserted.

    Append the records of ``FOLDER/for-trainer/train.npz`` to the training data, and train as ever.
    Keep ``FOLDER/for-auditor`` where the training cannot read it.

    Args:
        records: some records of the training data, as for `divulge.audit`: arrays of numbers
            (tables, images) or texts, with classes as labels; for a language model a list of texts
            alone.
        folder: a new folder.
        count: how many canaries; about half are inserted. `plan_canaries` says how many it takes.
        records_each: how many records each canary has. With several a canary is a person, one coin
            decides about all of its records, and ε is for one person more or less. They are as
            alike as records of a person can be, equal or in one direction, since their gradients
            add up then; ``group`` in the trainer's file says whose each is.
        kind: ``direction``, in which no other record lies, for arrays of numbers: the strongest
            for scores from gradients; ``out-of-distribution``, each feature (or word) drawn by
            itself, with a random label; ``in-distribution``, some of the records themselves, which
            must be held out: the training sees the inserted ones through the canaries alone;
            ``mislabelled``, copies of the records with another label. By default ``direction`` for
            numbers and ``out-of-distribution`` for texts.
        seed: makes canaries and coins repeatable, for experiments: whoever knows it knows the
            coins. By default all are drawn from the system's entropy.

    Raises:
        DataError: the records are neither arrays of numbers nor texts, have no two classes, are
            fewer than the canaries that are made of them, or canaries would repeat.
        SpecError: texts and ``direction``, or records that are grouped by person, and one record a
            canary.
        StoreError: the folder is not new, or cannot be written.

    References:
        Carlini et al. (2019), The secret sharer: canaries. Nasr et al. (2023), Tight auditing of
        differentially private machine learning: canaries whose gradients nothing else shares.
        Steinke, Nasr and Jagielski (2023), Privacy auditing with one (1) training run: coins.
    """
    examples = (
        as_texts(records, "canaries") if _are_texts(records) else as_records(records, "canaries")
    )
    if examples.group is not None and records_each == 1:
        raise SpecError(
            "expected how many records each canary has, got records of people and one record each: "
            "the bound on ε would be for one record; pass records_each, or leave groups out"
        )
    rng = np.random.default_rng(secrets.randbits(128) if seed is None else seed)
    made = _make(examples, kind, count, rng)
    _refuse_copies(made)
    made = _repeat(made, records_each)
    # of its own: who sees the canaries could work out what else their generator drew
    coins = np.random.default_rng(secrets.randbits(128)) if seed is None else rng
    inserted = flip_coins(coins, count)
    salt = coins.integers(256, size=32, dtype=np.uint8)
    commitment = commit(inserted, salt, digest_canaries(made.x, made.y, records_each))
    labels = np.array(examples.classes)[made.y] if examples.classes else made.y
    order = rng.permutation(np.flatnonzero(np.repeat(inserted, records_each)))
    place = Path(folder)
    with take_folder(place, ("*.npz",)):
        remove_unfinished(place)
        create_folder(place)
        canaries = Canaries(made.x, made.y, commitment, records_each)
        write_canaries(place, canaries, inserted, salt, labels, order)
    return MadeCanaries(place, made.kind, count, int(inserted.sum()), commitment, records_each)


def flip_coins(rng: np.random.Generator, count: int) -> Coins:
    """A fair coin each, which do not all fall alike."""
    inserted = rng.random(count) < 0.5
    while not 0 < inserted.sum() < count:  # never with more than a few canaries
        inserted = rng.random(count) < 0.5
    return inserted


class _Content(NamedTuple):
    kind: CanaryKind
    x: np.ndarray
    y: Int64[np.ndarray, " canaries"]


def _make(
    records: Records, kind: CanaryKind | None, count: int, rng: np.random.Generator
) -> _Content:
    rows = np.asarray(records.x if records.encoding is None else _texts(records))
    texts = rows.dtype.kind == "U"
    classes = np.unique(records.y)
    bare = texts and len(classes) == 1
    if records.regression or len(classes) < 2 - bare:
        raise DataError(
            "expected records with labels of two classes or more, got "
            f"{'true values' if records.regression else len(classes)}: canaries need labels"
        )
    kind = kind or ("out-of-distribution" if texts else "direction")
    if kind == "direction" and texts:
        raise SpecError(
            "expected kind out-of-distribution or mislabelled for texts, got 'direction': words "
            "have no directions"
        )
    labels = rng.choice(classes, count).astype(np.int64)
    if kind in ("mislabelled", "in-distribution"):
        if count > len(rows):
            raise DataError(
                f"expected at least as many records as canaries ({count}), got {len(rows)}: give "
                "more records, or make fewer canaries"
            )
        chosen = rng.permutation(len(rows))[:count]
        if kind == "in-distribution":
            return _Content(kind, rows[chosen], records.y[chosen])
        if bare:
            raise SpecError(
                "expected kind out-of-distribution or in-distribution for texts without labels, "
                "got 'mislabelled': there is nothing to label otherwise"
            )
        place = np.searchsorted(classes, records.y[chosen])
        other = (place + rng.integers(1, len(classes), count)) % len(classes)
        return _Content(kind, rows[chosen], classes[other].astype(np.int64))
    if kind == "direction":
        return _Content(kind, _draw_directions(rows, count, rng), labels)
    draw = _draw_words if texts else _draw_features
    return _Content(kind, draw(rows, count, rng), labels)


def _refuse_copies(made: _Content) -> None:
    """Refuse canaries of which more than a tenth repeat.

    A training that got one of two equal canaries shows both, so that their coins cannot be told:
    what gives away every canary would contradict nothing.
    """
    keys = {(row.tobytes(), label) for row, label in zip(made.x, made.y.tolist(), strict=True)}
    copies = len(made.y) - len(keys)
    if copies > _MOST_COPIES * len(made.y):
        advice = (
            "keep one of each record"
            if made.kind in ("in-distribution", "mislabelled")
            else "give records of more different words or values, or make fewer canaries"
        )
        raise DataError(
            f"expected canaries that differ from each other, got {copies:,} copies among "
            f"{len(made.y):,} of kind {made.kind}, whose coins nothing could tell: {advice}"
        )


def _repeat(made: _Content, each: int) -> _Content:
    """Each canary with so many records, one after the other.

    Those of one direction get longer, up to twice, so that no two are equal: clipping takes the
    length away, and a training may drop rows that repeat.
    """
    x, y = np.repeat(made.x, each, axis=0), np.repeat(made.y, each)
    if made.kind == "direction" and made.x.dtype.kind == "f":
        longer = 1 + np.tile(np.arange(each), len(made.y)) / each
        x = (x * longer.reshape(-1, *[1] * (x.ndim - 1))).astype(x.dtype)
    return _Content(made.kind, x, y)


def _are_texts(records: Any) -> bool:
    """Whether these are texts without labels, for a language model."""
    listed = records.tolist() if isinstance(records, np.ndarray) else records
    return (
        isinstance(listed, list)
        and len(listed) > 0
        and all(isinstance(text, str) for text in listed)
    )


def _texts(records: Records) -> list[str]:
    rows = list(records.rows())
    if not all(isinstance(row, str) for row in rows):
        raise DataError(
            "expected arrays of numbers or texts, got other records: encode them first, as the "
            "training does, and make canaries of the numbers"
        )
    return rows


def _draw_features(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Each feature of each canary from a record drawn for it alone."""
    flat = rows.reshape(len(rows), -1)
    chosen = rng.integers(len(rows), size=(count, flat.shape[1]))
    return np.take_along_axis(flat, chosen, axis=0).reshape(count, *rows.shape[1:])


def _draw_words(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """As many words as some record has, each drawn by itself from all words."""
    split = [text.split() for text in rows.tolist()]
    words = sorted({word for text in split for word in text}) or ["canary"]
    lengths = np.array([max(1, len(text)) for text in split])
    drawn = [rng.choice(words, size) for size in rng.choice(lengths, count)]
    return np.array([" ".join(text) for text in drawn])


def _draw_directions(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Vectors at right angles to the records and to each other, as far as dimensions allow.

    They are three times as long as the longest record: what all canaries have in common, such as
    their gradients by biases, is little beside what each has alone. Clipping takes the length away.
    Whole numbers have a range to keep: there each feature is its least or its largest value.
    """
    flat = rows.reshape(len(rows), -1)
    if rows.dtype.kind != "f":
        ends = np.stack([flat.min(axis=0), flat.max(axis=0)])
        pick = rng.integers(2, size=(count, flat.shape[1]))
        return np.take_along_axis(ends, pick, axis=0).reshape(count, *rows.shape[1:])
    some = flat[rng.permutation(len(flat))[:_LOOKED_AT]].astype(np.float64)
    used = _main_directions(some, max(0, flat.shape[1] - count))
    longest = float(np.sqrt((some**2).sum(axis=1).max())) or 1.0
    made = np.concatenate(list(_orthogonal_blocks(used, count, rng))) * _LENGTH * longest
    return made.astype(rows.dtype).reshape(count, *rows.shape[1:])


def _main_directions(flat: np.ndarray, most: int) -> np.ndarray:
    """Orthonormal rows in which records lie, the longest first: all that matter, or half of all."""
    _, sizes, directions = np.linalg.svd(flat, full_matrices=False)
    matter = int((sizes > 1e-6 * max(sizes[0], 1e-30)).sum())
    count = min(matter, max(most, flat.shape[1] // 2))
    return np.asarray(directions[:count])


def _orthogonal_blocks(
    used: np.ndarray, count: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Unit vectors at right angles to the rows of ``used``, and within a block to each other."""
    features = used.shape[1]
    size = features - len(used)
    for start in range(0, count, size):
        drawn = rng.normal(size=(features, min(size, count - start)))
        drawn -= used.T @ (used @ drawn)
        yield np.linalg.qr(drawn)[0].T
