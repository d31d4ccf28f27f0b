"""Parts of a summary: what decides, classes and strata of the candidates, people's records."""

from collections.abc import Mapping
from dataclasses import dataclass

from divulge.core import Estimate


@dataclass(frozen=True, slots=True)
class DecidingRate:
    """How many members an attack recognises, or how many pairs it tells apart."""

    fpr: float | None
    """The false-positive rate; None where pairs were counted, each of a member and a non-member."""
    share: Estimate | None
    """Of the deciding attack; the interval holds for all attacks at once. None where no leak was
    found."""
    most: float
    """The upper limit; where no leak was found, the highest of all attacks."""


@dataclass(frozen=True, slots=True)
class Dots:
    """A picture of 100 dots, of which so many are marked."""

    least: int
    """By the lower limit."""
    measured: int
    most: int
    """By the upper limit."""
    each: int
    """How many a dot stands for."""
    text: str
    """The same in words."""
    known: str = "measured"
    """How ``measured`` is known."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What a person who decides has to know, without a term of statistics."""

    number: str
    """The number that decides, such as "18 of 100"; empty where nothing can be decided."""
    meaning: tuple[str, ...]
    """What was counted, or what cannot be decided; sentences."""
    concerned: str
    """How many people or records were tested."""
    attacker: str
    """What the attacker of the deciding attack has."""
    certainty: str
    """How sure the number is; empty without one."""
    decision: str
    """What to decide now."""
    dots: Dots | None
    """None where a picture would reassure, or there is nothing to count."""


@dataclass(frozen=True, slots=True)
class ClassRow:
    """How well the attack tells members of one class from its non-members.

    For a regression model, a fifth of the candidates by their true values stands for a class.
    """

    label: int
    name: str
    members: int
    nonmembers: int
    auc: Estimate | None
    """AUC within the class; None if the class is too small."""


@dataclass(frozen=True, slots=True)
class StratumRow:
    """How well the deciding attack tells members of one stratum from its non-members.

    Intervals hold for all strata at once.
    """

    name: str
    members: int
    nonmembers: int
    auc: Estimate | None
    """None if the stratum is too small to be judged."""
    tpr: Estimate | None
    """At ``Strata.fpr``; None if its non-members cannot support a lower limit."""


@dataclass(frozen=True, slots=True)
class Strata:
    """Exposure by stratum, without the names and sizes of small ones."""

    attack: str | None
    """Label of the deciding attack; None if no attack is done."""
    fpr: float | None
    """The deciding FPR; None with too few non-members for any."""
    rows: tuple[StratumRow, ...]
    """Strata by falling lower limit of the AUC. Merged ones are one row, without a name of theirs.
    """
    merged: int
    """How many strata are merged, or not shown at all."""
    smallest: int
    """The fewest members, and non-members, of a stratum that is shown."""
    fewest: int
    """The fewest members, and non-members, of a stratum that can be judged."""
    p_value: float | None
    """The chance of AUCs that differ so much if strata are equally exposed; None with fewer than
    two that can be judged."""
    worst: str | None
    """The stratum that lies furthest above all others, by standard errors; None likewise."""
    worst_p: float | None
    """The chance that any stratum lies so far above the others."""
    sentence: str
    """What this means."""


@dataclass(frozen=True, slots=True)
class UnitFigures:
    """Figures of the deciding attack by person and by record."""

    auc_by_person: Estimate
    auc_by_record: Estimate
    """Its interval takes people for what was drawn."""
    most: int
    """The largest number of records of one person."""
    epsilon_by_person: float | None
    """The lower bound on ε at δ = 0 for adding or removing all records of one person; None if it is
    0, or was not derived."""
    epsilon_by_record: float | None
    """The lower bound on ε for adding or removing one record that follows: so many times less."""


@dataclass(frozen=True, slots=True)
class AttackDifference:
    """What the deciding attack reaches beyond another one, on the same candidates."""

    attack: str
    """Label of the other attack."""
    metrics: Mapping[str, Estimate]
    """By metric, the difference; intervals hold for all pairs of attacks at once."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Scores of both groups in common bins; the outer bins hold all that lies beyond them."""

    edges: tuple[float, ...]
    members: tuple[float, ...]
    """Share of the members in each bin."""
    nonmembers: tuple[float, ...]
    fpr: float | None
    """The false-positive rate of ``threshold``."""
    threshold: float | None
    """The score above which records are accused at that rate."""


@dataclass(frozen=True, slots=True)
class ExposedList:
    """How many members can be listed as exposed at one false-discovery rate."""

    fdr: float
    """The false-discovery rate: the mean share of false discoveries on such lists, at most."""
    listed: int | None
    """Number of listed members; None if these sizes cannot support any list."""
    fewest: int | None
    """The fewest members that a list can hold at these sizes; None if it must be empty."""
    nonmembers: int
    """Number of non-members with which a list could hold a single member."""
    sentence: str
    """What this means."""


@dataclass(frozen=True, slots=True)
class ExposedGroup:
    """Listed members with the same number of non-members at or above them."""

    accused: int
    """Number of non-members with a score at least as high."""
    members: int
    p: float
    q: float
    """The lowest false-discovery rate at which they are listed."""
    positions: tuple[int, ...]
    """Positions among the members as they were given; the first few, highest scores first."""


@dataclass(frozen=True, slots=True)
class ExposedRecords:
    """Lists of exposed members, by an attack chosen before its scores were compared."""

    attack: str | None
    """Label of the attack; None if no attack is done."""
    reason: str
    """Why nothing was measured; empty if it was."""
    lists: tuple[ExposedList, ...]
    """Lists at rising false-discovery rates; each list holds the members of those before it."""
    groups: tuple[ExposedGroup, ...]
    """The first groups of the longest list, most exposed first."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """What the deciding attack shows in detail."""

    attack: str
    histogram: Histogram
    classes: tuple[ClassRow, ...]
    """Classes by falling lower limit of the AUC; classes that are too small come last."""
