"""Members that the attacker knows: drawn by the audit, given to attacks, and never scored."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from divulge._util.random import stream
from divulge.audits.subject import AuditInputs
from divulge.checks.duplicates import include_copies
from divulge.core import Records
from divulge.errors import SpecError


def set_known_members_aside(
    subject: AuditInputs, seed: int
) -> tuple[AuditInputs, Records | None, Bool[np.ndarray, " members"]]:
    """The subject without the members that the attacker knows, these, and where they stood.

    So many members are drawn at random, without replacement; where records are grouped by person,
    so many people, with all their records. Whoever knows a record knows its
    copies, so members with the same features as one that was drawn are known as well.

    Given that some members are known, the others were drawn in a fixed number, even where a coin
    decided for each record.

    Args:
        subject: the model and the records.
        seed: of the audit.

    Raises:
        SpecError: as many members should be known as there are, or none, or no whole number of
            them; or the attacker knows only some features.
    """
    members, wanted = subject.members, subject.known_members
    if wanted is None:
        return subject, None, np.zeros(len(members), np.bool_)
    if subject.known is not None:
        raise SpecError(
            "expected no known_members beside known features, got both: an attacker who knows only "
            "parts of the candidates is not given whole members"
        )
    if wanted >= 1 and wanted != round(wanted):
        raise SpecError(
            "expected known_members below 1, a share of the members, or a whole number of them, "
            f"got {wanted:g}: correct it"
        )
    person = np.arange(len(members)) if members.people is None else members.people
    total = int(person.max()) + 1
    count = round(wanted * total) if wanted < 1 else round(wanted)
    drawn = stream(seed, "known members").permutation(total) < count
    known = include_copies(members, drawn[person])
    known = np.isin(person, person[known])  # whoever knows a record of a person knows the person
    if known.all() or not known.any():
        raise SpecError(
            f"expected known_members to leave some of {total} members to score, and to know "
            f"one or more, got {wanted:g}: of these {len(np.unique(person[known]))} are known"
        )
    left = replace(
        subject,
        members=members.take(~known),
        ids=None if subject.ids is None else subject.ids[~known],
        drawn="fixed",
    )
    return left, members.take(known), known
