"""People with several records, and subpopulations: what an audit keeps of them."""

from dataclasses import dataclass

SMALLEST_STRATUM = 10
"""The fewest members, and non-members, of a subpopulation that is shown, unless it is set."""


@dataclass(frozen=True, slots=True)
class PeopleFacts:
    """People and their records: the candidates of an audit by person."""

    members: int
    """The number of records of people whose records the model was trained on."""
    nonmembers: int
    """The number of records of the others."""
    most: int
    """The largest number of records that one person was given with."""
    scores: tuple[str, ...]
    """How a person's score is made of those of its records, as `metrics.people.Rule` names it."""


@dataclass(frozen=True, slots=True)
class StrataFacts:
    """The subpopulations that exposure is compared by, without the names of small ones."""

    names: tuple[str, ...]
    """Those that are large enough to be shown, by the numbers that candidates have. Candidates of
    all others have the number after the last of these."""
    merged: int
    """How many others there are."""
    smallest: int
    """The fewest members, and non-members, of a subpopulation that is shown."""
