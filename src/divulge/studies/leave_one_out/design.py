"""What is to be trained, and who is compared with whom."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from divulge.audits import config, data_sections, inputs
from divulge.audits.challenges.facts import promised_claim
from divulge.audits.from_arguments import GivenSets, read_sets
from divulge.audits.options import Rotation
from divulge.audits.people import check_groups, claim_for_people, count_most_records
from divulge.audits.requested_attacks import requested_attacks
from divulge.audits.runner import RunHeading, check_attacks
from divulge.checks import duplicates
from divulge.checks.duplicates import PoolCopies, Positions
from divulge.core import Head, MembershipAttack, Need, Records
from divulge.data import augmentation
from divulge.data import groups as grouping
from divulge.data import records as data_records
from divulge.data.ids import Ids, as_ids
from divulge.errors import DataError, SpecError
from divulge.finished_runs.run_json import new_head
from divulge.metrics.people import PERSON_SCORES, Rule
from divulge.secrets import wrapped
from divulge.studies.leave_one_out import result
from divulge.targets.model_parts import versions_of
from divulge.training.shadows.plan import ShadowPlan, shadow_key
from divulge.training.trainers import trains_regression


@dataclass(frozen=True, slots=True)
class LeaveOneOutDesign:
    """What is to be trained, and who is compared with whom."""

    shadows: ShadowPlan
    """All models, targets included."""
    queries: tuple[Records, ...]
    reference: bool
    """Whether the last query is of reference records."""
    head: Head[result.LeaveOneOutFacts]
    attacks: tuple[MembershipAttack, ...]
    class_names: tuple[str, ...]
    delta: float
    index: Positions
    """Where each candidate stands among the records as they were given."""
    ids: Ids | None = None
    """The user's own, one a record."""
    person_scores: tuple[Rule, ...] = PERSON_SCORES
    """How a person's score is made of those of its records, where records are grouped by person."""

    def others(self, target: int) -> list[int]:
        """The models that a target is compared with: those that follow it, as on a clock."""
        facts = self.head.facts
        return sorted((target + 1 + j) % facts.models for j in range(facts.shadows))


class RecordPool(NamedTuple):
    """All records, members or not."""

    records: Records
    reference: Records | None
    ids: Ids | None
    """The user's own; None if no column was named."""


def design_leave_one_out(
    pool: RecordPool,
    plan: ShadowPlan,
    rotation: Rotation,
    attacks: tuple[MembershipAttack, ...],
    heading: RunHeading,
    *,
    class_names: tuple[str, ...] = (),
    delta: float | None = None,
    person_scores: tuple[Rule, ...] = PERSON_SCORES,
) -> LeaveOneOutDesign:
    """The audits in turn, if they can be made; records that stand twice are left out.

    Args:
        pool: all records.
        plan: how models are trained and answer.
        rotation: how many are audited, and compared with how many; its ways to ask are resolved.
        attacks: on each target.
        heading: the name of the run, the seed, and the settings as the user gave them.
        class_names: empty, or one name a class.
        delta: δ of the bound on ε; None is that of the trainer's guarantee, or 0.
        person_scores: how a person's score is made of those of its records, where records are
            grouped by person.

    Raises:
        SpecError: there are too few models for it, or an attack stands there twice.
        DataError: the records cannot be seen in these ways, the reference is mostly these, or
            people stand in both.
    """
    check_attacks(attacks)
    targets, shadows = _count_targets_and_shadows(plan.models, rotation)
    given = set_copies_aside(pool)
    records, reference = given.records, given.reference
    person = records.people
    if person is not None:
        attacks = wrapped.attack_people(attacks, person_scores)
    if delta is None:
        claim = promised_claim(plan, records, len(records) // 2)
        claim, _ = claim_for_people(claim, count_most_records(records))
        delta = claim.guarantee.delta if claim else 0.0
    queries = (records, *augmentation.augment(records, tuple(rotation.augment)))
    queries += () if reference is None else (reference,)
    return LeaveOneOutDesign(
        shadows=plan,
        queries=queries,
        reference=reference is not None,
        head=new_head(
            "leave-one-out",
            *heading,
            challenge=_challenge_digest(plan, queries, heading.seed, given),
            facts=result.LeaveOneOutFacts(
                plan.models,
                targets,
                shadows,
                len(records),
                given.copies,
                None if person is None else int(person.max()) + 1,
            ),
            attacks=tuple(map(wrapped.attack_label, attacks)),
            libraries=versions_of(plan, records),
        ),
        attacks=attacks,
        class_names=class_names,
        delta=delta,
        index=given.positions,
        ids=given.ids,
        person_scores=person_scores,
    )


def _count_targets_and_shadows(models: int, rotation: Rotation) -> tuple[int, int]:
    """How many models are audited, and compared with how many others.

    Raises:
        SpecError: there are too few models for it.
    """
    targets = models if rotation.targets is None else rotation.targets
    shadows = models - 1 if rotation.shadows is None else rotation.shadows
    for what, number, least, most in (
        ("models", models, 3, models),
        ("targets", targets, 2, models),
        ("shadows", shadows, 1, models - 1),
    ):
        if not least <= number <= most:
            raise SpecError(
                f"expected {what} from {least}{f' to {most}' if most >= least else ''}, got "
                f"{number}, of {models} models: an audit in turn needs several"
            )
    return targets, shadows


def pool_from(
    records: Any, reference: Any, ids: Any, *, groups: Any = None, values: bool = False
) -> RecordPool:
    """The pool that Python users name.

    Args:
        records: a pair (x, y) or ``divulge.Records``.
        reference: further ones, or None.
        ids: the user's own, one a record, or None.
        groups: whose record each is, as of `divulge.leave_one_out`.
        values: whether labels are true values that regression models are to answer.

    Raises:
        DataError: they are none, or do not fit.
    """
    read = partial(data_records.as_records, values=values)
    if reference is None and not (groups is None or isinstance(groups, str | Mapping)):
        groups = {"records": groups}
    pairs = {"records": records, "reference": reference}
    sets, _ = read_sets(pairs, GivenSets(None, None, groups=groups), read)
    given, own = sets["records"], sets["reference"]
    assert given is not None
    pool, known = data_records.make_alike(given, own)
    return RecordPool(
        pool,
        known,
        None if ids is None else as_ids(ids, len(pool), "ids"),
    )


class DistinctRecords(NamedTuple):
    """A pool in which no record stands twice, nor in the reference."""

    records: Records
    reference: Records | None
    ids: Ids | None
    positions: Positions
    """Where each record stands in the pool as it was given."""
    copies: PoolCopies


def set_copies_aside(given: RecordPool) -> DistinctRecords:
    """The pool without the records that repeat an earlier one, the reference without the pool's.

    Raises:
        DataError: the reference is empty, mostly the pool, or of people who stand in the pool.
    """
    records, reference, ids = given
    check_groups({"records": records, "reference": reference}, ("records",))
    if reference is not None and not len(reference):
        raise DataError("expected records in reference, got none: pass some, or no reference")
    distinct = duplicates.find_copies_in_pool(records, reference)
    duplicates.check_pool(distinct.copies)
    if distinct.copies.repeated:
        records = records.take(distinct.records)
        ids = None if ids is None else ids[distinct.records]
    if reference is not None and distinct.copies.known:
        reference = reference.take(distinct.reference)
    return DistinctRecords(records, reference, ids, distinct.records, distinct.copies)


def _challenge_digest(
    plan: ShadowPlan, queries: Sequence[Records], seed: int, given: DistinctRecords
) -> str:
    """What the answers depend on, and the positions under which records are reported."""
    key = shadow_key(plan, queries, seed)
    if not given.copies.repeated:
        return key
    digest = hashlib.blake2b(key.encode(), digest_size=16)
    digest.update(given.positions.tobytes())
    return digest.hexdigest()


def read_pool(data: data_sections.DataSpec, folder: Path, *, values: bool = False) -> RecordPool:
    """All records that settings name, and reference records.

    Args:
        data: the settings.
        folder: where relative paths start.
        values: whether labels are true values that regression models are to answer.

    Raises:
        DivulgeError: there are none of these names, or of different shapes.
    """
    names = [data.records] if data.records else [str(data.members), str(data.nonmembers)]
    all_names = [*names, data.reference] if data.reference else names
    sets = data_records.load_record_sets(
        all_names, data.label, folder, data.besides(), values=values
    )
    if data.group is not None:
        places = dict(zip(all_names, sets, strict=True))
        groups = {name: grouping.read_values(name, data.group, folder) for name in places}
        attached, _ = grouping.attach(places, groups, None)
        sets = [part for name in all_names if (part := attached[name]) is not None]
    own_reference = sets.pop() if data.reference else None
    first, second = data_records.make_alike(sets[0], sets[1] if len(sets) > 1 else None)
    records, reference = data_records.make_alike(
        first if second is None else first.joined(second), own_reference
    )
    if not data.id:
        return RecordPool(records, reference, None)
    own = [inputs.ids_of(*each, data.id, folder) for each in zip(names, sets, strict=True)]
    return RecordPool(records, reference, np.concatenate(own))


def design_from_config(settings: config.LeaveOneOutAuditSpec, folder: Path) -> LeaveOneOutDesign:
    """The question that settings ask, with its records loaded.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    section, data = settings.leave_one_out, settings.data
    answers = inputs.answer_defence_from_config(section.answers)
    plan = inputs.plan_shadows(
        section.train, section.models, section.output, folder, answers=answers
    )
    regression = trains_regression(plan.trainer)
    shown = settings.model_dump(mode="json", exclude_defaults=True)
    return design_leave_one_out(
        read_pool(data, folder, values=regression),
        plan,
        Rotation(
            section.models,
            section.targets,
            section.shadows,
            data_records.resolve_augmentations(section.augment, folder),
        ),
        requested_attacks(settings, folder, Need.VALUES if regression else Need.NONE),
        RunHeading(settings.name, settings.seed, shown),
        class_names=data.class_names,
        delta=settings.metrics.delta,
        person_scores=data.person_scores,
    )
