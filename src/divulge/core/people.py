"""People with several records: what an audit by person keeps of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeopleFacts:
    """People and their records: the candidates of an audit by person."""

    members: int
    """The number of records of people whose records the model was trained on."""
    nonmembers: int
    """The number of records of the others."""
    most: int
    """The largest number of records of one person."""
    scores: tuple[str, ...]
    """How a person's score is made of those of its records, by names of `metrics.people.RULES`."""
