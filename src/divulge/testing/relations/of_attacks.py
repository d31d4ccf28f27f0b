"""The relations, of one attack on membership: properties that are tried in small audits."""

from functools import cache
from typing import Any

import numpy as np

from divulge.audits.api import audit
from divulge.audits.options import Access, Options
from divulge.audits.result import Audit
from divulge.core import Need, Status
from divulge.testing.properties import Case, Property, require
from divulge.testing.relations import ways
from divulge.testing.relations.figures import changed_ranks
from divulge.testing.relations.subjects import (
    SAME,
    Subject,
    exchange,
    keep_share,
    memorised,
)

MADE_BY_PLACE = Need.SHADOWS | Need.CONDITIONAL_SHADOWS | Need.KNOWN_MEMBERS
"""What an audit draws by the places of records: others are drawn where the order is another."""

FORMS = {name: change for name, change in SAME.items() if name != "features"}
"""Without the order of features: attacks that train networks draw weights for one after another."""

MANY = 240
"""Members, and as many non-members, of the audit that is compared with one of a quarter."""


def keeps_its_figures_in_another_form(case: Case) -> None:
    """Gives the same figures for other orders of records and classes, other types and batches."""
    before = _audit_plain(case.attack)
    ways.require_same_figures(
        lambda subject: _audit(case.attack, subject), memorised(), before, FORMS, changed_ranks
    )


def turns_over_with_the_sets(case: Case) -> None:
    """Turns its AUC over where members and non-members are exchanged."""
    exchanged = _audit(case.attack, exchange(memorised()))
    ways.require_turned_figures(_audit_plain(case.attack), exchanged)


def narrows_with_more_records(case: Case) -> None:
    """Knows its AUC no less exactly from four times as many records."""
    many = memorised(0, MANY)
    ways.require_narrower_figures(
        _audit(case.attack, keep_share(many, 0.25)), _audit(case.attack, many)
    )


RELATIONS: tuple[Property, ...] = (
    keeps_its_figures_in_another_form,
    turns_over_with_the_sets,
    narrows_with_more_records,
)


def relations(attack: Any) -> tuple[Property, ...]:
    """Those that can be tried: none where no plain audit has what the attack needs."""
    if attack.needs & MADE_BY_PLACE:
        return ()
    (finding,) = _audit_plain(attack).findings
    return () if finding.status is Status.NOT_APPLICABLE else RELATIONS


@cache
def _audit_plain(attack: Any) -> Audit:
    return _run(attack, memorised())


def _audit(attack: Any, subject: Subject) -> Audit:
    """The audit of a subject, in which the attack came to its end.

    Raises:
        PropertyError: it did not.
    """
    result = _run(attack, subject)
    (finding,) = result.findings
    ended = f"in a small audit it ended as {finding.status.value}: {finding.reason}"
    require(finding.status is Status.DONE, ended)
    return result


def _run(attack: Any, subject: Subject) -> Audit:
    owned = memorised(1)  # of the same population; its classes stand in the subject's order
    x, y = owned.records(inside=False)
    reference = x, np.array([subject.names.index(owned.names[k]) for k in y])
    return audit(
        subject.answer,
        members=subject.records(inside=True),
        nonmembers=subject.records(inside=False),
        reference=reference if attack.needs & Need.REFERENCE else None,
        attacks=[attack],
        access=Access(batch_size=subject.batch_size),
        options=Options(membership="fixed", class_names=subject.names),
    )
