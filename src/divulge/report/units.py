"""What a report speaks of: records, or people with all their records."""

from dataclasses import dataclass

from divulge.report import words
from divulge.report.schema import Summary


@dataclass(frozen=True, slots=True)
class Unit:
    """What was drawn, tested and counted, as sentences name it."""

    one: str
    many: str
    member: str
    """One that the model was trained on."""
    members: str
    its_members: str
    """All that one model was trained on."""
    right: str
    """The member of a pair, once both were named."""
    pair: str
    """The member of a pair that was not named before."""
    use: str
    """What a leak shows to have happened."""
    them: str
    """What may reveal more than that."""
    leaked: str
    """What one model leaks."""
    leaked_by_all: str
    """What several models leak."""

    def count(self, number: int) -> str:
        """The number with the noun."""
        return f"{number:,} {self.one if number == 1 else self.many}"

    def count_members(self, number: int) -> str:
        """The number with the noun of members."""
        return f"{number:,} {self.member if number == 1 else self.members}"

    def count_on_top(self, members: float) -> str:
        """So many of those that an attack ranks highest are members, as a clause."""
        verb = "was" if members == 1 else "were"
        if self is PERSON:
            return f"the records of {members:.3g} {verb} used in training"
        be = "is a" if members == 1 else "are"
        return f"{members:.3g} {be} {self.member if members == 1 else self.members}"


RECORD = Unit(
    one="record",
    many="records",
    member="training record",
    members="training records",
    its_members="its training records",
    right="the training record",
    pair="the training record of a pair",
    use="the use of a record in training",
    them="a record reveals",
    leaked="its training records",
    leaked_by_all="their training records",
)

PERSON = Unit(
    one="person",
    many="people",
    member="person whose records were used",
    members="people whose records were used",
    its_members="the people whose records were used",
    right="the right one",
    pair="the right one of two people",
    use="the use of a person's records in training",
    them="these reveal",
    leaked="whose records it was trained on",
    leaked_by_all="whose records they were trained on",
)


def describe_members(unit: Unit, members: int, nonmembers: int) -> str:
    """How many were compared, in words."""
    counted = f"{words.format_count(members, 'member')} and {nonmembers:,} non-members"
    return counted if unit is RECORD else f"{counted}, each a person"


def unit_of(summary: Summary) -> Unit:
    """What the candidates of an audit are."""
    return RECORD if summary.sizes.people is None else PERSON
