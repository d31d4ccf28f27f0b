"""Bring records, labels, shadow pool and model together: one container, one number a class."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from divulge.audits.columns import match_columns
from divulge.audits.subject import AuditInputs
from divulge.core import Check, Records, Verdict
from divulge.data.class_keys import class_key, own_numbers
from divulge.data.class_names import ClassMatch, describe_classes, match_classes, show
from divulge.data.encoding import share_encoding
from divulge.data.labels import find_labels, name_alike, number_records
from divulge.errors import DataError
from divulge.targets import model_facts
from divulge.targets.defended import DefendedTarget
from divulge.targets.encoded import decode_for
from divulge.targets.recorded import TableTarget
from divulge.targets.wider import WiderTarget


def match(subject: AuditInputs) -> tuple[AuditInputs, tuple[Check, ...]]:
    """The subject with a model that can be asked about all its records, and what was noticed.

    Columns are matched by name, labels by the model's classes, and the model is given the records
    as its user holds them.

    Raises:
        DataError: some records have other columns, other labels or another kind of container.
    """
    subject, noticed = match_columns(subject)
    subject = _with_sets(subject, share_encoding(_sets(subject)))
    subject, labels = _match_labels(subject)
    target = decode_for(subject.target, subject.members.encoding)
    if subject.defence is not None:
        target = DefendedTarget(target, subject.defence, subject.key)
    noticed += (*subject.noticed, *_describe_encoding(subject.members), *labels)
    return replace(subject, target=target), noticed


def _match_labels(subject: AuditInputs) -> tuple[AuditInputs, tuple[Check, ...]]:
    """The subject with numbers of classes as the model numbers them, and what the page says.

    Raises:
        DataError: a label is none of the model's classes, or a member's label is one that the model
            was not trained on.
    """
    sets = name_alike(_sets(subject))
    own, names = model_facts.class_labels(subject.target), subject.class_names
    matched = isinstance(subject.target, TableTarget) or subject.members.regression
    if matched or not (own or names or any(records.classes for records in sets)):
        return subject, ()
    if not own and not names:
        shown = ", ".join(repr(label) for label in subject.members.classes[:10])
        raise DataError(
            f"expected a model that says in which order its classes are, got labels such as "
            f"{shown} and a model without classes_: pass class_names, the labels in the order of "
            "the model's answers, or labels as numbers from 0"
        )
    numbers = own_numbers(own)
    columns = own if numbers is None else tuple(range(max(numbers, default=-1) + 1))
    match = match_classes(
        find_labels(sets),
        columns,
        names,
        numbered=model_facts.numbers_classes(subject.target),
        trained=find_labels(sets[:1]) if own else None,
    )
    trained = range(len(columns)) if numbers is None else numbers
    if own:
        _check_members(sets[0], match, trained, columns)
    sets = number_records(sets, match, _training_labels(match, columns or names, bool(own)))
    subject = _with_sets(subject, sets)
    if match.further:
        classes = len(columns) + match.further
        identity = subject.fingerprint and f"{subject.fingerprint} of {classes} classes"
        subject = replace(
            subject, target=WiderTarget(subject.target, classes), fingerprint=identity
        )
    subject = replace(subject, class_names=tuple(map(str, match.titles)))
    text = describe_classes(match, "the model's own order" if own else "class_names")
    known = match.names and (match.by_position or any(records.classes for records in sets))
    return subject, (Check("labels", Verdict.PASS, text),) if known else ()


def _check_members(
    members: Records, match: ClassMatch, trained: Collection[int], columns: Sequence[Any]
) -> None:
    """Refuse members of a class that the model never saw: they cannot be members.

    Raises:
        DataError: there is one.
    """
    known = set(trained)
    for label in find_labels([members]):
        if match.numbers[label] not in known:
            raise DataError(
                f"expected members of classes that the model was trained on, "
                f"{show(columns[k] for k in sorted(known))}, got {label!r}: label records as they "
                "were for its training, or leave those of other classes out"
            )


def _training_labels(match: ClassMatch, names: Sequence[Any], own: bool) -> tuple[Any, ...]:  # noqa: FBT001
    """What models of these records are trained with, by number of class; none for the numbers.

    Args:
        match: of the labels of all records.
        names: of the classes, in their order.
        own: whether the names are the model's own labels.
    """
    size = len(names) + match.further
    labels: dict[int, Any] = {number: label for label, number in match.numbers.items()}
    if own and not match.by_position:
        # A booster calls its classes 0 and 1, whatever its user called them when it was trained.
        labels |= {
            number: name
            for number, name in enumerate(names)
            if number not in labels or class_key(labels[number]) == class_key(name)
        }
    others = match.names or tuple(range(size))
    if match.by_position:
        left = iter(sorted(set(range(size)) - set(labels.values())))
        ordered = tuple(labels[k] if k in labels else next(left) for k in range(size))
    else:
        ordered = tuple(labels.get(k, others[k]) for k in range(size))
    return () if ordered == tuple(range(size)) and not match.further else ordered


def _describe_encoding(records: Records) -> tuple[Check, ...]:
    """What the page says of records that are not numbers."""
    if records.encoding is None or not records.encoding.text:
        return ()
    text = (
        "The model is given the records as they are. Checks and attacks that need numbers see "
        f"{records.encoding.text}."
    )
    return (Check("encoding", Verdict.PASS, text),)


def _sets(subject: AuditInputs) -> list[Records]:
    """Members, non-members, and where there are some: reference, pool, and the pool otherwise."""
    plan = subject.shadows
    pool = () if plan is None or plan.pool is None else (plan.pool, *plan.pool_otherwise)
    reference = () if subject.reference is None else (subject.reference,)
    return [subject.members, subject.nonmembers, *reference, *pool]


def _with_sets(subject: AuditInputs, sets: list[Records]) -> AuditInputs:
    members, nonmembers, *rest = sets
    reference = None if subject.reference is None else rest.pop(0)
    plan = subject.shadows
    if plan is not None and rest:
        plan = replace(plan, pool=rest[0], pool_otherwise=tuple(rest[1:]))
    return replace(
        subject, members=members, nonmembers=nonmembers, reference=reference, shadows=plan
    )
