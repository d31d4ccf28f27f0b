"""Train the chosen model with records that the search never touched, and audit it on these."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from divulge._util import atomic
from divulge._util.digest import digest
from divulge._util.progress import Track
from divulge._util.random import stream
from divulge.audits.api import audit_subject
from divulge.audits.people import FEWEST
from divulge.audits.result import Audit
from divulge.audits.runner import RunHeading
from divulge.audits.subject import AuditInputs
from divulge.core import MembershipAttack, PrivateTrainer, Records, Target, Trainer
from divulge.errors import DataError, MissingExtra, SpecError
from divulge.finished_runs.run_folder import Run, open_run_folder
from divulge.metrics.people import PERSON_SCORES, Rule
from divulge.studies.compare.defences import Variant
from divulge.studies.compare.export import with_noise
from divulge.studies.compare.model_files import model_files
from divulge.studies.harden.config import SearchSettings
from divulge.studies.harden.looks import SearchedModels
from divulge.studies.harden.result import AUDIT, FILE, MODEL
from divulge.targets.encoded import EncodedTarget
from divulge.targets.files import fingerprint_file, load_target
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import Workers


@dataclass(frozen=True, slots=True)
class BesideKnown:
    """A trainer whose models are all trained on some further records too.

    Args:
        trainer: trains them.
        always: what each is trained on besides its own records.
    """

    trainer: Trainer
    always: Records

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """See `divulge.core.Trainer.many`."""
        everywhere = np.ones((len(subsets), len(self.always)), bool)
        rows = np.concatenate([subsets, everywhere], axis=1)
        yield from self.trainer.many(pool.joined(self.always), rows, seeds)


@dataclass(frozen=True, slots=True)
class FreshRecords:
    """The records of the final model, by what is known of them."""

    searched: Records
    """Those that the search has seen; all of them train the final model."""
    fresh: Records
    """Those that it has not; a fair coin for each decides whether it trains the final model."""
    member: Bool[np.ndarray, " fresh"]
    reference: Records | None
    person_scores: tuple[Rule, ...] = PERSON_SCORES
    """How a person's score is made of those of its records, where records are grouped by person."""


@dataclass(frozen=True, slots=True)
class HardenDesign:
    """What is asked of a search for a model, with its records loaded."""

    models: SearchedModels
    """Of the search; their folder is that of the run."""
    settings: SearchSettings
    class_names: tuple[str, ...]
    records: FreshRecords
    final_attacks: tuple[MembershipAttack, ...]


def split_records(records: Records, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the records of the search, and of the fresh ones; whole people where grouped.

    Args:
        records: all.
        share: of the fresh ones: of records, or of people.
        seed: of the split.

    Raises:
        DataError: there are too few people for both.
    """
    person = records.people
    count = len(records) if person is None else int(person.max()) + 1
    order = stream(seed, "fresh records").permutation(count)
    fresh = round(share * count)
    if person is None:
        return np.sort(order[fresh:]), np.sort(order[:fresh])
    if min(fresh, count - fresh) < FEWEST:
        raise DataError(
            f"expected at least {FEWEST} people in the search and {FEWEST} fresh ones, got "
            f"{count - fresh} and {fresh}: give records of more people"
        )
    is_fresh = np.isin(person, order[:fresh])
    return np.flatnonzero(~is_fresh), np.flatnonzero(is_fresh)


def draw_members(fresh: Records, seed: int) -> Bool[np.ndarray, " fresh"]:
    """Which fresh records train the final model: a fair coin for each, or for each person."""
    rng, person = stream(seed, "fresh members"), fresh.people
    if person is None:
        return rng.random(len(fresh)) < 0.5
    drawn: Bool[np.ndarray, " fresh"] = (rng.random(int(person.max()) + 1) < 0.5)[person]
    return drawn


def train_final(variant: Variant, records: FreshRecords, folder: Path, seed: int) -> Path | Target:
    """The path of the final model's file; one that is there is not trained again.

    Only the program of a network answers from its file as it did before. Other models are audited
    as they are in memory, and written to a file where there is a format.

    Where training adds noise for a promise, the noise is secure: the file is for use.

    Raises:
        TargetError: it could not be trained.
        MissingExtra: cryptography is not installed, which secure noise needs.
        StoreError: the files cannot be written.
    """
    place = folder / MODEL / FILE
    if place.exists():
        return place
    pool = records.searched.joined(records.fresh)
    subset = np.concatenate([np.ones(len(records.searched), bool), records.member])
    trainer = with_noise(variant.plan.trainer, "secure")
    own = int(stream(seed, "final model").integers(2**31))
    (model,) = trainer.many(pool, subset[None], [own])
    model = model.target if isinstance(model, EncodedTarget) else model
    try:
        files = dict(model_files(model, pool))
    except (SpecError, MissingExtra):  # what has no format is trained with the settings found
        files = {}
    for name in sorted(files, key=lambda name: name == FILE):  # the file that counts comes last
        atomic.write_within(folder, f"{MODEL}/{name}", files[name])
    return place if FILE in files else model


def audit_final(
    variant: Variant,
    records: FreshRecords,
    final: Path | Target,
    folder: Path,
    attacks: tuple[MembershipAttack, ...],
    heading: RunHeading,
    shadows: int,
    class_names: tuple[str, ...],
    track: Track[Any],
    workers: Workers,
) -> Audit:
    """A whole audit of the final model, by its file or as it is, on the fresh records.

    What is there is not computed again.

    Its shadow models are trained as it was: on all records of the search, and on random halves of
    the fresh ones.
    """
    plan = variant.plan
    trained_on = len(records.searched) + int(records.member.sum())
    trainer: object = with_noise(plan.trainer, "secure")  # as the final model was trained
    beside = digest("beside", records.searched.x, records.searched.y)
    target, mark = final, f"{plan.fingerprint} {beside} {heading.seed}"
    if isinstance(final, Path):
        target, mark = load_target(final, "logits"), fingerprint_file(final)
    assert not isinstance(target, Path)
    subject = AuditInputs(
        target=target,
        members=records.fresh.take(records.member),
        nonmembers=records.fresh.take(~records.member),
        reference=records.reference,
        class_names=class_names or tuple(map(str, records.fresh.classes)),
        person_scores=records.person_scores,
        fingerprint=mark,
        shadows=ShadowPlan(
            BesideKnown(plan.trainer, records.searched),
            shadows,
            fingerprint=f"{plan.fingerprint} {beside}",
        ),
        guarantee=trainer.guarantee(trained_on) if isinstance(trainer, PrivateTrainer) else None,
        drawn="coins",
    )
    if plan.answers is not None:
        key = int(stream(heading.seed, "key of answers").integers(2**31))
        subject = subject.behind(plan.answers, key)
    with open_run_folder(folder / AUDIT, resume=True) as run:
        assert isinstance(run, Run)
        return audit_subject(subject, attacks, heading, None, run, track, workers)
