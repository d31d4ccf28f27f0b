"""The files of canaries: all of them, those to train on, and the sealed coins.

    FOLDER/for-trainer/candidates.npz   all canaries, without a word on which are inserted
    FOLDER/for-trainer/train.npz        the inserted ones, in random order: append them to the data
    FOLDER/for-auditor/sealed.npz       the coins and a random salt
    FOLDER/for-auditor/opened.json      written when the coins are first used: for which scores

Canaries are records, people with several records, or clients of a federation. Of people the files
hold all records, and the trainer's says whose each is (group). For clients x holds secret keys of
directions, as text, and y in the trainer's file says whether a client sends its direction (1) or
the opposite (-1).

The trainer's files carry the SHA-256 digest of salt, coins and canaries (a commitment), and the
sealed one the digests of the trainer's. So neither side can be changed later without notice.
"""

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from divulge._util import arrays, atomic
from divulge.errors import DataError, StoreError

CANDIDATES = Path("for-trainer") / "candidates.npz"
TRAIN = Path("for-trainer") / "train.npz"
SEALED = Path("for-auditor") / "sealed.npz"
OPENED = Path("for-auditor") / "opened.json"

_STAGED = f"{atomic.UNFINISHED}canaries"
"""Where the files of a set are until all are there."""

_PARTS = (SEALED.parent, TRAIN.parent)

Coins = Bool[np.ndarray, " canaries"]

Neighbours = Literal["add-or-remove", "replace"]
"""What a coin decides about a canary client: whether it takes part, or which of two opposite
updates it sends."""

_KEY = re.compile(r"(add-or-remove|replace):[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Canaries:
    """All canaries of one training, without the coins."""

    x: Shaped[np.ndarray, "records *features"]
    """Numbers, or texts."""
    y: Int64[np.ndarray, " records"]
    """Numbers of their classes."""
    commitment: str
    """SHA-256 digest of salt, coins and canaries, as 64 hexadecimal digits."""
    records_each: int = 1
    """How many records, one after the other, are a canary."""

    @property
    def count(self) -> int:
        """How many canaries there are."""
        return len(self.y) // self.records_each

    @property
    def person(self) -> Int64[np.ndarray, " records"]:
        """The canary that each record is of."""
        return np.repeat(np.arange(self.count), self.records_each)

    @property
    def digest(self) -> str:
        """SHA-256 digest of the canaries."""
        return digest_canaries(self.x, self.y, self.records_each)

    @property
    def neighbours(self) -> Neighbours | None:
        """What a coin decides, for clients of a federation; None where canaries are records."""
        if self.x.dtype.kind != "U" or self.x.ndim != 1 or not len(self.x):
            return None
        matches = [_KEY.fullmatch(key) for key in self.x.tolist()]
        kinds = {match[1] for match in matches if match is not None}
        if None in matches or len(kinds) != 1:
            return None
        return next(kind for kind in get_args(Neighbours) if kind in kinds)

    @property
    def flipped(self) -> str:
        """What a coin flips, in words."""
        unit = "record" if self.records_each == 1 else f"person with {self.records_each} records"
        return {
            None: f"adding or removing one {unit}",
            "add-or-remove": "adding or removing one client",
            "replace": "replacing the update of one client",
        }[self.neighbours]


def sha256(*parts: np.ndarray) -> str:
    """One digest of arrays: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def digest_canaries(x: np.ndarray, y: np.ndarray, records_each: int) -> str:
    """SHA-256 digest of canaries with so many records each."""
    return sha256(x, y, *([] if records_each == 1 else [np.array([records_each])]))


def digest_training(train: Mapping[str, np.ndarray]) -> str:
    """SHA-256 digest of what is trained on: records, and of people whose each is."""
    return sha256(*(train[name] for name in ("x", "y", "group") if name in train))


def write_canaries(
    folder: Path,
    canaries: Canaries,
    inserted: Coins,
    salt: np.ndarray,
    labels: Shaped[np.ndarray, " records"],
    order: Int64[np.ndarray, " inserted"],
) -> None:
    """Write the three files into a new folder; who sees the trainer's sees a whole set.

    Args:
        folder: a folder that this process holds.
        canaries: all of them.
        inserted: the coins.
        salt: random bytes.
        labels: the user's own label of each record.
        order: the records of the inserted canaries, in the order of the trainer's file.

    Raises:
        StoreError: they cannot be written.
    """
    staged = folder / _STAGED
    with atomic.translate_os_errors(folder):
        for part in _PARTS:
            (staged / part).mkdir(mode=0o700, parents=True)
    commitment = np.array([canaries.commitment])
    train = {"x": canaries.x[order], "y": labels[order]}
    candidates = {"x": canaries.x, "y": canaries.y, "digest": np.array([canaries.digest])}
    if canaries.records_each > 1:
        train["group"] = canaries.person[order]
        candidates["records_each"] = np.array([canaries.records_each])
    sealed = {
        "inserted": inserted,
        "salt": salt,
        "candidates": np.array([canaries.digest]),
        "train": np.array([digest_training(train)]),
    }
    atomic.write_arrays(staged / SEALED, sealed)
    atomic.write_arrays(staged / CANDIDATES, candidates | {"commitment": commitment})
    atomic.write_arrays(staged / TRAIN, train | {"commitment": commitment})
    with atomic.translate_os_errors(folder):
        for part in _PARTS:
            (staged / part).rename(folder / part)
        staged.rmdir()


def remove_unfinished(folder: Path) -> None:
    """Remove what is left in a folder of a set whose making was killed.

    Args:
        folder: a folder that this process holds.

    Raises:
        StoreError: it cannot be removed.
    """
    staged = folder / _STAGED
    with atomic.translate_os_errors(folder):
        if not staged.is_dir() or staged.is_symlink():
            return
        if any(staged.iterdir()):  # else all was moved
            for part in _PARTS:
                if not (staged / part).exists() and (folder / part).is_dir():
                    shutil.rmtree(folder / part)
        shutil.rmtree(staged)


def commit(inserted: Coins, salt: np.ndarray, canaries: str) -> str:
    """The digest that binds the coins without showing them.

    Args:
        inserted: the coins.
        salt: random bytes.
        canaries: the digest of the canaries.
    """
    return sha256(salt, inserted, np.array([canaries]))


def read_candidates(folder: Path) -> Canaries:
    """All canaries of a folder that `make_canaries` wrote; the coins are not needed.

    Raises:
        StoreError: they are missing, damaged, or not those that were made.
    """
    path = folder / CANDIDATES
    content = read_file(path, ("x", "y", "digest", "commitment"), more=True)
    x, y = content["x"], content["y"]
    if y.dtype != np.int64 or y.ndim != 1 or len(x) != len(y):
        raise changed_error(path, "x and y do not go together")
    each = content.get("records_each", np.array([1]))
    if each.dtype.kind != "i" or each.shape != (1,) or each[0] < 1 or len(y) % each[0]:
        raise changed_error(path, "not as many records of each canary")
    canaries = Canaries(x, y, read_text(content["commitment"], path), int(each[0]))
    if canaries.digest != read_text(content["digest"], path):
        raise changed_error(path, "their digest is another")
    return canaries


def read_clients(folder: Path) -> Canaries:
    """All canary clients of a folder, without the coins.

    Raises:
        StoreError: they are missing, damaged, or not those that were made.
        DataError: the folder holds canaries of another kind.
    """
    canaries = read_candidates(folder)
    if canaries.neighbours is None:
        raise DataError(
            f"expected canary clients in {folder}, got records: make them with `divulge canary "
            "clients`"
        )
    return canaries


class TakingPart(NamedTuple):
    """The canary clients that take part in a federation."""

    position: Int64[np.ndarray, " clients"]
    """Of each among all canaries."""
    sign: Int64[np.ndarray, " clients"]
    """1 for one that sends its direction, -1 for one that sends the opposite."""


def read_taking_part(folder: Path, canaries: Canaries) -> TakingPart:
    """The canary clients that take part, in the order of the trainer's file.

    Raises:
        StoreError: the trainer's file is missing, damaged, or not about these canaries.
    """
    path = folder / TRAIN
    content = read_file(path, ("x", "y", "commitment"))
    place = {key: position for position, key in enumerate(canaries.x.tolist())}
    keys, signs = content["x"].tolist(), content["y"]
    if (
        read_text(content["commitment"], path) != canaries.commitment
        or not set(keys) <= place.keys()
        or not len(keys) == len(set(keys)) == len(signs)
        or signs.dtype != np.int64
        or not np.isin(signs, (-1, 1)).all()
    ):
        raise changed_error(path, "not of these canaries")
    return TakingPart(np.array([place[key] for key in keys], np.int64), signs)


def read_file(path: Path, names: Sequence[str], *, more: bool = False) -> dict[str, np.ndarray]:
    """The arrays of one file of a set.

    Args:
        path: the file.
        names: of the arrays that it must have.
        more: whether to read all others, too.

    Raises:
        StoreError: it is missing or damaged.
    """
    try:
        stored = arrays.read_npz(path, None if more else names, error=StoreError, links=False)
    except arrays.DamagedArrays as error:
        raise changed_error(path, str(error)) from error
    if missing := [name for name in names if name not in stored]:
        raise changed_error(path, f"no array {missing[0]!r}")
    return stored


def read_text(array: np.ndarray, path: Path) -> str:
    """The one text in an array, such as a digest.

    Raises:
        StoreError: the array holds something else.
    """
    if array.dtype.kind != "U" or array.shape != (1,):
        raise changed_error(path, "a digest is no text")
    return str(array[0])


def changed_error(path: Path, why: str) -> StoreError:
    """The complaint about a file that is not as it was made."""
    return StoreError(
        f"expected {path} as `divulge canary make` wrote it, got something else ({why}): restore "
        "the file, or make new canaries and train again"
    )
