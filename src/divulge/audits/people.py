"""Audits of people: whose records may stand where, and what the run keeps of each person.

People are drawn, not records: all records of a person were used in training, or none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from divulge.audits.subject import AuditInputs
from divulge.core import Candidates, Check, Claim, Guarantee, Records, Verdict
from divulge.core.people import PeopleFacts
from divulge.errors import DataError
from divulge.metrics import people

FEWEST = 2
"""People of a set below which nothing can be compared."""


def check_groups(subject: AuditInputs) -> None:
    """Refuse sets that do not say whose their records are, and people who stand in two of them.

    Raises:
        DataError: names the sets, and how many people.
    """
    sets = _sets(subject)
    without = [name for name, records in sets.items() if records.group is None]
    if len(without) == len(sets):
        return
    if without:
        raise DataError(
            f"expected groups for every set, got none for {' and '.join(without)}: say for each of "
            "them whose record each is"
        )
    _check_people(sets, ("members", "nonmembers"))


def check_pool_groups(records: Records, reference: Records | None) -> None:
    """The same for a pool of which each of several models is trained on a random half.

    Raises:
        DataError: one of the two alone says whose its records are, there are too few people, or
            some stand in both.
    """
    sets = {"records": records} | ({} if reference is None else {"reference": reference})
    without = [name for name, each in sets.items() if each.group is None]
    if len(without) == len(sets):
        return
    if without:
        raise DataError(
            f"expected groups for records and reference, got none for {without[0]}: say for both "
            "whose record each is"
        )
    _check_people(sets, ("records",))


def _check_people(sets: Mapping[str, Records], compared: Sequence[str]) -> None:
    """Refuse too few people, and people who stand in two sets."""
    own = {
        name: np.unique(records.group)
        for name, records in sets.items()
        if records.group is not None
    }
    for name in compared:
        if len(own[name]) < FEWEST:
            raise DataError(
                f"expected records of at least {FEWEST} people in {name}, got those of "
                f"{len(own[name])}: name the column that says whose record each is, or leave "
                "groups out"
            )
    names = list(own)
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            if shared := len(np.intersect1d(own[name], own[other], assume_unique=True)):
                raise DataError(
                    f"expected each person in one set, got {shared} of {len(own[name])} people of "
                    f"{name} among {other} as well: draw whole people, with all their records"
                )


def _sets(subject: AuditInputs) -> Mapping[str, Records]:
    plan = subject.shadows
    sets = {
        "members": subject.members,
        "nonmembers": subject.nonmembers,
        "reference": subject.reference,
        "the pool of shadow models": None if plan is None else plan.pool,
    }
    return {name: records for name, records in sets.items() if records is not None}


def keep_one_a_person(records: Candidates, person: Int[np.ndarray, " records"]) -> Candidates:
    """The candidates as people.

    The position and the id are those of a person's first record, as the user gave them. The class
    is the one that most of its records have, and the ease their mean.

    Args:
        records: the candidates as records.
        person: whose record each is.
    """
    first = np.lexsort((records.index, person))
    first = first[np.unique(person[first], return_index=True)[1]]
    ease = records.ease
    return Candidates(
        member=records.member[first],
        label=people.most_frequent(records.label, person),
        index=records.index[first],
        ids=None if records.ids is None else records.ids[first],
        ease=None
        if ease is None
        else np.stack([people.combine(each, person, "mean") for each in ease]),
        person=person,
        subpopulation=None
        if records.subpopulation is None
        else people.most_frequent(records.subpopulation, person),
    )


def describe_people(candidates: Candidates, scores: tuple[people.Rule, ...]) -> PeopleFacts | None:
    """The facts of people and their records; None where candidates are records."""
    if candidates.person is None:
        return None
    sizes = np.bincount(candidates.person)
    inside = int(sizes[candidates.member].sum())
    return PeopleFacts(inside, int(sizes.sum()) - inside, int(sizes.max()), scores)


def guarantee_for_people(promised: Guarantee, most: int) -> Guarantee | None:
    """What a guarantee for one record promises a person with so many; itself if it is for people.

    Returns:
        None where it promises nothing: δ reaches 1.

    References:
        Dwork and Roth (2014), The algorithmic foundations of differential privacy, theorem 2.2;
        Vadhan (2017), The complexity of differential privacy, lemma 2.2, for δ above 0.
    """
    if promised.unit == "person" or most == 1:
        return promised
    return promised.for_group(most)


def claim_for_people(
    claim: Claim | None, person: Int[np.ndarray, " records"] | None
) -> tuple[Claim | None, tuple[Check, ...]]:
    """A claim for one record turned into one for people with as many records as any has.

    Args:
        claim: as it is made.
        person: whose record each candidate is; None leaves the claim as it is.

    Returns:
        The claim, None where it promises nothing; and what is to be said of that.
    """
    if claim is None or person is None:
        return claim, ()
    most = int(np.bincount(person).max())
    promised = guarantee_for_people(claim.guarantee, most)
    if promised is not None:
        return replace(claim, guarantee=promised), ()
    text = (
        f"The guarantee of ε = {claim.guarantee.epsilon:g} at δ = {claim.guarantee.delta:g} for "
        f"one record promises nothing to a person with {most} records: δ grows beyond 1. It was "
        "not tested."
    )
    return None, (Check("claim by person", Verdict.WARNING, text),)
