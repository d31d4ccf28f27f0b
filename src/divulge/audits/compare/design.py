"""What is to be compared: one question for each defence."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from divulge.audits.compare import config, defences
from divulge.audits.compare.defences import Variant
from divulge.audits.compare.result import ComparisonManifest, VariantRecord
from divulge.audits.leave_one_out.design import LeaveOneOutDesign, design_leave_one_out, read_pool
from divulge.audits.run_folder import describe_environment
from divulge.core import Records
from divulge.data import records as data_records
from divulge.errors import SpecError, did_you_mean

FOLDER = "defences"


@dataclass(frozen=True, slots=True)
class ComparisonDesign:
    """What is to be compared, loaded."""

    questions: tuple[tuple[Variant, LeaveOneOutDesign], ...]
    plan: ComparisonManifest

    def question(self, name: str) -> LeaveOneOutDesign:
        """That of the defence of this name.

        Raises:
            SpecError: there is none.
        """
        for rival, one in self.questions:
            if rival.name == name:
                return one
        hint = did_you_mean(name, [rival.name for rival, _ in self.questions])
        raise SpecError(f"expected the name of a defence to be compared, got {name!r}: {hint}")


def design_from_config(settings: config.CompareSpec, folder: Path) -> ComparisonDesign:
    """What settings ask, with its records loaded.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    attacks = config.attacks(settings)
    entered = defences.variants_from_config(settings, folder)
    records, reference, ids = read_pool(settings.data, folder)
    return design_comparison(
        entered,
        records,
        reference,
        ways=data_records.resolve_augmentations(settings.augment, folder),
        targets=settings.targets,
        shadows=settings.shadows,
        attacks=attacks,
        class_names=settings.data.class_names,
        ids=ids,
        lambdas=settings.lambdas,
        settings=settings.model_dump(mode="json", exclude_defaults=True),
        seed=settings.seed,
        name=settings.name,
    )


def design_comparison(
    entered: Sequence[Variant],
    records: Records,
    reference: Records | None,
    *,
    lambdas: tuple[float, ...],
    settings: dict[str, Any],
    seed: int,
    name: str,
    **common: Any,
) -> ComparisonDesign:
    """One question for each rival; they differ in the way to train and to answer alone.

    Args:
        entered: the rivals.
        records: all of them.
        reference: further ones.
        lambdas: weights of privacy.
        settings: as the user gave them.
        seed: of every random choice.
        name: of the comparison.
        common: see `divulge.audits.leave_one_out.design.design_leave_one_out`.

    Raises:
        DivulgeError: a question cannot be asked.
    """
    questions = tuple(
        (
            rival,
            design_leave_one_out(
                records,
                reference,
                rival.plan,
                settings={"defence": rival.name},
                seed=seed,
                delta=None,
                name=f"{name}: {rival.name}",
                **common,
            ),
        )
        for rival in entered
    )
    plan = ComparisonManifest(
        name=name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        seed=seed,
        lambdas=lambdas,
        defences=tuple(
            VariantRecord(
                rival.name,
                _audit_folder(rival, one),
                _describe_training(rival),
                rival.network,
                _keeps_labels_of(rival, entered[0]),
            )
            for rival, one in questions
        ),
        settings=settings,
        environment=describe_environment(),
        divulge=version("divulge"),
    )
    return ComparisonDesign(questions, plan)


def _audit_folder(rival: Variant, asked: LeaveOneOutDesign) -> str:
    """The folder of a rival's audits, named after all that its models' answers depend on."""
    slug = re.sub(r"[^a-z0-9]+", "-", rival.name.lower()).strip("-")[:40] or "defence"
    return f"{FOLDER}/{slug}-{asked.plan.challenge[:12]}"


def _keeps_labels_of(rival: Variant, first: Variant) -> bool:
    """Whether both train alike, and no answer defence of theirs ever changes a label."""
    behind = [one.plan.answers for one in (rival, first) if one.plan.answers is not None]
    return rival.plan.fingerprint == first.plan.fingerprint and all(
        one.keeps_label for one in behind
    )


def _describe_training(rival: Variant) -> str:
    behind = rival.plan.answers
    trainer = type(rival.plan.trainer).__name__
    return trainer if behind is None else f"{trainer}, answers by {behind!r}"
