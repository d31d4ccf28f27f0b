"""The model under audit with its records, loaded but not yet asked anything."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from divulge.audits import data_sections, model_sections
from divulge.audits.checkpoints import Checkpoint
from divulge.audits.texts import USUAL, Completion
from divulge.core import (
    AnswerDefence,
    Check,
    Guarantee,
    MembershipDraw,
    Records,
    Target,
)
from divulge.core.people import SMALLEST_STRATUM
from divulge.data.augmentation import Augmentation
from divulge.data.ids import Ids
from divulge.data.known_features import KnownFeatures
from divulge.errors import SpecError
from divulge.metrics.people import PERSON_SCORES, Rule
from divulge.targets.defended import DefendedTarget
from divulge.training.shadows.plan import ShadowPlan


@dataclass(frozen=True, slots=True)
class AuditInputs:
    """What is to be audited, loaded but not yet asked anything."""

    target: Target
    members: Records
    nonmembers: Records
    reference: Records | None = None
    class_names: tuple[str, ...] = ()
    fingerprint: str | None = None
    """Identifies the model, so that answers on disk are never taken for another one's."""
    budget: int | None = None
    batch_size: int = 1024
    shadows: ShadowPlan | None = None
    thresholds: bool = False
    """Whether shadow models also choose thresholds."""
    augment: tuple[str | Augmentation, ...] = ()
    """Ways in which candidates are seen otherwise, for further queries."""
    guarantee: Guarantee | None = None
    """What is claimed for the model."""
    known: KnownFeatures | None = None
    """What the attacker knows of each candidate; None is all."""
    known_members: float | None = None
    """How many members the attacker knows: below 1 a share of them, else their number."""
    fitted_on: tuple[str, ...] = ()
    """Names of the features in the order of the model, if it knows them."""
    ids: Ids | None = None
    """The user's own, one a member."""
    drawn: MembershipDraw = "fixed"
    """How it was decided who is a member."""
    randomised: bool = False
    """Whether the user says so."""
    defence: AnswerDefence | None = None
    """What changes the model's answers before anybody sees them."""
    noticed: tuple[Check, ...] = ()
    """What the page says of how the data were read."""
    key: int = 0
    """The model's secret, from which the randomness of the defence follows."""
    ease: Float64[np.ndarray, "measures rows"] | None = None
    """Of a table: how easy each row is for what never saw it, by a column of its own."""
    blind: str = ""
    """The name of that column."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """The model during its training, in that order, without the last state."""
    person_scores: tuple[Rule, ...] = PERSON_SCORES
    """How a person's score is made of those of its records, where records are grouped by person."""
    subpopulations: tuple[str, ...] = ()
    """Names of the subpopulations that exposure is compared by."""
    smallest_stratum: int = SMALLEST_STRATUM
    """The fewest members, and non-members, of a subpopulation that is shown."""
    completion: Completion = USUAL
    """What a language model is to complete."""

    @property
    def by_person(self) -> bool:
        """Whether candidates are people with all their records."""
        return self.members.group is not None

    @property
    def sets(self) -> dict[str, Records | None]:
        """The sets of records by name; None where there is no such set."""
        return {
            "members": self.members,
            "nonmembers": self.nonmembers,
            "reference": self.reference,
            "the pool of shadow models": None if self.shadows is None else self.shadows.pool,
        }

    def behind(self, defence: AnswerDefence, key: int) -> "AuditInputs":
        """The same with an answer defence before the model, and before its shadows.

        Args:
            defence: what changes their answers.
            key: the model's secret; shadows have their own.
        """
        if self.checkpoints:
            raise SpecError(
                "expected no checkpoints beside an answer defence, got some: whoever has the "
                "model's checkpoints does not need its answers"
            )
        name = None if self.fingerprint is None else f"{self.fingerprint} {defence!r} {key}"
        DefendedTarget(self.target, defence, key)  # refuses a model that gives labels alone
        return replace(
            self,
            defence=defence,
            key=key,
            fingerprint=name,
            shadows=None if self.shadows is None else replace(self.shadows, answers=defence),
        )


def claimed_guarantee(
    spec: model_sections.TargetSpec | data_sections.PredictionsSpec,
) -> Guarantee | None:
    """The guarantee that settings claim for a model; None where they claim none."""
    if spec.epsilon is None or spec.delta is None:
        return None
    return Guarantee(spec.epsilon, spec.delta, noise=spec.noise, unit=spec.unit)
