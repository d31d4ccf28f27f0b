"""Read genotypes of NIST's federated challenge and of soybean lines, or draw synthetic ones.

The challenge stores arrays as pickles, which are read here and never executed.
"""

import io
import lzma
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int, UInt8

from divulge._util.json import parse_json
from divulge.core import Records
from divulge.errors import DataError

LARGEST_FILE = 2**31
"""Largest size of a file in bytes, also when unpacked."""


def read_records(path: Path) -> Records:
    """Read records from a pickled array with the label in its last column.

    The pickle is not executed: whatever it names is refused but for the few words that stand for
    an array of numbers, and these are answered by classes of ours that only write them down.
    Protocols 3 and 4 are read, which are what Python 3 has written by default.

    Raises:
        DataError: the file is missing, too large, or holds anything but one array of numbers.
    """
    raw = read_limited(path)
    try:
        table = _as_array(_ArrayUnpickler(io.BytesIO(raw)).load())
    except DataError:
        raise
    except Exception as error:
        # a damaged pickle can raise anything
        raise DataError(
            f"expected one pickled array in {path}, got something else ({error}): refused"
        ) from error
    if table.ndim != 2 or table.shape[1] < 2:
        raise DataError(f"expected rows of features and a label in {path}, got {table.shape}")
    return Records(table[:, :-1].astype(np.float32), table[:, -1].astype(np.int64))


def _as_array(state: object) -> np.ndarray:
    if not isinstance(state, _ArrayState):
        raise DataError(f"expected one array, got a {type(state).__name__}: refused")
    return state.array()


class _ArrayState:
    """State of an array in a pickle."""

    def __init__(self, *_: Any) -> None:
        self._state: Any = None

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def array(self) -> np.ndarray:
        """Build the array from its plain bytes alone."""
        _, shape, dtype, fortran, raw = self._state
        if not isinstance(dtype, _DtypeState) or not isinstance(raw, bytes):
            raise DataError("expected an array of plain numbers, got one of objects: refused")
        kind = dtype.numpy()
        if [type(n) for n in shape] != [int] * len(shape) or min(shape, default=0) < 0:
            raise DataError(f"expected the shape of an array, got {shape!r}: refused")
        flat = np.frombuffer(raw, kind)
        return flat.reshape(shape, order="F" if fortran else "C")


class _DtypeState:
    """State of a data type in a pickle."""

    def __init__(self, name: Any, *_: Any) -> None:
        self._name = name
        self._order = "<"

    def __setstate__(self, state: Any) -> None:
        self._order = state[1]

    def numpy(self) -> np.dtype[Any]:
        """Convert to a NumPy type, if it is one of numbers."""
        known = {f"{kind}{size}" for kind in "fiu" for size in (1, 2, 4, 8)} - {"f1"} | {"b1"}
        if self._name not in known or self._order not in ("<", ">", "|", "="):
            raise DataError(f"expected a type of numbers, got {self._name!r}: refused")
        order = "=" if self._order == "|" else self._order
        kind: np.dtype[Any] = np.dtype(self._name).newbyteorder(order)
        return kind


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles the classes of an array, and no other."""

    def find_class(self, module: str, name: str, /) -> Any:
        words = {
            ("multiarray", "_reconstruct"): _ArrayState,
            ("numpy", "ndarray"): _ArrayState,
            ("numpy", "dtype"): _DtypeState,
        }
        package, _, last = module.rpartition(".")
        if (last, name) in words and package in ("", "numpy.core", "numpy._core"):
            return words[last, name]
        raise DataError(f"expected an array of numbers, got {module}.{name}: refused")

    def persistent_load(self, pid: Any, /) -> Any:
        raise DataError(f"expected an array of numbers, got a reference to {pid!r}: refused")


def read_limited(path: Path) -> bytes:
    """Read a file of at most `LARGEST_FILE` bytes.

    Raises:
        DataError: it is missing, or too large.
    """
    if not path.is_file():
        raise DataError(f"expected a file at {path}, there is none: check the folder")
    if path.stat().st_size > LARGEST_FILE:
        raise DataError(f"expected at most {LARGEST_FILE} bytes in {path}: refused")
    return path.read_bytes()


ARCHIVE_SHA256 = "7d5e059598e0efd9b0daf7463ae908951a06b1dd35ef0ddcd0ea49f3719b46bf"
"""SHA-256 of NIST_PPFL_problem1_202503.zip (453,528,302 bytes), from its publisher."""


CLIENTS = 4


Genotypes = UInt8[np.ndarray, "lines snps"]
"""Numbers of copies of one allele: 0, 1 or 2; 3 where it is not known."""


class TierRecords(NamedTuple):
    """Files of the challenge at one privacy tier, without the models."""

    candidates: Records
    relevant: tuple[Records, ...]
    external: tuple[Records, ...]
    known_relevant: Bool[np.ndarray, " relevant"]
    """Whether the last client trained on each of its relevant records."""
    known_candidates: Bool[np.ndarray, " candidates"]
    """Whether the last client trained on each candidate."""


def read_tier(folder: Path, tier: str) -> TierRecords:
    """Read the records of one tier of the unpacked archive.

    Args:
        folder: folder called ``problem1``.
        tier: privacy tier, ``cnn``, ``dpcnn200`` or ``dpcnn10``.

    Raises:
        DataError: a file is missing, too large, or holds anything but numbers.
    """
    kind = "cnn" if tier == "cnn" else "dpcnn"
    top = folder / "attack_targets" / tier

    def of_client(k: int, what: str) -> Path:
        return top / f"client_{k}" / f"{kind}_{k}_{what}"

    clients = range(1, CLIENTS + 1)
    candidates = read_records(top / f"{tier}_challenge_records.dat")
    relevant = tuple(read_records(of_client(k, "relevant_records.dat")) for k in clients)
    return TierRecords(
        candidates,
        relevant,
        tuple(read_records(of_client(k, "external_records.dat")) for k in clients),
        _read_members(of_client(CLIENTS, "relevant_members.json"), "relevant", len(relevant[-1])),
        _read_members(of_client(CLIENTS, "challenge_members.json"), "challenge", len(candidates)),
    )


def read_soynam(path: Path) -> tuple[Genotypes, Float32[np.ndarray, "lines traits"]]:
    """Read genotypes of 5,555 soybean lines at 4,240 places, and traits (NaN if not measured).

    Raises:
        DataError: the file is missing, too large, or holds something else.
    """
    arrays = _read_arrays(path, ("packed", "n_snps", "traits"))
    return _unpack_genotypes(arrays, path), arrays["traits"].astype(np.float32)


def read_soynam_families(path: Path) -> tuple[Genotypes, Int[np.ndarray, " lines"]]:
    """Read the genotypes of `read_soynam`, and the family of each line.

    Raises:
        DataError: the file is missing, too large, or holds something else.
    """
    arrays = _read_arrays(path, ("packed", "n_snps", "family"))
    return _unpack_genotypes(arrays, path), arrays["family"].astype(np.int64)


def read_synthetic(path: Path) -> tuple[Genotypes, Int[np.ndarray, " lines"]]:
    """Read SYNTHETIC genotypes of 775 lines at 43,568 places, 125,766 columns, and the classes.

    Raises:
        DataError: the file is missing, too large, or holds something else.
    """
    arrays = _read_arrays(path, ("packed", "n_snps", "y"))
    return _unpack_genotypes(arrays, path), arrays["y"].astype(np.int64)


def _unpack_genotypes(arrays: dict[str, np.ndarray], path: Path) -> Genotypes:
    packed, snps = arrays["packed"], int(arrays["n_snps"])
    if packed.dtype != np.uint8 or packed.ndim != 2 or not 0 < snps <= 4 * packed.shape[1]:
        raise DataError(f"expected four genotypes a byte in {path}, got {packed.shape}: refused")
    codes = (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    return codes.reshape(len(packed), -1)[:, :snps]


def one_hot(genotypes: Genotypes) -> Float32[np.ndarray, "lines columns"]:
    """Encode each genotype that occurs at a place as a column; an unknown one is all zeros."""
    columns = [genotypes == code for code in range(3)]
    stacked = np.stack(columns, axis=2).reshape(len(genotypes), -1)
    return stacked[:, stacked.any(axis=0)].astype(np.float32)


def classes_by_quantile(
    trait: Float32[np.ndarray, " lines"], shares: tuple[float, ...]
) -> Int[np.ndarray, " lines"]:
    """Cut a trait into classes of about these shares, from low to high."""
    edges = np.nanquantile(trait, np.cumsum(shares)[:-1])
    return np.searchsorted(edges, trait).astype(np.int64)


def make_synthetic(
    lines: int, snps: int, rng: np.random.Generator, *, groups: int = 3, block: int = 20
) -> tuple[Genotypes, Int[np.ndarray, " lines"]]:
    """Draw SYNTHETIC genotypes with linkage, and four classes that a few places decide.

    Inbred lines of several groups; within a block of neighbouring places every line carries one of
    six ancestral pieces, whose shares differ by group, so that neighbours are correlated. Classes
    have the shares of the challenge's seed coats: 22, 5, 67 and 6 %.
    """
    group = rng.integers(groups, size=lines)
    blocks = -(-snps // block)
    pieces = (rng.random((blocks, 6, block)) < rng.beta(0.8, 0.8, (blocks, 1, block))).astype(
        np.uint8
    )
    carried = np.empty((lines, blocks), np.int64)
    for b in range(blocks):
        shares = rng.dirichlet(np.full(6, 0.7), size=groups)
        edges = np.cumsum(shares, axis=1)[group]
        carried[:, b] = (rng.random(lines)[:, None] > edges[:, :-1]).sum(axis=1)
    genotypes = 2 * pieces[np.arange(blocks)[None, :], carried].reshape(lines, -1)[:, :snps]
    mixed = rng.random(genotypes.shape) < 0.009  # places where a line is not inbred
    genotypes[mixed] = 1
    causes = rng.choice(snps, size=min(12, snps), replace=False)
    value = genotypes[:, causes] @ rng.normal(size=len(causes)) + rng.normal(0, 0.7, lines)
    order = rng.permutation(4)
    cut = classes_by_quantile(
        value.astype(np.float32), tuple(np.array([0.22, 0.05, 0.67, 0.06])[order])
    )
    return genotypes, order[cut]


def _read_members(path: Path, what: str, count: int) -> Bool[np.ndarray, " count"]:
    try:
        rows = parse_json(read_limited(path))[f"{what} members"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"expected a list of members in {path}, got something else ({error}): refused"
        ) from error
    if not isinstance(rows, list) or not all(type(r) is int and 0 <= r < count for r in rows):
        raise DataError(
            f"expected a list of members in {path}, of row numbers from 0 to {count - 1}: refused"
        )
    member = np.zeros(count, bool)
    member[rows] = True
    return member


def _read_arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read arrays of an .npz file compressed by .xz."""
    try:
        unpacked = lzma.LZMADecompressor(memlimit=2**28).decompress(
            read_limited(path), LARGEST_FILE
        )
        with np.load(io.BytesIO(unpacked), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (lzma.LZMAError, ValueError, KeyError, OSError, EOFError) as error:
        raise DataError(
            f"expected arrays {', '.join(names)} in {path}, got something else ({error}): refused"
        ) from error
