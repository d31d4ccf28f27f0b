"""What is to be compared: one question for each defence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from divulge.audits.options import Rotation
from divulge.audits.runner import RunHeading
from divulge.core import Head, MembershipAttack
from divulge.data import records as data_records
from divulge.errors import SpecError, did_you_mean
from divulge.finished_runs.run_json import new_head
from divulge.metrics.people import PERSON_SCORES, Rule
from divulge.studies.compare import config, defences
from divulge.studies.compare.defences import Variant
from divulge.studies.compare.result import ComparisonFacts
from divulge.studies.compare.variant import VariantRecord
from divulge.studies.leave_one_out.design import (
    LeaveOneOutDesign,
    RecordPool,
    design_leave_one_out,
    read_pool,
)
from divulge.targets.model_parts import versions_of

FOLDER = "defences"


@dataclass(frozen=True, slots=True)
class ComparisonDesign:
    """What is to be compared, loaded."""

    questions: tuple[tuple[Variant, LeaveOneOutDesign], ...]
    head: Head[ComparisonFacts]

    def question(self, name: str) -> LeaveOneOutDesign:
        """That of the defence of this name.

        Raises:
            SpecError: there is none.
        """
        for variant, question in self.questions:
            if variant.name == name:
                return question
        hint = did_you_mean(name, [variant.name for variant, _ in self.questions])
        raise SpecError(f"expected the name of a defence to be compared, got {name!r}: {hint}")


def design_from_config(settings: config.CompareSpec, folder: Path) -> ComparisonDesign:
    """What settings ask, with its records loaded.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    attacks = config.attacks(settings, folder)
    entered = defences.variants_from_config(settings, folder)
    ways = data_records.resolve_augmentations(settings.augment, folder)
    shown = settings.model_dump(mode="json", exclude_defaults=True)
    return design_comparison(
        entered,
        read_pool(settings.data, folder),
        Rotation(settings.models, settings.targets, settings.shadows, ways),
        attacks,
        RunHeading(settings.name, settings.seed, shown),
        class_names=settings.data.class_names,
        lambdas=settings.lambdas,
        person_scores=settings.data.person_scores,
    )


def design_comparison(
    variants: Sequence[Variant],
    pool: RecordPool,
    rotation: Rotation,
    attacks: tuple[MembershipAttack, ...],
    heading: RunHeading,
    *,
    lambdas: tuple[float, ...],
    class_names: tuple[str, ...] = (),
    delta: float | None = None,
    person_scores: tuple[Rule, ...] = PERSON_SCORES,
) -> ComparisonDesign:
    """Audits in turn for each variant; they differ in the way to train and to answer alone.

    Args:
        variants: the ways to train.
        pool: all records.
        rotation: how many models are audited, and compared with how many.
        attacks: on each target.
        heading: the name of the comparison, the seed, and the settings as the user gave them.
        lambdas: weights of privacy.
        class_names: empty, or one name a class.
        delta: δ of the bound on ε; None is that of each trainer's guarantee, or 0.
        person_scores: how a person's score is made of those of its records, where records are
            grouped by person.

    Raises:
        DivulgeError: an audit in turn cannot be made.
    """
    questions = tuple(
        (
            variant,
            design_leave_one_out(
                pool,
                variant.plan,
                rotation,
                attacks,
                RunHeading(
                    f"{heading.name}: {variant.name}", heading.seed, {"defence": variant.name}
                ),
                class_names=class_names,
                delta=delta,
                person_scores=person_scores,
            ),
        )
        for variant in variants
    )
    facts = ComparisonFacts(
        lambdas,
        tuple(
            VariantRecord(
                variant.name,
                _audit_folder(variant, question),
                _describe_training(variant),
                variant.network,
                _keeps_labels_of(variant, variants[0]),
            )
            for variant, question in questions
        ),
    )
    labels = questions[0][1].head.attacks
    libraries = versions_of(pool.records, *(variant.plan for variant in variants))
    head = new_head(
        "comparison", *heading, challenge="", facts=facts, attacks=labels, libraries=libraries
    )
    return ComparisonDesign(questions, head)


def _audit_folder(variant: Variant, question: LeaveOneOutDesign) -> str:
    """The folder of a variant's audits, named after all that its models' answers depend on."""
    slug = re.sub(r"[^a-z0-9]+", "-", variant.name.lower()).strip("-")[:40] or "defence"
    return f"{FOLDER}/{slug}-{question.head.challenge[:12]}"


def _keeps_labels_of(variant: Variant, first: Variant) -> bool:
    """Whether both train alike, and no answer defence of theirs ever changes a label."""
    behind = [rival.plan.answers for rival in (variant, first) if rival.plan.answers is not None]
    return variant.plan.fingerprint == first.plan.fingerprint and all(
        defence.keeps_label for defence in behind
    )


def _describe_training(variant: Variant) -> str:
    behind = variant.plan.answers
    trainer = type(variant.plan.trainer).__name__
    return trainer if behind is None else f"{trainer}, answers by {behind!r}"
