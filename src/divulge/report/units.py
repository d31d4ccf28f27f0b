"""What a report speaks of: records, or people with all their records."""

from dataclasses import dataclass

from divulge.report import words
from divulge.report.schema import Summary


@dataclass(frozen=True, slots=True)
class Unit:
    """What was drawn, tested and counted, as sentences name it."""

    noun: str
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
        return f"{number:,} {self.noun if number == 1 else self.many}"

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
    noun="record",
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
    noun="person",
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


TEXT = Unit(
    noun="record",
    many="records",
    member="fine-tuning record",
    members="fine-tuning records",
    its_members="its fine-tuning records",
    right="the fine-tuning record",
    pair="the fine-tuning record of a pair",
    use="the use of a record in fine-tuning",
    them="a record reveals",
    leaked="its fine-tuning records",
    leaked_by_all="their fine-tuning records",
)


def describe_members(unit: Unit, members: int, nonmembers: int) -> str:
    """How many were compared, in words."""
    counted = f"{words.format_count(members, 'member')} and {nonmembers:,} non-members"
    return f"{counted}, each a person" if unit is PERSON else counted


def unit_of(summary: Summary) -> Unit:
    """What the candidates of an audit are."""
    return choose_unit(people=summary.sizes.people is not None, texts=summary.texts is not None)


def choose_unit(*, people: bool, texts: bool) -> Unit:
    """What the candidates of an audit are.

    Args:
        people: whether they are people with all their records.
        texts: whether records are texts of a language model.
    """
    return PERSON if people else TEXT if texts else RECORD
