"""Columns of members, non-members, reference and shadow pool are matched by name."""

from dataclasses import replace

from divulge.audits.subject import AuditInputs
from divulge.core import Check, Records, Verdict
from divulge.errors import DataError
from divulge.training.shadows.plan import ShadowPlan


def match_columns(subject: AuditInputs) -> tuple[AuditInputs, tuple[Check, ...]]:
    """All records with their columns in one order, and a check that says which ones were moved.

    That is the order in which the model was fitted, if it knows the names; else that of the first
    records that have names. Records without names are taken as they come.

    Raises:
        DataError: some columns have other names than the model or the first records.
    """
    sets = {
        "members": subject.members,
        "non-members": subject.nonmembers,
        "reference records": subject.reference,
    }
    like, columns = "the model", subject.fitted_on
    for name, records in sets.items():
        if records is not None and not columns:
            like, columns = f"the {name}", records.columns
    given = {name: records for name, records in sets.items() if records is not None}
    arranged = {name: records.arranged(columns, like) for name, records in given.items()}
    shadows, moved = subject.shadows, [name for name in given if arranged[name] is not given[name]]
    if shadows is not None and shadows.pool is not None:
        shadows = _with_pool(shadows, shadows.pool.arranged(columns, like))
        moved += ["records of the shadow pool"] * (shadows is not subject.shadows)
    matched = replace(
        subject,
        members=arranged["members"],
        nonmembers=arranged["non-members"],
        reference=arranged.get("reference records"),
        shadows=shadows,
    )
    if not moved:
        return matched, ()
    text = (
        f"The columns of the {' and the '.join(moved)} were in another order than those of {like}, "
        "and were put into that order by their names."
    )
    return matched, (Check("columns", Verdict.PASS, text),)


def _with_pool(plan: ShadowPlan, pool: Records) -> ShadowPlan:
    if pool is plan.pool:
        return plan
    if plan.pool_otherwise:
        raise DataError(
            "expected the columns of the shadow pool in the order of the candidates, got another "
            "order, in which it was augmented: put them in that order"
        )
    return replace(plan, pool=pool)
