"""Audits of people: whose records may stand where, and what the run keeps of each person.

People are drawn, not records: all records of a person were used in training, or none.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from divulge.core import Candidates, Check, Claim, Guarantee, Records, Verdict
from divulge.core.people import PeopleFacts
from divulge.errors import DataError
from divulge.metrics import people

FEWEST = 2
"""People of a set below which nothing can be compared."""


def check_groups(sets: Mapping[str, Records | None], compared: Sequence[str]) -> None:
    """Refuse sets that do not say whose their records are, and people who stand in two of them.

    Args:
        sets: by name; None where there is no such set.
        compared: names of the sets that need several people.

    Raises:
        DataError: names the sets, and how many people.
    """
    own = {
        name: None if records.group is None else np.unique(records.group)
        for name, records in sets.items()
        if records is not None
    }
    people_of = {name: people for name, people in own.items() if people is not None}
    if not people_of:
        return
    if without := [name for name in own if name not in people_of]:
        raise DataError(
            f"expected groups for {' and '.join(own)}, got none for {' and '.join(without)}: say "
            "of each set whose record each is"
        )
    for name in compared:
        if len(people_of[name]) < FEWEST:
            raise DataError(
                f"expected records of at least {FEWEST} people in {name}, got those of "
                f"{len(people_of[name])}: name the column that says whose record each is, or leave "
                "groups out"
            )
    for name, other in itertools.combinations(people_of, 2):
        if shared := len(np.intersect1d(people_of[name], people_of[other], assume_unique=True)):
            raise DataError(
                f"expected each person in one set, got {shared} of {len(people_of[name])} people "
                f"of {name} among {other} as well: draw whole people, with all their records"
            )


def count_most_records(*sets: Records) -> int | None:
    """The largest number of records of one person; None where records are not grouped."""
    sizes = [np.bincount(each.people).max() for each in sets if each.people is not None]
    return int(max(sizes)) if sizes else None


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


def describe_people(
    candidates: Candidates, most: int | None, scores: tuple[people.Rule, ...]
) -> PeopleFacts | None:
    """The facts of people and their records; None where candidates are records.

    Args:
        candidates: people.
        most: the largest number of records that one of them was given with: a copy that is left out
            of the candidates may have been used in training all the same.
        scores: how their scores are made.
    """
    if candidates.person is None or most is None:
        return None
    sizes = np.bincount(candidates.person)
    inside = int(sizes[candidates.member].sum())
    return PeopleFacts(inside, int(sizes.sum()) - inside, most, scores)


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
    claim: Claim | None, most: int | None
) -> tuple[Claim | None, tuple[Check, ...]]:
    """A claim for one record turned into one for people with as many records as any has.

    Args:
        claim: as it is made.
        most: the largest number of records of one person; None leaves the claim as it is.

    Returns:
        The claim, None where it promises nothing; and what is to be said of that.
    """
    if claim is None or most is None:
        return claim, ()
    promised = guarantee_for_people(claim.guarantee, most)
    if promised is not None:
        return replace(claim, guarantee=promised), ()
    text = (
        f"The guarantee of ε = {claim.guarantee.epsilon:g} at δ = {claim.guarantee.delta:g} for "
        f"one record promises nothing to a person with {most} records: δ grows beyond 1. It was "
        "not tested."
    )
    return None, (Check("claim by person", Verdict.WARNING, text),)
