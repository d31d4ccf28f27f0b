"""Genotypes: the layout of NIST's federated challenge, soybean lines, and made-up ones."""

import io
import json
import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int, UInt8

from divulge.core import Records
from divulge.data.pickled import LARGEST, contents, records
from divulge.errors import DataError

ARCHIVE_SHA256 = "7d5e059598e0efd9b0daf7463ae908951a06b1dd35ef0ddcd0ea49f3719b46bf"
"""Of NIST_PPFL_problem1_202503.zip, 453,528,302 bytes, as its publisher's repository gives it."""

CLIENTS = 4

Genotypes = UInt8[np.ndarray, "lines snps"]
"""Copies of one allele: 0, 1 or 2; 3 where it is not known."""


class TierRecords(NamedTuple):
    """What the challenge hands out at one privacy tier, but for the models."""

    candidates: Records
    relevant: tuple[Records, ...]
    external: tuple[Records, ...]
    known_relevant: Bool[np.ndarray, " relevant"]
    """Which of the last client's relevant records it trained on."""
    known_candidates: Bool[np.ndarray, " candidates"]


def challenge(folder: Path, tier: str) -> TierRecords:
    """The records of one tier of the unpacked archive.

    Args:
        folder: the one called ``problem1``.
        tier: ``cnn``, ``dpcnn200`` or ``dpcnn10``.

    Raises:
        DataError: a file is missing, too large, or holds anything but numbers.
    """
    kind = "cnn" if tier == "cnn" else "dpcnn"
    top = folder / "attack_targets" / tier

    def of_client(k: int, what: str) -> Path:
        return top / f"client_{k}" / f"{kind}_{k}_{what}"

    clients = range(1, CLIENTS + 1)
    candidates = records(top / f"{tier}_challenge_records.dat")
    relevant = tuple(records(of_client(k, "relevant_records.dat")) for k in clients)
    return TierRecords(
        candidates,
        relevant,
        tuple(records(of_client(k, "external_records.dat")) for k in clients),
        _members(of_client(CLIENTS, "relevant_members.json"), "relevant", len(relevant[-1])),
        _members(of_client(CLIENTS, "challenge_members.json"), "challenge", len(candidates)),
    )


def soynam(path: Path) -> tuple[Genotypes, Float32[np.ndarray, "lines traits"]]:
    """Genotypes of 5,555 soybean lines at 4,240 places, and their traits (NaN if not measured).

    Raises:
        DataError: the file is missing, too large, or holds something else.
    """
    arrays = _arrays(path, ("packed", "n_snps", "traits"))
    snps = int(arrays["n_snps"])
    packed = arrays["packed"]
    if packed.dtype != np.uint8 or packed.ndim != 2 or not 0 < snps <= 4 * packed.shape[1]:
        raise DataError(f"expected four genotypes a byte in {path}, got {packed.shape}: refused")
    codes = (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    return codes.reshape(len(packed), -1)[:, :snps], arrays["traits"].astype(np.float32)


def one_hot(genotypes: Genotypes) -> Float32[np.ndarray, "lines columns"]:
    """A column for each genotype that occurs at a place; a place not known is all zeros."""
    columns = [genotypes == code for code in range(3)]
    stacked = np.stack(columns, axis=2).reshape(len(genotypes), -1)
    return stacked[:, stacked.any(axis=0)].astype(np.float32)


def by_quantile(
    trait: Float32[np.ndarray, " lines"], shares: tuple[float, ...]
) -> Int[np.ndarray, " lines"]:
    """Classes cut from a trait, of about these shares, from low to high."""
    edges = np.nanquantile(trait, np.cumsum(shares)[:-1])
    return np.searchsorted(edges, trait).astype(np.int64)


def synthetic(
    lines: int, snps: int, rng: np.random.Generator, *, groups: int = 3, block: int = 20
) -> tuple[Genotypes, Int[np.ndarray, " lines"]]:
    """SYNTHETIC genotypes with linkage, and four classes that a few places decide.

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
    cut = by_quantile(value.astype(np.float32), tuple(np.array([0.22, 0.05, 0.67, 0.06])[order]))
    return genotypes, order[cut]


def _members(path: Path, what: str, count: int) -> Bool[np.ndarray, " count"]:
    try:
        rows = json.loads(contents(path))[f"{what} members"]
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


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Arrays of an .npz in .xz."""
    try:
        unpacked = lzma.LZMADecompressor(memlimit=2**28).decompress(contents(path), LARGEST)
        with np.load(io.BytesIO(unpacked), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (lzma.LZMAError, ValueError, KeyError, OSError, EOFError) as error:
        raise DataError(
            f"expected arrays {', '.join(names)} in {path}, got something else ({error}): refused"
        ) from error
