"""The summary: everything that a report says, as plain data. Also the schema of summary.json.

The page, the figures and the Markdown are functions of this tree and of nothing else, so whoever
reads summary.json knows all that a reader of the page knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from divulge._util.json import Settings
from divulge.core import BlindRun, Check, ControlOutcome, Estimate, ShadowThreshold
from divulge.core.findings import TextFacts
from divulge.core.people import PeopleFacts
from divulge.report.parts import (
    AttackDifference,
    Brief,
    DecidingRate,
    ExposedRecords,
    Exposure,
    Strata,
    UnitFigures,
)

SCHEMA = 3

Level = Literal[
    "leak",
    "expected leak",
    "no leak found",
    "inputs doubtful",
    "undecided",
    "leak or shift",
    "confounded",
    "instrument failed",
    "nothing measured",
]

ClaimOutcome = Literal["consistent", "contradicted", "undecidable", "not measured"]
"""Result of a claim. It is undecidable if not even a model that leaks every record would contradict
it at this size."""

ShadowKind = Literal["none", "online", "offline"]
"""Whether there were shadow models, and whether they were trained on the candidates."""


@dataclass(frozen=True, slots=True)
class Limits:
    """One metric of all attacks that count, with intervals that hold for all of them at once."""

    attack: str
    """Label of the attack with the highest lower limit."""
    estimate: Estimate
    """Value of that attack, with its simultaneous 95 % interval."""
    most: float
    """The highest value of all attacks."""
    highest: float | None
    """The highest upper limit of all attacks: a leak of this size could still hide. None where
    the metric is a lower bound."""
    undecided: str
    """Why the lower limit means nothing at this number of records; empty if it does."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict."""

    level: Level
    headline: str
    sentences: tuple[str, str]
    """What was measured, with its interval, and what that does or does not mean."""
    sensitivity: str
    """What this audit could have seen with 80 % power; empty if nothing was measured, or rows,
    answers or labels make the inputs doubtful."""
    next_step: str
    """What to do after reading this."""
    confounding: str
    """Why figures measure more than the model's memory; empty if no check said so."""
    doubt: str
    """Why the inputs are doubtful, as a clause; empty if they are not."""
    supposition: str
    """What attacks suppose of the attacker beyond asking the model; empty if they suppose nothing.
    """
    warnings: tuple[str, ...]
    attack: str | None
    """Label of the deciding attack."""
    statistic: str | None
    """Name of the statistic that the first sentence speaks of."""
    p_value: float | None
    """The chance of evidence as strong as this from all attacks together where membership means
    nothing; exact, by permutation. Two-sided where attacks rank members below non-members. None if
    nothing was measured, or rows, answers or labels make the inputs doubtful."""
    tested: int
    """How many attacks were tested together."""
    limits: Mapping[str, Limits]
    """Limits by metric, over the attacks that passed their controls or, if none did, over all."""
    deciding_rate: DecidingRate | None = None
    """The rate that decides; None where it is not decided whether there is a leak."""
    critical: float | None = None
    """The critical deviation of the test, in standard deviations, which says what leaks it sees;
    None if nothing was measured."""


@dataclass(frozen=True, slots=True)
class Blind:
    """What tells members from non-members without the model."""

    check: str
    """The name of the check that tells them apart best."""
    auc: Estimate
    differs: bool
    """Whether chance fails to explain it."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many records there were, and how fine a rate they can show."""

    members: int
    nonmembers: int
    reference: int
    classes: int
    """Number of classes; 0 for a regression model, and 1 where nothing is known of classes, as in a
    table of losses or scores."""
    smallest_fpr: float | None
    """The FPR of one false accusation among all non-members; None if there are no non-members."""
    known_members: int = 0
    """How many members the attacker knows, which are not scored."""
    people: PeopleFacts | None = None
    """Where members and non-members are people, their records."""


@dataclass(frozen=True, slots=True)
class ControlRow:
    """How one attack did on its controls."""

    planted: Estimate | None
    """AUC on the planted leak; None if the attack did not run there."""
    sees: bool
    """Whether the attack found the planted leak."""
    covered: int
    """Number of shuffles of membership whose AUC interval covered one half."""
    shuffles: int
    """Number of shuffles of membership."""
    calm: bool
    """Whether the attack found nothing where membership was shuffled."""
    outcome: ControlOutcome
    """How all controls ended together: one that failed counts before one not tested."""
    reason: str
    blind: BlindRun | None = None
    """Result with the target's answers shuffled; None in runs older than this control."""


@dataclass(frozen=True, slots=True)
class RocCurve:
    """A ROC curve: the TPR at each FPR, with the 95 % interval that tables print for it.

    Each interval holds for its point alone. Between two points the curve is drawn flat and then
    steps up, so what is drawn is never above what the attack achieved.
    """

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AttackRow:
    """One attack that was asked for, whatever became of it."""

    label: str
    attack: str
    paper: str
    settings: Settings
    status: Literal["done", "not applicable", "failed", "missing"]
    reason: str
    metrics: Mapping[str, Estimate]
    unmeasured: Mapping[str, str]
    control: ControlRow | None
    queries: int
    seconds: float
    roc: RocCurve | None
    shadow_thresholds: tuple[ShadowThreshold, ...] = ()
    """Thresholds that shadow models chose, and what they achieve; empty if none were asked for."""
    beyond_blind: Estimate | None = None
    """Its AUC less that of `Blind`; None where there is none, or the attack is not done."""

    @property
    def sound(self) -> bool:
        """Whether the attack failed no control."""
        return self.control is None or self.control.outcome is not ControlOutcome.FAILED


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """The differential-privacy guarantee claimed for the model, beside what was measured."""

    epsilon: float
    """Claimed ε at ``delta``, for adding or removing one record."""
    delta: float
    mechanism: str
    """Mechanism that the claim rests on; empty if nobody named it."""
    derived: bool
    """Whether the claim is the guarantee of the shadows' trainer, since nobody stated one."""
    outcome: ClaimOutcome
    bound: Estimate | None
    """The highest lower bound on that ε, at the same δ, of all attacks that passed their controls;
    corrected for having chosen it."""
    attack: str | None
    """Label of the attack that shows it."""
    largest: float | None
    """The bound of a model that leaks every record, at this size; None if not measured."""
    needed: int | None
    """Number of records, half of them members, with which such a model would contradict an
    undecidable claim; None for other claims, or if no number of records would do."""
    sentence: str
    """What this means."""


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Something that this audit does not say, and why."""

    kind: Literal["attack", "metric", "control", "scope"]
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do about a leak."""

    what: str
    """Name of a defence, or what to do."""
    why: str
    cost: str


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What another person needs to run the audit again."""

    divulge: str
    created: str
    seed: int
    delta: float
    challenge: str
    settings: Settings
    environment: Mapping[str, str]
    model: str = ""
    """What kind of model was asked; empty where the run does not say."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole report."""

    schema: int
    name: str
    verdict: Conclusion
    sizes: Sizes
    attacks: tuple[AttackRow, ...]
    """One row an attack, in the order in which attacks were requested."""
    exposure: Exposure | None
    """Details of the deciding attack; None if no attack is done."""
    exposed: ExposedRecords
    claim: ClaimRow | None
    """The claimed guarantee; None if nobody claims one."""
    checks: tuple[Check, ...]
    not_measured: tuple[NotMeasured, ...]
    reproduction: Reproduction
    brief: Brief
    """The top of the page."""
    blind: Blind | None = None
    """None where nothing is known of the records but the model's answers."""
    remedies: tuple[Remedy, ...] = ()
    """What to do about a leak, the cheapest first; empty where none was found."""
    texts: TextFacts | None = None
    """What was measured of the texts of a language model besides; None of other models."""
    strata: Strata | None = None
    """Exposure by stratum; None where no strata were given."""
    units: UnitFigures | None = None
    """Figures by person and by record; None where records were audited."""
    differences: tuple[AttackDifference, ...] = ()
    """The deciding attack less each other one; empty where figures cannot be compared."""
