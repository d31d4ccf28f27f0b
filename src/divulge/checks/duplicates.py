"""Exact copies of records: within members, non-members and reference records, and between them.

Where membership is not drawn yet, all of them are one pool, in which no record may stand twice.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from divulge.checks.row_numbers import number_contents
from divulge.core import Records
from divulge.errors import DataError

MOST = 0.5
"""The share of a set that may be copies of another set's records before an audit is refused."""

Positions = Int[np.ndarray, " kept"]


class Repeats(NamedTuple):
    """How often rows of members and of non-members repeat another row of their set."""

    members: int
    nonmembers: int
    effect: float
    """The design effect of both sets together; 1 where nothing repeats."""


class Copies(NamedTuple):
    """How many records have exact copies, and where."""

    members: int
    """Members that also stand among the non-members."""
    nonmembers: int
    """Non-members that also stand among the members."""
    reference_members: int
    """Reference records that also stand among the members."""
    reference_nonmembers: int
    """Reference records that also stand among the non-members, and not among the members."""
    repeats: tuple[int, int, int]
    """Members, non-members and reference records that repeat another one of their own set."""
    left: Repeats = Repeats(0, 0, 1.0)
    """Repeats among the candidates that are kept."""

    @property
    def between(self) -> int:
        """Records that are in more than one set."""
        return self.members + self.nonmembers + self.reference_members + self.reference_nonmembers

    @property
    def said(self) -> str:
        """How many records stood in two sets and were set aside, in sentences."""
        parts = []
        if self.nonmembers:
            parts.append(
                f"{self.members} members and {self.nonmembers} non-members are exact copies of "
                "each other and were set aside."
            )
        if known := self.reference_members + self.reference_nonmembers:
            parts.append(
                f"{known} reference records are exact copies of candidates "
                f"({self.reference_members} of members, {self.reference_nonmembers} of "
                "non-members) and were set aside."
            )
        members, nonmembers, reference = self.repeats
        return (
            f"{' '.join(parts) or 'No record is in two sets.'} Within their own set, {members} "
            f"members, {nonmembers} non-members and {reference} reference records repeat another "
            "one."
        )


@dataclass(frozen=True, slots=True)
class PoolCopies:
    """How many records of a pool and of its reference have exact copies in the pool."""

    records: int
    """The number of records in the pool as it was given."""
    repeated: int
    """The number of them that repeat an earlier one."""
    reference: int
    """Reference records as they were given."""
    known: int
    """The number of reference records that also stand in the pool."""
    repeats: int
    """Reference records that repeat another one of the reference."""

    @property
    def said(self) -> str:
        """How many records were set aside, in sentences."""
        parts = []
        if self.repeated:
            parts.append(
                f"Of the {self.records} records given, {self.repeated} repeat an earlier one, and "
                "were set aside before membership was drawn."
            )
        if self.known:
            parts.append(
                f"Of the {self.reference} reference records, {self.known} are exact copies of "
                "candidates, and were set aside."
            )
        parts = parts or ["No record stands twice among the candidates and the reference."]
        if self.repeats:
            parts.append(f"Within the reference, {self.repeats} repeat another one.")
        return " ".join(parts)


class DistinctSets(NamedTuple):
    """The records whose content stands in one set only, by their positions as given."""

    members: Positions
    nonmembers: Positions
    reference: Positions
    copies: Copies


class DistinctPool(NamedTuple):
    """A pool in which each content stands once, and a reference apart from it, by positions."""

    records: Positions
    reference: Positions
    copies: PoolCopies


def find_copies(members: Records, nonmembers: Records, reference: Records | None) -> DistinctSets:
    """Compare all features of all records exactly; labels are not looked at.

    A record that stands among the members and the non-members alike is kept on neither side. Were
    it taken out of the non-members alone, common records would be left among the members and
    missing among the non-members, and a model that leaks nothing would look as if it did.
    A reference record that is also a candidate is not kept, and the candidate stays.
    """
    sets = (members, nonmembers, *([] if reference is None else [reference]))
    inside, outside, *others = number_contents([records.x for records in sets])
    own = others[0] if others else np.zeros(0, np.int64)
    shared = np.intersect1d(inside, outside)
    both = [np.isin(codes, shared) for codes in (inside, outside)]
    of_member = np.isin(own, inside)
    of_nonmember = np.isin(own, outside) & ~of_member
    copies = Copies(
        int(both[0].sum()),
        int(both[1].sum()),
        int(of_member.sum()),
        int(of_nonmember.sum()),
        tuple(len(codes) - len(np.unique(codes)) for codes in (inside, outside, own)),  # type: ignore[arg-type]
        count_repeats(inside[~both[0]], outside[~both[1]]),
    )
    rows = [np.flatnonzero(~left) for left in (*both, of_member | of_nonmember)]
    return DistinctSets(rows[0], rows[1], rows[2], copies)


def find_copies_in_pool(records: Records, reference: Records | None) -> DistinctPool:
    """Compare all features of all records exactly; labels are not looked at.

    Of records with the same content the first is kept: nobody is a member yet, so that keeping
    one favours neither side. With a copy among the members and one among the non-members, it would
    not be defined whether a model was trained on the record. A reference record that also stands
    in the pool is not kept.
    """
    codes, *others = number_contents([each.x for each in (records, reference) if each is not None])
    own = others[0] if others else np.zeros(0, np.int64)
    first = np.sort(np.unique(codes, return_index=True)[1])
    known = np.isin(own, codes)
    repeats = len(own) - len(np.unique(own))
    copies = PoolCopies(len(codes), len(codes) - len(first), len(own), int(known.sum()), repeats)
    return DistinctPool(first, np.flatnonzero(~known), copies)


def include_copies(
    records: Records, chosen: Bool[np.ndarray, " records"]
) -> Bool[np.ndarray, " records"]:
    """True for the chosen records and for all that have the same features as one of them."""
    (codes,) = number_contents([records.x])
    return np.isin(codes, codes[chosen])


def check_pool(copies: PoolCopies) -> None:
    """Refuse a pool that is one record over and over, and a reference that is mostly the pool.

    Raises:
        DataError: all records are copies of one, or more than half of the reference records also
            stand in the pool.
    """
    if copies.repeated and copies.repeated == copies.records - 1:
        raise DataError(
            f"expected records that differ, got {copies.records} that are exact copies of one: "
            "check their features"
        )
    if copies.known > MOST * copies.reference:
        raise DataError(
            f"expected reference records apart from the candidates, got {copies.known} of "
            f"{copies.reference} that are exact copies of records, though the attacker knows that "
            "no model is trained on them: pass further records as reference, or none"
        )


def check_copies(copies: Copies, members: int, nonmembers: int, reference: int) -> None:
    """Refuse sets that are mostly one and the same.

    Args:
        copies: see `find_copies`.
        members: how many there are, copies included.
        nonmembers: likewise.
        reference: likewise.

    Raises:
        DataError: more than half of a set are copies of another set's records.
    """
    if copies.nonmembers > MOST * nonmembers or copies.members > MOST * members:
        raise DataError(
            f"expected non-members that were not trained on, got {copies.nonmembers} of "
            f"{nonmembers} that are exact copies of members, and {copies.members} of {members} "
            "members that are copies of them: pass records that the model never saw"
        )
    for count, group, reads in (
        (copies.reference_members, "members", "the attacker knows that they are not trained on"),
        (copies.reference_nonmembers, "non-members", "they tell the attacker who is no member"),
    ):
        if count > MOST * reference:
            raise DataError(
                f"expected reference records apart from the candidates, got {count} of {reference} "
                f"that are exact copies of {group}, though {reads}: pass further records that the "
                "model never saw as reference, or none"
            )


def count_repeats(
    members: Int[np.ndarray, " members"], nonmembers: Int[np.ndarray, " nonmembers"]
) -> Repeats:
    """Count rows with the code of another row of their set.

    The variance of an AUC is about a / m + b / n for m members and n non-members, with a = b where
    chance alone is at work; each part grows by the design effect of its set.

    Args:
        members: a number for each row; equal rows have the same.
        nonmembers: likewise.
    """
    counts = [np.unique(codes, return_counts=True)[1] for codes in (members, nonmembers)]
    sizes = [int(count.sum()) for count in counts]
    if not all(sizes):
        return Repeats(0, 0, 1.0)
    grown = sum(float((c**2).sum()) / size**2 for c, size in zip(counts, sizes, strict=True))
    inside, outside = (size - len(count) for count, size in zip(counts, sizes, strict=True))
    return Repeats(inside, outside, grown / sum(1 / size for size in sizes))
