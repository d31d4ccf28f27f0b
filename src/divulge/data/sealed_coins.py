"""The sealed coins of canaries, opened for one look."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from divulge._util import atomic
from divulge.data.canary_files import (
    CANDIDATES,
    OPENED,
    SEALED,
    TRAIN,
    Canaries,
    Coins,
    changed_error,
    commit,
    digest_training,
    read_file,
    read_text,
)
from divulge.errors import StoreError


@dataclass(frozen=True, slots=True)
class Opening:
    """What was looked at when the coins were opened."""

    opened: str
    """UTC, ISO 8601."""
    scores: tuple[str, ...]
    """SHA-256 digests of the scores, sorted."""
    noise: str
    """The supposition of the bound."""


class SealedCoins(NamedTuple):
    """What the auditor keeps."""

    inserted: Coins
    salt: np.ndarray
    candidates: str
    train: str


def open_coins(folder: Path, canaries: Canaries, scores: Sequence[str], noise: str) -> Coins:
    """The coins, for one look: other scores under the same coins are refused from then on.

    Args:
        folder: as `make_canaries` wrote it.
        canaries: as read from it.
        scores: digests of all scores that the verdict looks at.
        noise: the supposition of the bound.

    Raises:
        StoreError: a file is missing, damaged or changed; or the coins were opened before for
            other scores.
    """
    sealed = _read_sealed(folder / SEALED, canaries.count)
    train = read_file(folder / TRAIN, ("x", "y", "commitment"), more=True)
    for path, actual, expected in (
        (CANDIDATES, canaries.digest, sealed.candidates),
        (TRAIN, digest_training(train), sealed.train),
        (
            TRAIN,
            read_text(train["commitment"], folder / TRAIN),
            canaries.commitment,
        ),
        (
            SEALED,
            commit(sealed.inserted, sealed.salt, canaries.digest),
            canaries.commitment,
        ),
    ):
        if actual != expected:
            raise changed_error(
                folder / path, f"SHA-256 {expected[:16]}... expected, {actual[:16]}..."
            )
    _note_opening(folder / OPENED, tuple(sorted(scores)), noise)
    return sealed.inserted


def _note_opening(path: Path, scores: tuple[str, ...], noise: str) -> None:
    """Note what the coins are opened for, before they are used."""
    if path.exists() or path.is_symlink():
        before = atomic.from_json(atomic.read(path), Opening, path)
        if (before.scores, before.noise) != (scores, noise):
            raise StoreError(
                "expected sealed coins, or the same scores and noise as when they were opened at "
                f"{before.opened} (noise {before.noise!r}), got others: a second look is no "
                "test; make new canaries, and train again"
            )
        return
    now = datetime.now(UTC).isoformat(timespec="seconds")
    opening = Opening(now, scores, noise)
    atomic.write(path, atomic.to_json(opening, Opening).encode())


def _read_sealed(path: Path, canaries: int) -> SealedCoins:
    content = read_file(path, ("inserted", "salt", "candidates", "train"))
    inserted = content["inserted"]
    if inserted.dtype != bool or inserted.shape != (canaries,):
        raise changed_error(path, "not one coin a canary")
    digests = (read_text(content[name], path) for name in ("candidates", "train"))
    return SealedCoins(inserted, content["salt"], *digests)
