"""A run folder as plain data: its head, the candidates, and an entry for each attack."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Generic, Literal, TypeVar

import numpy as np
import pydantic
from jaxtyping import Bool, Float64, Int, Shaped

from divulge._util.json import JSON
from divulge.core import findings
from divulge.core.attacks import NOBODY, Assignment, Interactions, MembershipDraw, Proportions
from divulge.core.findings import BlindRun, Check, Control, ControlOutcome, Finding, Status
from divulge.core.people import PeopleFacts, StrataFacts
from divulge.core.training import Claim
from divulge.core.views import Collusion

SCHEMA = 7
"""The version of ``run.json``, whatever its kind."""
BEFORE_NAMING = "0.1.0"
"""The one version that wrote files without the key ``divulge``, by another name (docs/adr/0009)."""
Key = Annotated[str, pydantic.Field(pattern=r"^\w[\w-]*$")]  # the name of a finding's files
ShadowKind = Literal["none", "online", "offline"]
"""Whether there were shadow models, and whether they were trained on candidates."""


@dataclass(frozen=True, slots=True)
class MembershipFacts:
    """What an audit of one model is about; its truth is in the candidates."""

    delta: float
    """δ of the bound on ε."""
    members: int
    """The number of candidates that the model was trained on."""
    nonmembers: int
    """The number of others."""
    reference: int
    """The number of records that the attacker owns."""
    classes: int
    """The number of classes; 0 for regression, 1 where none is known, as of losses or scores."""
    class_names: tuple[str, ...]
    """Empty, or one name a class; for regression the names of the fifths of true values."""
    checks: tuple[Check, ...]
    """What was asked about the records before any attack ran."""
    shadows: ShadowKind
    claim: Claim | None = None
    """The guarantee that the measured ε is held against."""
    drawn: MembershipDraw = "fixed"
    """How it was decided who is a member."""
    known_members: int = 0
    """The number of members that the attacker knows, which are no candidates."""
    model: str = ""
    """What kind of model it is, in a few words; empty in runs made before this was kept."""
    model_kind: str = ""
    """What it is, as far as advice depends on it; empty where nobody knows."""
    randomised: bool = False
    """Whether members were drawn at random from all candidates, as somebody said or divulge did."""
    people: PeopleFacts | None = None
    """Their records, where candidates are people, whom ``members`` and ``nonmembers`` count."""
    strata: StrataFacts | None = None
    """The subpopulations that exposure is compared by; None where it is not compared."""
    texts: findings.TextFacts | None = None
    """What was measured of a language model's texts besides; None of other models."""
    kind: Literal["membership"] = "membership"


_TOO_LARGE = 2**63  # what no class reaches: it would not fit an integer of an array


@dataclass(frozen=True, slots=True)
class AssignmentFacts:
    """Clients of a federation and candidates, and who trained on which where that is known.

    Raises:
        ValueError: positions, classes or owners do not fit the candidates and the clients.
    """

    clients: tuple[str, ...]
    colluder: int | None
    """The position of the client that attacks, from 0; None where the server attacks alone."""
    candidates: int
    labels: tuple[int, ...]
    """The class of each candidate."""
    known: tuple[int, ...]
    """Positions of the candidates that the colluding client trained on."""
    owners: tuple[int, ...] | None
    """The client of each candidate, -1 for nobody; None if nobody said."""
    rounds: int | None = None
    """The number of rounds that the server recorded; None if only models' answers are known."""
    notes: tuple[str, ...] = ()
    """What was left out of the audit, in sentences."""
    kind: Literal["assignment"] = "assignment"

    def __post_init__(self) -> None:
        lengths = [len(self.labels), *([] if self.owners is None else [len(self.owners)])]
        if set(lengths) != {self.candidates}:
            raise ValueError(f"expected {self.candidates} classes and owners, got {lengths}")
        if not all(0 <= label < _TOO_LARGE for label in self.labels):
            raise ValueError(f"expected classes from 0 and below {_TOO_LARGE}")
        if not {*self.known} <= {*range(self.candidates)}:
            raise ValueError(f"expected positions of {self.candidates} candidates as known")
        clients = range(len(self.clients))
        strange = self.colluder is not None and self.colluder not in clients
        if strange or not {*(self.owners or ())} <= {NOBODY, *clients}:
            raise ValueError(f"expected a colluder and owners among {len(clients)} clients")

    @property
    def truth(self) -> Assignment | None:
        """The client of each candidate, where it is known."""
        return None if self.owners is None else Assignment(np.array(self.owners, np.int64))

    @property
    def collusion(self) -> Collusion:
        """What the colluding client knows of the candidates."""
        known = np.zeros(self.candidates, bool)
        known[list(self.known)] = True
        return Collusion(self.colluder, np.zeros(0, bool), known)


@dataclass(frozen=True, slots=True)
class CompositionFacts:
    """Clients of a federation, their classes, and what each holds where that is known.

    Raises:
        ValueError: numbers of records do not fit the clients and the classes.
    """

    federation: str
    """The name of the federation."""
    clients: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...] | None
    """The number of records of each class, by client; None if nobody said."""
    class_names: tuple[str, ...]
    """Empty, or one name a class."""
    notes: tuple[str, ...] = ()
    """What was left out of the audit, in sentences."""
    sums: tuple[int, ...] = ()
    """Of each round that showed the server a sum alone, how many clients it sums up."""
    kind: Literal["composition"] = "composition"

    def __post_init__(self) -> None:
        if self.counts is None:
            return
        widths = {len(row) for row in self.counts}
        classes = len(self.class_names) or max(widths, default=0)
        if len(self.counts) != len(self.clients) or widths != {classes}:
            raise ValueError(
                f"expected records of {classes} classes for {len(self.clients)} clients"
            )
        if not all(0 <= count < _TOO_LARGE for row in self.counts for count in row):
            raise ValueError(f"expected numbers of records from 0 and below {_TOO_LARGE}")

    @property
    def truth(self) -> tuple[Proportions, ...] | None:
        """The class shares of each client, where they are known."""
        if self.counts is None:
            return None
        return tuple(Proportions.of(np.array(row)) for row in self.counts)


@dataclass(frozen=True, slots=True)
class InteractionFacts:
    """Clients of a federation, the items shown to each, and the clicks where they are known."""

    federation: str
    """The name of the federation."""
    clients: tuple[str, ...]
    items: tuple[int, ...]
    """The number of items that each client was shown."""
    acted: tuple[tuple[int, ...], ...] | None
    """Positions of clicked items among those shown, by client; None if nobody said."""
    notes: tuple[str, ...] = ()
    """What was left out of the audit, in sentences."""
    sums: tuple[int, ...] = ()
    """Of each round that showed the server a sum alone, how many clients it sums up."""
    kind: Literal["interactions"] = "interactions"

    @property
    def truth(self) -> tuple[Interactions, ...] | None:
        """The items that each client interacted with, where they are known."""
        if self.acted is None:
            return None
        masks = [np.zeros(count, bool) for count in self.items]
        for mask, at in zip(masks, self.acted, strict=True):
            mask[list(at)] = True
        return tuple(map(Interactions, masks))


FederatedFacts = AssignmentFacts | CompositionFacts | InteractionFacts
"""Facts of an audit of a federation's clients."""

Facts = Annotated[MembershipFacts | FederatedFacts, pydantic.Field(discriminator="kind")]

F_co = TypeVar("F_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Generic[F_co]):
    """What was asked for, and what it is about: ``run.json`` of a run of any kind."""

    kind: str
    """The kind of run, by a name of `finished_runs.kinds.KINDS`."""
    name: str
    created: str
    """UTC, ISO 8601; empty in folders of kinds that did not keep it once."""
    challenge: str
    """Digest of all that attacks see, and of the truth; empty for a comparison of several."""
    seed: int
    """Of all random draws; 0 where there are none."""
    settings: dict[str, JSON]
    environment: dict[str, str]
    facts: F_co
    """What only such a run has."""
    attacks: tuple[str, ...] = ()
    """Labels of all attacks asked for, in order."""
    findings: tuple[Key, ...] = ()
    """Their keys, in an audit of one secret; the folder may hold others, of other settings."""
    divulge: str = BEFORE_NAMING
    schema: int = SCHEMA
    digests: dict[str, str] = field(default_factory=dict, compare=False)
    """By path in the run folder, the SHA-256 of files that are written once."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The truth and the labels, in the order in which attacks saw the candidates."""

    member: Bool[np.ndarray, " records"]
    label: Int[np.ndarray, " records"]
    """The class of each; for regression the fifth of its true value, from 0 for the lowest."""
    index: Int[np.ndarray, " records"]
    """The position among the members (or among the non-members) as the user gave them."""
    ids: Shaped[np.ndarray, " records"] | None = None
    """The user's own ids, as texts, empty where there is none; None if no column was named."""
    ease: Float64[np.ndarray, "measures records"] | None = None
    """How easy each is for what never saw it, in one way or several (higher: easier), or None."""
    person: Int[np.ndarray, " person_records"] | None = None
    """Where candidates are people: which of them each record is of. None where they are records."""
    subpopulation: Int[np.ndarray, " records"] | None = None
    """The subpopulation of each, by a number; None where exposure is not compared by any."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One attack: its finding, its controls and its guess."""

    finding: Finding
    control: Control | None = None
    """The controls of an attack on membership."""
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The guess: arrays of one dimension by name; empty unless the attack is done."""
    blind: BlindRun | None = None
    """The control of an attack on another secret: how it did on what was shuffled."""

    @property
    def untested(self) -> str:
        """Why the attack, although done, passed and failed no control; empty otherwise."""
        if self.finding.status is not Status.DONE:
            return ""
        tested = self.control or self.blind
        if tested is None:
            return "no control was run"
        if tested.outcome is not ControlOutcome.NOT_TESTED:
            return ""
        return tested.reason if isinstance(tested, BlindRun) else tested.untested

    @property
    def failed_control(self) -> bool:
        """Whether a control failed, so that figures mean nothing."""
        tested = self.control or self.blind
        return tested is not None and tested.outcome is ControlOutcome.FAILED

    @property
    def score(self) -> Float64[np.ndarray, " records"] | None:
        """The score of each candidate, where the secret is membership and the attack is done."""
        return self.arrays.get("score")


@dataclass(frozen=True, slots=True)
class Contents:
    """A whole run, as the report reads it."""

    head: Head[Facts]
    candidates: Candidates | None
    """None where the secret is not membership."""
    entries: tuple[Entry, ...]
    missing: tuple[str, ...] = ()
    """Attacks asked for that have no finding yet, because the run was interrupted."""

    @property
    def facts(self) -> Facts:
        """What the audit is about."""
        return self.head.facts

    def model(self) -> tuple[MembershipFacts, Candidates]:
        """The facts and the candidates of an audit of a model's membership."""
        assert isinstance(self.facts, MembershipFacts)
        assert self.candidates is not None
        return self.facts, self.candidates
