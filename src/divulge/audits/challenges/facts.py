"""What the run folder keeps of a challenge on membership: its checks, sizes and claim."""

from dataclasses import dataclass

from divulge.audits.people import claim_for_people
from divulge.audits.subject import AuditInputs
from divulge.audits.texts import USUAL, Completion, measure_texts
from divulge.checks import records as checks
from divulge.checks.duplicates import Copies, PoolCopies
from divulge.checks.question import CandidateEase, CheckInputs, SecondPredictions, SeenAnswers
from divulge.core import (
    Check,
    Claim,
    Game,
    Membership,
    MembershipFacts,
    ModelView,
    Need,
    PrivateTrainer,
    Records,
)
from divulge.core.people import PeopleFacts, StrataFacts
from divulge.core.records import STRATA
from divulge.core.runs import ShadowKind
from divulge.targets.model_parts import ModelKind
from divulge.training.shadows.plan import ShadowPlan


@dataclass(frozen=True, slots=True)
class AuditorKnowledge:
    """What the auditor knows besides the challenge."""

    answers: SeenAnswers
    """The model's predictions about the candidates."""
    shadows: ShadowPlan | None = None
    """All shadow models, trained already or not."""
    whole: ModelView | None = None
    """What only the auditor sees, where the attacker's view shows parts of the candidates."""
    class_names: tuple[str, ...] = ()
    claim: Claim | None = None
    copies: Copies | PoolCopies | None = None
    """Records that stood twice and are left out; None where features are unknown."""
    again: SecondPredictions | None = None
    """What the model says of some candidates when it is asked again, if it can be."""
    further: tuple[Check, ...] = ()
    """What was noticed before the model was asked anything."""
    model: str = ""
    """What kind of model it is, in a few words."""
    kind: ModelKind = ""
    """What it is, as far as advice depends on it."""
    declared: bool = False
    """Whether the user, and not the model, says that its answers are probabilities."""
    ease: CandidateEase | None = None
    """How easy each candidate is for what never saw it; None if nobody knows."""
    blind: str = ""
    """The column that says so; empty where models of the candidates do."""
    randomised: bool = False
    """Whether somebody says that members were drawn at random."""
    people: PeopleFacts | None = None
    """Where candidates are people, their records."""
    strata: StrataFacts | None = None
    """The subpopulations that exposure is compared by."""
    completion: Completion = USUAL
    """What a language model is to complete."""


def describe_facts(
    game: Game[ModelView, Membership],
    known: AuditorKnowledge,
    seed: int,
    delta: float,
) -> MembershipFacts:
    """What the run folder keeps of a challenge; all checks of its records are made here.

    Raises:
        DataError: the pool of the shadow models has other features than the candidates.
    """
    view, truth, plan = known.whole or game.view, game.truth, known.shadows
    person = view.records.people
    by_record = truth.member if person is None else truth.member[person]
    question = CheckInputs(
        view.records,
        by_record,
        view.reference,
        known.answers,
        features=knows_features(view),
        pool=None if plan is None else plan.pool,
        copies=known.copies,
        again=known.again,
        soft=Need.PROBABILITIES in view.offers,
        declared=known.declared,
        scores=Need.SCORES in view.offers,
        ease=known.ease,
        blind=known.blind,
    )
    return MembershipFacts(
        delta=delta,
        members=int(truth.member.sum()),
        nonmembers=int((~truth.member).sum()),
        reference=0 if view.reference is None else len(view.reference),
        classes=0 if view.records.regression else known.answers.classes,
        class_names=STRATA if view.records.regression else known.class_names,
        checks=(*checks.check_records(question, seed), *known.further),
        shadows=_shadow_kind(plan),
        claim=known.claim,
        drawn=truth.drawn,
        randomised=known.randomised or truth.drawn == "coins",
        known_members=0 if view.known_members is None else len(view.known_members),
        model=known.model,
        model_kind=known.kind,
        people=known.people,
        strata=known.strata,
        texts=measure_texts(game.view, by_record, known.completion, seed),
    )


def knows_features(view: ModelView) -> bool:
    """Whether something is known of the records besides what the model says of them.

    Of texts in a table that is so although nobody can ask the model about others.
    """
    return Need.FEATURES in view.offers or view.records.encoding is not None


def _shadow_kind(plan: ShadowPlan | None) -> ShadowKind:
    if plan is None:
        return "none"
    return "online" if plan.pool is None else "offline"


def promised_claim(plan: ShadowPlan | None, candidates: Records, members: int) -> Claim | None:
    """What training shadow models in the target's way promises for so many records."""
    if plan is None or not isinstance(plan.trainer, PrivateTrainer):
        return None
    plan.check(candidates)  # a guarantee names the way of clipping that the network needs
    promised = plan.trainer.guarantee(members)
    return Claim(promised, derived=True) if promised else None


def claim_of(subject: AuditInputs, most: int | None) -> tuple[Claim | None, tuple[Check, ...]]:
    """The claim that the audit holds its measurements against, and what is to be said of it.

    A claim for one record is turned into one for people with as many records as any has.

    Args:
        subject: the model and the records; its members are all of them.
        most: the largest number of records of one person; None where records are not grouped.
    """
    claim = promised_claim(subject.shadows, subject.members, len(subject.members))
    if subject.guarantee is not None:
        claim = Claim(subject.guarantee)
    return claim_for_people(claim, most)
