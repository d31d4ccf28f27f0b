"""Which records are candidates, and in which order: copies and known members are set aside."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from divulge._util.random import stream
from divulge.audits.challenges import asking
from divulge.audits.known_members import set_known_members_aside
from divulge.audits.matching import match
from divulge.audits.people import check_groups
from divulge.audits.subject import AuditInputs
from divulge.checks import duplicates
from divulge.checks.duplicates import Copies, DistinctSets
from divulge.core import Check, Records


class DrawnCandidates(NamedTuple):
    """The candidates in a drawn order, and the sets of records that are left."""

    subject: AuditInputs
    """Without copies, and without members that the attacker knows."""
    candidates: Records
    member: Bool[np.ndarray, " candidates"]
    positions: Int[np.ndarray, " candidates"]
    """Of each candidate in the set that its user gave."""
    order: Int[np.ndarray, " candidates"]
    known_members: Records | None
    copies: Copies
    noticed: tuple[Check, ...]

    @property
    def sets(self) -> tuple[Records, ...]:
        """All records that the model is asked about: the candidates first."""
        others = (self.subject.reference, self.known_members)
        return (self.candidates, *(records for records in others if records is not None))


def draw_candidates(subject: AuditInputs, seed: int) -> DrawnCandidates:
    """Match the sets of records, set aside what is no candidate, and shuffle the rest."""
    subject, noticed = match(subject)
    check_groups(subject.sets, ("members", "nonmembers"))
    subject, distinct = set_copies_aside(subject)
    subject, known_members, known = set_known_members_aside(subject, seed)
    total = len(subject.members) + len(subject.nonmembers)
    order = stream(seed, "order of candidates").permutation(total)
    candidates = subject.members.joined(subject.nonmembers).take(order)
    if subject.known is not None:
        subject, filling = asking.settle_fill(subject, candidates, seed)
        noticed += (filling,)
    return DrawnCandidates(
        subject=subject,
        candidates=candidates,
        member=order < len(subject.members),
        positions=np.concatenate([distinct.members[~known], distinct.nonmembers])[order],
        order=order,
        known_members=known_members,
        copies=distinct.copies,
        noticed=noticed,
    )


def set_copies_aside(subject: AuditInputs) -> tuple[AuditInputs, DistinctSets]:
    """The subject without the records that are in two sets.

    Raises:
        DataError: two sets are mostly the same, or have other features.
    """
    members, nonmembers, reference = subject.members, subject.nonmembers, subject.reference
    for other in (nonmembers, *([] if reference is None else [reference])):
        members.joined(other)  # refuses other shapes
    distinct = duplicates.find_copies(members, nonmembers, reference)
    counts = len(members), len(nonmembers), 0 if reference is None else len(reference)
    duplicates.check_copies(distinct.copies, *counts)
    if not distinct.copies.between:
        return subject, distinct
    left = replace(
        subject,
        members=members.take(distinct.members),
        nonmembers=nonmembers.take(distinct.nonmembers),
        reference=None if reference is None else reference.take(distinct.reference),
        ids=None if subject.ids is None else subject.ids[distinct.members],
    )
    return left, distinct
